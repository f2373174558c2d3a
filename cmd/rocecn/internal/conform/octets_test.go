package conform

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	return wiretest.Must(hex.DecodeString(strings.ReplaceAll(text, " ", "")))(t)
}

// vectorsOf returns the valid test vectors of a format: octets, which come from hosts and hand computation, and values.
func vectorsOf(t *testing.T, format string) (all []vector) {
	var file struct{ Tests []vector }
	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "vectors", format+".json")))(t)
	require.NoError(t, json.Unmarshal(octets, &file))
	for _, v := range file.Tests {
		if v.Result == "valid" {
			all = append(all, v)
		}
	}
	require.NotEmpty(t, all)
	return all
}

type vector struct {
	ID              int
	Comment, Octets string
	Result          string
	Decoded         map[string]any
}

// The ICRCs of network cards, soft-RoCE and hand computation.
func TestICRCVectors(t *testing.T) {
	coverages := map[string]coverage{"as-sent": asSent, "without": without, "skipped": skipped}
	tested := 0
	for _, v := range vectorsOf(t, "icrc") {
		t.Run(v.Comment, func(t *testing.T) {
			p := readIP(unhex(t, v.Octets), nil, 4)
			name, _ := v.Decoded["coverage"].(string)
			c, ok := coverages[name]
			if p == nil || p.bth == nil || !ok || len(p.ip) > 0 && p.ip[0]>>4 == 4 && p.ip[0]&15 > 5 {
				return // IPv4 options, which the suite does not send
			}
			if c != asSent && len(p.extensions) > 0 && p.extensions[0].protocol == protocolRouting {
				return // the destination of a Routing header, which the suite does not send
			}
			require.Equal(t, v.Decoded["value"], fmt.Sprintf("0x%08x", p.computeICRC(c)))
			tested++
		})
	}
	require.Greater(t, tested, 10)
}

// Fast CNPs computed by hand: the suite reads them, and builds the one of its tests.
func TestFastCNPVectors(t *testing.T) {
	for _, v := range vectorsOf(t, "fastcnp") {
		t.Run(v.Comment, func(t *testing.T) {
			p := readIP(unhex(t, v.Octets), nil, 4)
			require.NotNil(t, p)
			require.Equal(t, kindFastCNP, p.kind(&points))
			require.Equal(t, p.icrc, p.computeICRC(asSent))
			if qp, ok := v.Decoded["dest_qp"].(float64); ok {
				require.EqualValues(t, qp, p.destQP())
			}
		})
	}
	f := flow{src: hostOfText("2001:db8:ffff::5"), dst: hostOfText("2001:db8:1::1"), class: 48 << 2, opcode: 0x81,
		flags: 0x40, destQP: 0x11, payload: make([]byte, 16),
		options: fastCNPOption1(0x9E, hostOfText("2001:db8:4::e"))}
	const worked = "6c00000000403c40 20010db8ffff00000000000000000005 20010db8000100000000000000000001" +
		"11029e10 20010db800040000000000000000000e 01020000 c00012b700280000" +
		"8100ffff 40000011 00000000 00000000000000000000000000000000 f6d21eb2"
	require.Equal(t, unhex(t, worked), f.appendIP(nil))
}

// Messages of the figures, in octets computed by hand.
func TestBuildersByHand(t *testing.T) {
	pe, node := hostOfText("2001:db8::1"), hostOfText("2001:db8::2")
	fcn := (&fcnMessage{src: node, dst: pe, port: 1021, label: 0x12345, level: 1}).appendIP()
	require.Equal(t, unhex(t, "12345200"), fcn[ipv6Size+udpSize:])
	require.Equal(t, unhex(t, "20010db8ffff00000000000000000005 00000007 00000064"),
		ppfcAfterBTH(hostOfText("2001:db8:ffff::5"), 0, 7, 100))
	require.Equal(t, unhex(t, "c0000205 00000007 00000064"), ppfcAfterBTH(hostOfText("192.0.2.5"), 0, 7, 100))
	m := &proxyMessage{src: node, dst: pe, port: 1022, level: 3 << 21, flow: flow{src: hostOfText("2001:db8:1::1"),
		dst: hostOfText("2001:db8:4::e"), srcPort: 0xC000, opcode: 0x0A, destQP: 0x11}}
	require.Equal(t, unhex(t, "20010db8000100000000000000000001 20010db800040000000000000000000e 11 c000 12b7 600000"),
		m.appendIP()[ipv6Size+udpSize:][:40])
	// RFC 9197: namespace 123, NodeLen 2, no free space, bits 0 and 6, one node.
	require.Equal(t, unhex(t, "0100 3112 0000 007b1000 82000000 40000001 00000009"),
		traceOption(123, 0, [8]byte{64, 0, 0, 1, 0, 0, 0, 9}))
}

// The fields of captures of real hosts as tshark reads them.
func TestRealCaptures(t *testing.T) {
	for _, name := range []string{"rxe-verbs6.pcap", "rxe-perf4.pcap", "rxe-udaddy6.pcap"} {
		t.Run(name, func(t *testing.T) {
			rows, read := wiretest.Golden(t, name), 0
			for i, frame := range wiretest.Capture(t, name) {
				p, _ := readFrame(frame.Data, nil)
				if p == nil || p.bth == nil {
					continue
				}
				read++
				require.EqualValues(t, rows[i].Uint("infiniband.bth.opcode"), p.opcode())
				require.EqualValues(t, rows[i].Uint("infiniband.bth.destqp"), p.destQP())
				require.EqualValues(t, rows[i].Uint("infiniband.bth.psn"), p.psn())
				if p.opcode() != 0x1C { // soft-RoCE sends FLUSH with a wrong ICRC
					require.Equal(t, p.icrc, p.computeICRC(asSent), "frame %d", i+1)
				}
			}
			require.Greater(t, read, 5)
		})
	}
}

// The ways of writing a UDP checksum and a neighbour's answer, as the kernel accepts them, are tested with the agent.
func TestChecksum(t *testing.T) {
	ip := appendDatagram(nil, hostOfText("192.0.2.1"), hostOfText("192.0.2.2"), 0, 0, 1, 2, []byte{1, 2, 3})
	// The complement of the sum of 192.0.2.1, 192.0.2.2, 17, 11, 1, 2, 11, 0x0102 and 0x0300.
	require.Equal(t, unhex(t, "0001 0002 000b 77cf 010203"), ip[ipv4Size:])
	require.True(t, bytes.HasPrefix(ip, []byte{0x45, 0, 0, 31}))
}

// The hardware address of the device is in its ARP replies and neighbour advertisements, not in its requests or in
// answers of others. The ARP packets are those of RFC 826, the advertisements those of RFC 4861, section 4.4.
func TestReadAdvertisement(t *testing.T) {
	s := &suite{profile: new(profile)}
	s.profile.Device.Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	const macs = "020000000009 020000000001 "
	arp := func(operation, from string) string {
		return macs + "0806 0001 0800 06 04 " + operation + " 020000000007" + from + "020000000009 c0000209"
	}
	advertisement := func(kind, of string) string {
		return macs + "86dd 60000000 0018 3a ff 20010db8000000000000000000000001 20010db8000000000000000000000009 " +
			kind + "00 0000 60000000 20010db80000000000000000000000" + of
	}
	for _, row := range []struct {
		name, frame, want string // "" if it is no answer of the device
	}{
		{"ARP reply", arp("0002", "c0000201"), "020000000007"},
		{"ARP request", arp("0001", "c0000201"), ""},
		{"ARP reply of another", arp("0002", "c0000202"), ""},
		{"neighbour advertisement", advertisement("88", "01"), "020000000001"},
		{"neighbour solicitation", advertisement("87", "01"), ""},
		{"neighbour advertisement of another", advertisement("88", "02"), ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, ok := s.readAdvertisement(arrival{frame: unhex(t, row.frame)})
			require.Equal(t, row.want != "", ok)
			if ok {
				require.Equal(t, row.want, hex.EncodeToString(m[:]))
			}
		})
	}
}
