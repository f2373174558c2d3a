package inspect

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// capturing lays packets out as a pcap of this link type.
func capturing(link uint32, packets ...[]byte) []byte {
	var all []capture.Record
	for i, p := range packets {
		all = append(all, capture.Record{Data: p, OrigLen: uint32(len(p)), Time: time.Unix(1795254649, int64(i)*1000)})
	}
	return captureOf(link, all...)
}

func captureOf(link uint32, records ...capture.Record) []byte {
	var b bytes.Buffer
	w, _ := capture.NewWriter(&b, link, time.Microsecond)
	for i := range records {
		w.Write(&records[i])
	}
	return b.Bytes()
}

// records returns the packets of a capture of testdata.
func records(t testing.TB, name string) (all []capture.Record) {
	for _, p := range wiretest.Capture(t, name) {
		all = append(all, capture.Record{Data: p.Data, OrigLen: uint32(p.OrigLen), Time: p.Time})
	}
	return all
}

// line returns the JSON line of one IP packet.
func line(t testing.TB, ip []byte) flat {
	t.Helper()
	out, _, status := inspect(capturing(capture.Raw, ip), "-json", "-")
	require.Zero(t, status)
	all := lines(t, out)
	require.Len(t, all, 1)
	return all[0]
}

// human returns the line for people without its number and time.
func human(t testing.TB, ip []byte) string {
	t.Helper()
	out, _, _ := inspect(capturing(capture.Raw, ip), "-all", "-")
	_, text, ok := strings.Cut(out, "09:50:49.000000  ")
	require.True(t, ok, out)
	return strings.TrimSuffix(text, "\n")
}

// packet is a packet with everything set that a line shows.
func packet(op bth.Opcode) rocev2.Packet {
	return rocev2.Packet{
		Datagram: rocev2.Datagram{
			Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"),
			TrafficClass: 26<<2 | 3, HopLimit: 61, FlowLabel: 0xBEEF5, SrcPort: 49152, DstPort: rocev2.Port,
		},
		BTH: bth.Headers{
			Header: bth.Header{
				Opcode: op, Solicited: true, MigReq: true, Pad: 1, TVer: 2, PKey: 0x8001, FECN: true, BECN: true,
				Resv6: 3, DestQP: 17,
				AckReq: true, Resv7: 4, PSN: 42,
			},
			RDETH:        bth.RDETH{EEContext: 1},
			DETH:         bth.DETH{QKey: 2, SrcQP: 3},
			XRCETH:       bth.XRCETH{SRQ: 4},
			FETH:         bth.FETH{Selectivity: 1, Placement: 3},
			RETH:         bth.RETH{VirtualAddress: 5, RKey: 6, DMALength: 7},
			AtomicETH:    bth.AtomicETH{VirtualAddress: 8, RKey: 9, SwapAdd: 10, Compare: 11},
			AETH:         bth.AETH{Syndrome: 12, MSN: 13},
			AtomicAckETH: bth.AtomicAckETH{Original: 14},
			ImmDt:        bth.ImmDt{Data: 15},
			IETH:         bth.IETH{RKey: 16},
		},
		Payload: []byte("abc"),
	}
}

func build(t testing.TB, p rocev2.Packet) []byte {
	t.Helper()
	return wiretest.Must(p.AppendBinary(nil))(t)
}

// A packet that breaks the rules is an error, and reading continues after it.
func TestBrokenPacket(t *testing.T) {
	good := build(t, packet(bth.RCRDMAWriteOnly))
	out, messages, status := inspect(capturing(capture.Raw, good[:len(good)-1], good), "-json", "-")
	require.Zero(t, status)
	require.Contains(t, messages, "2 packets: 1 data, 1 error\n")
	require.Contains(t, messages, "errors: 1\n")
	all := lines(t, out)
	require.Len(t, all, 2)
	require.Equal(t, "data", all[1]["kind"])
}

// Truncated packets print their headers, but no ICRC.
func TestSnapLength(t *testing.T) {
	const name, snap = "rxe-vlan4.pcap", 96
	whole, _, _ := inspect(nil, "-json", wiretest.Path(t, name))
	packets := records(t, name)
	cut := 0
	for i := range packets {
		if p := &packets[i]; len(p.Data) > snap {
			p.Data = p.Data[:snap]
			cut++
		}
	}
	file := captureOf(capture.Ethernet, packets...)
	out, messages, status := inspect(file, "-json", "-")
	require.Zero(t, status)
	require.NotZero(t, cut)
	require.Contains(t, messages, fmt.Sprintf("truncated packets: %d;", cut))
	got, want := lines(t, out), lines(t, whole)
	require.Len(t, got, len(want))
	for i := range got {
		if packets[i].OrigLen > snap {
			want[i]["truncated"] = "true"
			maps.DeleteFunc(want[i], func(key, _ string) bool { return strings.HasPrefix(key, "icrc.") })
		}
		require.Equal(t, want[i], got[i])
	}
	out, _, _ = inspect(file, "-all", "-")
	require.Equal(t, cut, strings.Count(out, "  truncated"))
}

// A frame that lost nothing but its Ethernet padding is whole.
func TestOnlyPaddingCut(t *testing.T) {
	p := packet(bth.UCSendOnly)
	p.Src, p.Dst = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	p.BTH.Pad, p.Payload = 0, nil
	frame := append(make([]byte, 12), 8, 0)
	frame = append(frame, build(t, p)...)
	require.Less(t, len(frame), 60)
	file := captureOf(capture.Ethernet, capture.Record{Data: frame, OrigLen: 60})
	out, _, _ := inspect(file, "-json", "-")
	got := lines(t, out)[0]
	require.Equal(t, "true", got["icrc.ok"])
	require.NotContains(t, got, "truncated")
}

func TestCoverage(t *testing.T) {
	for _, c := range []struct {
		coverage icrc.Coverage
		text     string
	}{
		{icrc.AsSent, ""},
		{icrc.Without, " (computed without extension headers)"},
		{icrc.Skipped, " (computed over everything except extension headers)"},
	} {
		t.Run(c.coverage.String(), func(t *testing.T) {
			p := packet(bth.RCSendOnly)
			p.NextHeader, p.Ext = 0, []byte{17, 0, 1, 4, 0, 0, 0, 0}
			p.Coverage = c.coverage
			ip := build(t, p)
			require.Equal(t, c.coverage.String(), line(t, ip)["icrc.coverage"])
			require.Contains(t, human(t, ip), "  icrc ok"+c.text+"  ")
			_, messages, _ := inspect(capturing(capture.Raw, ip), "-")
			require.Contains(t, messages, "ICRC: 1 right"+strings.Replace(c.text, "(", "(1 ", 1)+", 0 wrong;")
		})
	}
}

func TestLinkTypes(t *testing.T) {
	ip := build(t, packet(bth.RCSendOnly))
	for _, link := range []uint32{12, capture.Raw, 229} {
		out, _, _ := inspect(capturing(link, ip), "-json", "-")
		require.Equal(t, "data", lines(t, out)[0]["kind"], link)
	}
	out, messages, status := inspect(capturing(147, ip, ip), "-json", "-")
	require.Zero(t, status)
	require.Equal(t, 2, strings.Count(out, `"kind":"other"`))
	require.Equal(t, 1, strings.Count(messages, "inspect: -: link type 147 is not supported"))
	out, messages, _ = inspect(capturing(257, ip), "-all", "-") // Ethernet, if only 8 bits were looked at
	require.Contains(t, messages, "link type 257 is not supported")
	require.Contains(t, out, "other: link type not supported")
}
