package inspect

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
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

// line returns what is printed for one IP packet.
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

// A whole line, with every key in its place and its format.
func TestLine(t *testing.T) {
	ip := build(t, packet(bth.RCRDMAWriteOnly))
	out, _, _ := inspect(capturing(capture.Raw, ip), "-json", "-")
	sum := binary.LittleEndian.Uint32(ip[len(ip)-4:])
	require.Equal(t, `{"frame":1,"time":"2026-11-21T09:50:49.000000Z","kind":"data",`+
		`"ip":{"version":6,"src":"2001:db8::1","dst":"2001:db8::2","dscp":26,"ecn":3,"hop_limit":61,`+
		`"flow_label":782069},`+
		`"udp":{"src":49152,"dst":4791,"checksum":"0x0000"},`+
		`"bth":{"opcode":"0x0a","name":"RC RDMA WRITE Only","se":true,"migreq":true,"pad":1,"tver":2,`+
		`"pkey":"0x8001","fecn":true,`+
		`"becn":true,"resv6":3,"dest_qp":17,"ackreq":true,"resv7":4,"psn":42},`+
		`"headers":[{"type":"RETH","va":"0x0000000000000005","rkey":"0x00000006","dma_len":7}],`+
		fmt.Sprintf(`"payload_len":3,"icrc":{"value":"0x%08x","ok":true,"coverage":"as-sent"}}`+"\n", sum), out)

	ip[len(ip)-1] ^= 0x80
	out, _, _ = inspect(capturing(capture.Raw, ip), "-json", "-")
	require.True(t, strings.HasSuffix(out,
		fmt.Sprintf(`"icrc":{"value":"0x%08x","ok":false}}`+"\n", sum^0x80000000)), out)
}

func TestExtendedHeaders(t *testing.T) {
	const (
		rdeth     = `{"type":"RDETH","ee":1}`
		deth      = `{"type":"DETH","qkey":"0x00000002","src_qp":3}`
		xrceth    = `{"type":"XRCETH","srq":4}`
		feth      = `{"type":"FETH","selectivity":1,"placement":3}`
		reth      = `{"type":"RETH","va":"0x0000000000000005","rkey":"0x00000006","dma_len":7}`
		atomicETH = `{"type":"AtomicETH","va":"0x0000000000000008","rkey":"0x00000009",` +
			`"swap":"0x000000000000000a","compare":"0x000000000000000b"}`
		aeth         = `{"type":"AETH","syndrome":12,"msn":13}`
		atomicAckETH = `{"type":"AtomicAckETH","original":"0x000000000000000e"}`
		immDt        = `{"type":"ImmDt","data":"0x0000000f"}`
		ieth         = `{"type":"IETH","rkey":"0x00000010"}`
	)
	for _, c := range []struct {
		op      bth.Opcode
		headers []string
		human   string
	}{
		{bth.RCSendOnly, nil, "CE"},
		{bth.TransportRD.Opcode(bth.OpRDMAWriteOnlyWithImmediate), []string{rdeth, deth, reth, immDt},
			"RDETH ee=1  DETH srcqp=0x000003 qkey=0x00000002  RETH va=0x0000000000000005 rkey=0x00000006 len=7  " +
				"imm=0x0000000f  CE"},
		{bth.TransportRD.Opcode(bth.OpAtomicAcknowledge), []string{rdeth, aeth, atomicAckETH},
			"RDETH ee=1  ACK credits=64 msn=13  original=0xe  CE"},
		{bth.TransportXRC.Opcode(bth.OpCmpSwap), []string{xrceth, atomicETH},
			"XRCETH srq=4  AtomicETH va=0x0000000000000008 rkey=0x00000009 swap/add=0xa compare=0xb  CE"},
		{bth.TransportXRC.Opcode(bth.OpSendLastWithInvalidate), []string{xrceth, ieth},
			"XRCETH srq=4  invalidate rkey=0x00000010  CE"},
		{bth.RCFlush, []string{feth, reth},
			"FETH selectivity=1 placement=3  RETH va=0x0000000000000005 rkey=0x00000006 len=7  CE"},
		{0x1E, nil, "CE"}, // unknown
	} {
		ip := build(t, packet(c.op))
		out, _, _ := inspect(capturing(capture.Raw, ip), "-json", "-")
		if c.headers == nil {
			require.NotContains(t, out, `"headers"`, c.op)
		} else {
			require.Contains(t, out, `"headers":[`+strings.Join(c.headers, ",")+`],"payload_len":`, c.op)
		}
		require.Contains(t, human(t, ip), "icrc ok  "+c.human, c.op)
	}
}

// The keys of each kind.
func TestKeys(t *testing.T) {
	always := []string{"frame", "kind", "time"}
	ip4 := []string{"ip.dscp", "ip.dst", "ip.ecn", "ip.hop_limit", "ip.src", "ip.version", "udp.checksum", "udp.dst",
		"udp.src"}
	ip6 := append([]string{"ip.flow_label"}, ip4...)
	base := []string{
		"bth.ackreq", "bth.becn", "bth.dest_qp", "bth.fecn", "bth.migreq", "bth.name", "bth.opcode", "bth.pad",
		"bth.pkey", "bth.psn",
		"bth.resv6", "bth.resv7", "bth.se", "bth.tver",
	}
	right := []string{"icrc.coverage", "icrc.ok", "icrc.value"}
	with := func(op bth.Opcode, change func(*rocev2.Packet)) []byte {
		p := packet(op)
		change(&p)
		return build(t, p)
	}
	v4 := func(p *rocev2.Packet) {
		p.Src, p.Dst = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	}
	cnp := func(p *rocev2.Packet) { p.Payload, p.BTH.Resv6 = make([]byte, 16), 0 }
	wrong := with(bth.RCSendOnly, v4)
	wrong[len(wrong)-1] ^= 1
	for _, c := range []struct {
		name string
		kind string
		ip   []byte
		keys [][]string
	}{
		{"data", "data", with(bth.RCSendOnly, func(*rocev2.Packet) {}), [][]string{ip6, base, {"payload_len"}, right}},
		{"data over IPv4", "data", with(bth.RCSendOnly, v4), [][]string{ip4, base, {"payload_len"}, right}},
		{"ICRC wrong", "data", wrong, [][]string{ip4, base, {"payload_len"}, {"icrc.ok", "icrc.value"}}},
		{"ack", "ack", with(bth.RCAcknowledge, v4),
			[][]string{ip4, base, {"AETH.msn", "AETH.syndrome", "AETH.type"}, {"payload_len"}, right}},
		{"cnp", "cnp", with(bth.CNP, cnp), [][]string{ip6, base, right}},
		{"unknown option", "unknown_option", with(bth.CNP, func(p *rocev2.Packet) {
			cnp(p)
			p.NextHeader, p.Ext = 60, wiretest.Hex(t, "1100 8e00 01020000")
		}), [][]string{ip6, base, right, {"unknown_option.option_type"}}},
		{"broken CNP", "error", with(bth.CNP, func(*rocev2.Packet) {}), [][]string{ip6, {"error"}}},
		{"other UDP", "other", with(bth.RCSendOnly, func(p *rocev2.Packet) { p.DstPort = 53 }), [][]string{ip6}},
		{"no UDP", "other", append([]byte{0x60, 0, 0, 0, 0, 0, 58, 64}, make([]byte, 32)...), nil},
		{"no IP", "other", []byte{0}, nil},
		{"nothing", "other", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := line(t, c.ip)
			require.Equal(t, c.kind, got["kind"], c.name)
			want := slices.Sorted(slices.Values(append(slices.Concat(c.keys...), always...)))
			require.Equal(t, want, slices.Sorted(maps.Keys(got)), c.name)
		})
	}
}

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		op   bth.Opcode
		kind string
	}{
		{bth.RCAcknowledge, "ack"}, {bth.RCAtomicAcknowledge, "ack"},
		{bth.TransportRD.Opcode(bth.OpAcknowledge), "ack"},
		{bth.TransportRD.Opcode(bth.OpAtomicAcknowledge), "ack"},
		{bth.TransportXRC.Opcode(bth.OpAcknowledge), "ack"}, {bth.TransportXRC.Opcode(bth.OpAtomicAcknowledge), "ack"},
		{bth.RCRDMAReadResponseOnly, "data"}, {bth.UDSendOnly, "data"}, {bth.TransportRD.Opcode(bth.OpResync), "data"},
		{bth.CNP, "cnp"},
		{0x31, "data"}, {0x80, "data"}, {0x91, "data"}, {0xFF, "data"}, // unknown ones
	} {
		t.Run(fmt.Sprint(c.op), func(t *testing.T) {
			p := packet(c.op)
			p.BTH.Pad = 0
			p.BTH.Resv6 = 0
			p.Payload = make([]byte, 16)
			got := line(t, build(t, p))
			require.Equal(t, c.kind, got["kind"], c.op)
			require.Equal(t, c.op.String(), got["bth.name"], c.op)
		})
	}
}

// Packets that break the rules are shown with what is wrong, and the run goes
// on.
func TestBrokenPackets(t *testing.T) {
	good := build(t, packet(bth.RCRDMAWriteOnly))
	const udp = 40
	broken := func(change func(ip []byte)) []byte {
		ip := slices.Clone(good)
		change(ip)
		return ip
	}
	for _, c := range []struct {
		err string
		ip  []byte
		udp bool // addresses and ports are known all the same
	}{
		{"rocev2: UDP length: below 8", broken(func(ip []byte) { ip[udp+5] = 7 }), false},
		{"rocev2: UDP length: runs beyond the IP packet", broken(func(ip []byte) { ip[udp+5]++ }), false},
		{"rocev2: IP length: runs beyond the octets given", broken(func(ip []byte) { ip[5]++ }), false},
		{"rocev2: IP length: runs beyond the octets given", good[:len(good)-1], false},
		{"rocev2: UDP data: no room for BTH and ICRC: 16 octets needed", broken(func(ip []byte) { ip[udp+5] = 8 + 15 }),
			true},
		{"rocev2: extended headers: no room for those of the opcode between BTH and ICRC: 4 to 40 octets needed",
			broken(func(ip []byte) { ip[udp+5] = 8 + 12 + 16 + 3 }), true},
		{"rocev2: BTH pad count: larger than the payload", broken(func(ip []byte) { ip[udp+5] = 8 + 12 + 16 + 4 }),
			true},
	} {
		out, messages, status := inspect(capturing(capture.Raw, c.ip, good), "-json", "-")
		require.Zero(t, status)
		require.Contains(t, messages, "2 packets: 1 data, 1 error\n")
		require.Contains(t, messages, "errors: 1\n")
		all := lines(t, out)
		require.Len(t, all, 2)
		require.Equal(t, "error", all[0]["kind"])
		require.Equal(t, c.err, all[0]["error"])
		require.Equal(t, "data", all[1]["kind"])
		require.Equal(t, c.udp, all[0]["udp.dst"] == "4791", c.err)
		require.Contains(t, human(t, c.ip), "ERROR  "+withoutPackage(c.err))
	}
}

// The snap length cuts packets: what their headers say is shown, the ICRC is
// not.
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

// Of IP in IP the innermost header is shown.
func TestTunnel(t *testing.T) {
	inner := build(t, packet(bth.RCSendOnly))
	outer := append([]byte{0x60, 0, 0, 0, 0, uint8(len(inner)), 41, 9}, make([]byte, 32)...)
	want := line(t, inner)
	require.Equal(t, want, line(t, append(outer, inner...)))
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

func TestHumanLine(t *testing.T) {
	for _, c := range []struct {
		change func(*rocev2.Packet)
		want   string
	}{
		{func(p *rocev2.Packet) {
			p.BTH.Header = bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF}
			p.TrafficClass = 0
		},
			"[2001:db8::1]:49152 > [2001:db8::2]:4791  RC SEND Only  qp=0x000000 psn=0  payload=3  icrc ok"},
		{func(p *rocev2.Packet) { p.BTH.Pad = 0 },
			"[2001:db8::1]:49152 > [2001:db8::2]:4791  RC SEND Only  qp=0x000011 psn=42  payload=3  icrc ok  CE  " +
				"FECN  BECN  solicited  ackreq  dscp=26  pkey=0x8001  tver=2"},
		{func(p *rocev2.Packet) {
			p.BTH.Opcode, p.BTH.AETH.Syndrome = bth.RCAcknowledge, 0x62
			p.Payload = nil
			p.BTH.Pad = 0
		},
			"[2001:db8::1]:49152 > [2001:db8::2]:4791  RC Acknowledge  qp=0x000011 psn=42  payload=0  icrc ok  NAK " +
				"remote access msn=13  CE"},
		{func(p *rocev2.Packet) {
			p.BTH.Opcode, p.BTH.AETH.Syndrome = bth.RCAcknowledge, 0x2C
			p.Payload = nil
			p.BTH.Pad = 0
		},
			"[2001:db8::1]:49152 > [2001:db8::2]:4791  RC Acknowledge  qp=0x000011 psn=42  payload=0  icrc ok  RNR " +
				"NAK timer=640µs msn=13  CE"},
		{func(p *rocev2.Packet) {
			p.BTH.Header = bth.Header{Opcode: bth.CNP, PKey: 0xFFFF, BECN: true, DestQP: 0xD2, PSN: 1, MigReq: true}
			p.Payload, p.TrafficClass = make([]byte, 16), 48<<2
		},
			"[2001:db8::1]:49152 > [2001:db8::2]:4791  CNP  qp=0x0000d2 psn=1  payload=16  icrc ok  dscp=48  " +
				"deviates: MigReq: set, PSN: not 0"},
		{func(p *rocev2.Packet) { p.DstPort = 53 }, "[2001:db8::1]:49152 > [2001:db8::2]:53  other: UDP"},
	} {
		p := packet(bth.RCSendOnly)
		p.BTH.Pad = 0
		c.change(&p)
		got := human(t, build(t, p))
		require.True(t, strings.HasPrefix(got, c.want), "%s\n%s", got, c.want)
	}
}
