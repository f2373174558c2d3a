package capture

import (
	"bytes"
	"encoding/binary"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// erfRecord returns an ERF record: a type, this number of extension headers, pad and the
// packet, with this number of octets after it.
func erfRecord(kind byte, extensions int, pad []byte, packet []byte, wire, trailer int) []byte {
	b := words(le, uint32(0x80000000), uint32(1795254649)) // half a second, seconds
	if extensions > 0 {
		kind |= 0x80
	}
	b = append(b, kind, 0x04)
	size := 16 + 8*extensions + len(pad) + len(packet) + trailer
	b = append(b, words(binary.BigEndian, uint16(size), uint16(0), uint16(wire))...)
	for i := range extensions {
		more := byte(0x80)
		if i == extensions-1 {
			more = 0
		}
		b = append(b, more|3, 0, 0, 0, 0, 0, 0, 7)
	}
	b = append(append(b, pad...), packet...)
	return append(b, make([]byte, trailer)...)
}

// erfPcap lays out a capture of ERF records.
func erfPcap(order binary.ByteOrder, records ...[]byte) []byte {
	file := words(order, pcapMicro, uint16(2), uint16(4), 0, 0, 65535, 197)
	for i, b := range records {
		file = append(file, words(order, 1795254649+i, 500000, len(b), len(b), b)...)
	}
	return file
}

func erfPcapng(records ...[]byte) []byte {
	file := append(section(le), block(le, blockInterface, uint16(197), uint16(0), 0)...)
	for _, b := range records {
		file = append(file, block(le, blockEnhanced, 0, 0, 5, len(b), len(b), b)...)
	}
	return file
}

var pad = []byte{0, 0}

// ERF records, octet by octet.
func TestERF(t *testing.T) {
	frame := wiretest.Hex(t, `020000000001 020000000002 88b5 0102030405060708`)
	fcs := append(bytes.Clone(frame), 0xDE, 0xAD, 0xBE, 0xEF)
	for _, row := range []struct {
		name   string
		record []byte
		want   []byte
		orig   uint32
		link   uint32
	}{
		{"Ethernet", wiretest.Hex(t, `00000080 79baf06a 02 04 0030 0000 001a 0000 020000000001 020000000002 88b5
			0102030405060708 deadbeef 00000000`), fcs, 26, Ethernet},
		{"an extension header", wiretest.Hex(t, `00000080 79baf06a 82 04 0030 0000 0016 03000000 00000007 0000
			020000000001 020000000002 88b5 0102030405060708`), frame, 22, Ethernet},
		{"colored", erfRecord(11, 0, pad, frame, 22, 0), frame, 22, Ethernet},
		{"DSM", erfRecord(16, 3, pad, frame, 22, 8), frame, 22, Ethernet},
		{"hash", erfRecord(20, 1, pad, frame, 22, 0), frame, 22, Ethernet},
		{"truncated by the snapshot length", erfRecord(2, 0, pad, frame[:16], 1500, 0), frame[:16], 1500, Ethernet},
		{"IPv4", erfRecord(22, 1, nil, frame[:20], 20, 4), frame[:20], 20, Raw},
		{"IPv6", erfRecord(23, 0, nil, frame[:20], 20, 0), frame[:20], 20, Raw},
		{"metadata", erfRecord(27, 1, nil, frame, 22, 0), []byte{}, 0, Ethernet},
		{"nothing but pad", erfRecord(2, 0, pad, nil, 60, 0), []byte{}, 60, Ethernet},
		{"truncated padding", erfRecord(2, 0, pad, nil, 60, 0)[:17], []byte{}, 60, Ethernet},
		{"truncated extensions", erfRecord(2, 2, pad, nil, 60, 0)[:31], []byte{}, 60, Ethernet},
		{"extension absent", erfRecord(2, 1, nil, nil, 60, 0)[:16], []byte{}, 60, Ethernet},
		{"InfiniBand", erfRecord(21, 0, nil, frame, 22, 0), erfRecord(21, 0, nil, frame, 22, 0), 38, 197},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, file := range [][]byte{erfPcap(le, row.record), erfPcap(binary.BigEndian, row.record),
				erfPcapng(row.record)} {
				got, err := read(file)
				require.NoError(t, err)
				require.Len(t, got, 1)
				require.Equal(t, row.want, append([]byte{}, got[0].Data...))
				require.Equal(t, row.link, got[0].Link)
				require.Equal(t, row.orig, got[0].OrigLen)
				require.Equal(t, row.link != 197, got[0].Supported())
			}
		})
	}
	whole := erfRecord(2, 2, pad, frame, 22, 0)
	for n := range whole { // cut anywhere it is the start of the frame
		got := wiretest.Must(read(erfPcap(le, whole[:n])))(t)
		require.Equal(t, frame[:max(n-16-16-2, 0)], append([]byte{}, got[0].Data...), n)
		require.Equal(t, Ethernet, got[0].Link)
		require.True(t, got[0].Truncated() || n == 0, n)
	}
}

// tshark reads the same packets in ERF records.
func TestERFAgreesWithTshark(t *testing.T) {
	tshark := wiretest.Tool(t, "tshark")
	var records [][]byte
	types := []byte{2, 11, 16, 20}
	for _, name := range []string{"messages.pcap", "rxe-vlan4.pcap", "rxe-verbs6.pcap"} {
		for i, p := range wiretest.Capture(t, name) {
			data := p.Data
			if i%5 == 4 {
				data = data[:len(data)*3/4]
			}
			records = append(records, erfRecord(types[i%4], i%3, pad, data, len(p.Data), 8*(i/7%2)))
			if p.Data[12] == 0x86 {
				records = append(records, erfRecord(23, i%2, nil, p.Data[14:], len(p.Data)-14, 0))
			}
		}
	}
	for _, c := range []struct {
		name string
		file []byte
	}{{"pcap", erfPcap(le, records...)}, {"pcapng", erfPcapng(records...)}} {
		t.Run(c.name, func(t *testing.T) {
			name := wiretest.File(t, c.name, c.file)
			out, err := exec.Command(tshark, "-n", "-r", name, "-E", "occurrence=l", "-T", "fields", "-e",
				"frame.cap_len",
				"-e", "frame.len", "-e", "eth.src", "-e", "vlan.id", "-e", "udp.srcport", "-e", "udp.dstport").Output()
			require.NoError(t, err)
			lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
			got := wiretest.Must(read(c.file))(t)
			require.Len(t, got, len(lines))
			compared := 0
			for i, line := range lines {
				columns := strings.Split(line, "\t")
				var f rocev2.Frame
				r := &got[i]
				f.Decode(r.Data, r.Options())
				require.Equal(t, columns[0], strconv.Itoa(len(r.Data)), "%s %d: %s", c.name, i+1, line)
				require.Equal(t, columns[1], strconv.Itoa(int(r.OrigLen)), "%s %d: %s", c.name, i+1, line)
				if src, _, ok := f.MACs(); ok {
					require.Equal(t, columns[2], net.HardwareAddr(src[:]).String(), "%s %d", c.name, i+1)
				}
				if id, _, ok := f.VLAN(); ok {
					require.Equal(t, columns[3], strconv.Itoa(int(id)))
				}
				if flow, err := f.FiveTuple(); err == nil && columns[5] == "4791" {
					require.Equal(t, columns[4], strconv.Itoa(int(flow.SrcPort)), "%s %d", c.name, i+1)
					compared++
				}
			}
			require.Greater(t, compared, 100)
		})
	}
}
