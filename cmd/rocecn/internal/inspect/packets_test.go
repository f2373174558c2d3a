package inspect

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
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
	out, messages, status := inspect(capturing(capture.Raw, good[:59], good), "-json", "-") // 11 octets of BTH
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

// A packet that the capture truncated is not broken: the error names truncation and the length that is sufficient.
func TestCutTooShort(t *testing.T) {
	var records []capture.Record
	for _, p := range wiretest.Capture(t, "messages.pcap")[:3] { // a WRITE Only, an Acknowledge, a CNP, over IPv6
		records = append(records, capture.Record{Data: p.Data[:64], OrigLen: uint32(len(p.Data))})
	}
	records = append(records, capture.Record{Data: records[0].Data[:54], OrigLen: 200})
	file := wiretest.File(t, "cut.pcapng", pcapngOf(records))
	out, messages, status := inspect(nil, "-json", file)
	require.Zero(t, status)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 4)
	for i, want := range []string{
		`"kind":"error","error":"truncated by the snapshot length: want 90 octets","truncated":true`,
		`"kind":"error","error":"truncated by the snapshot length: want 78 octets","truncated":true`,
		`"kind":"error","error":"truncated by the snapshot length: want 90 octets","truncated":true`,
		`"kind":"other","truncated":true`, // nothing shows that it is ours
	} {
		require.Contains(t, lines[i], want)
	}
	require.Contains(t, messages, "4 packets: 1 other, 3 truncated by the snapshot length\n")
	require.Contains(t, messages, "truncated packets: 4; errors: 0\n")
	require.Contains(t, messages,
		"truncated before the end of the headers: 3, and possibly other traffic; capture with -s 114 or more\n")

	_, messages, _ = inspect(nil, wiretest.File(t, "other.pcapng", pcapngOf(records[3:])))
	require.Contains(t, messages, "1 packet: 1 other\n")
	require.Contains(t, messages,
		"\nother traffic may be truncated before the end of its headers; capture with -s 114 or more\n")

	out, _, _ = inspect(nil, "-all", file)
	lines = strings.Split(strings.TrimSpace(out), "\n")
	require.Contains(t, lines[0], "ERROR  truncated by the snapshot length: want 90 octets  truncated")
	require.Contains(t, lines[3], "other: UDP  truncated by the snapshot length: want 114 octets  truncated")
}

// A frame with a truncated link-layer header is of kind other. The length wanted of a short frame is its own.
func TestCutHeader(t *testing.T) {
	frame := wiretest.Capture(t, "messages.pcap")[0].Data
	file := wiretest.File(t, "cut.pcapng", pcapngOf([]capture.Record{
		{Data: frame[:5], OrigLen: 200}, {Data: frame[:13], OrigLen: 82},
		{Data: frame[:13], OrigLen: 0xFFFFFFFF}}))
	out, _, _ := inspect(nil, "-all", file)
	require.Contains(t, out, "  -  other  truncated by the snapshot length: want 114 octets  truncated")
	require.Equal(t, 2, strings.Count(out, "114 octets"))
	require.Contains(t, out, "  -  other  truncated by the snapshot length: want 82 octets  truncated")
}

// A truncated CM message is printed with the fields that the capture kept: name, queue pair, GIDs, private data.
func TestCutMAD(t *testing.T) {
	for _, c := range []struct {
		snap uint32
		want string // first REQ; keys of truncated fields are absent, not 0
	}{
		{54 + 8 + 12 + 8 + 24, `"cm":{"message":"REQ","transaction":"0x000000029927c28c"}`},
		{192, `"local_qp":17,"starting_psn":2740751,"transport":"RC","pkey":"0xffff","mtu":1024}`},
		{300, `"mtu":1024,"local_gid":"fd77::2","remote_gid":"fd77::1"}`},
		{400, `"remote_gid":"fd77::1","ip_cm":{"version":6,"src_port":42824,"src":"fd77::2","dst":"fd77::1"}}`},
	} {
		var records []capture.Record
		for _, p := range wiretest.Capture(t, "rxe-rping6.pcap") {
			n := len(p.Data)
			records = append(records, capture.Record{Data: p.Data[:min(n, int(c.snap))], OrigLen: uint32(n)})
		}
		out, _, status := inspect(nil, "-json", wiretest.File(t, "cut.pcapng", pcapngOf(records)))
		require.Zero(t, status)
		require.Contains(t, out, c.want)
		require.Equal(t, 5, strings.Count(out, `"cm":`), "REQ, REP, RTU, DREQ, DREP in %d octets", c.snap)
	}
}

// mad is the offset of the MAD in an untagged frame over IPv6: after Ethernet, IP, UDP, BTH and DETH. The CM message
// follows its 24 octets.
const mad = 14 + 40 + 8 + 12 + 8

// exchanged returns the frame of rxe-rping6.pcap with the REQ, with another
// attribute and some other octets of the message.
func exchanged(t *testing.T, attribute uint16, octets map[int]byte) []byte {
	t.Helper()
	for _, p := range wiretest.Capture(t, "rxe-rping6.pcap") {
		if len(p.Data) < mad+256 || binary.BigEndian.Uint16(p.Data[mad+16:]) != 0x10 || p.Data[mad+1] != 7 {
			continue
		}
		frame := bytes.Clone(p.Data)
		binary.BigEndian.PutUint16(frame[mad+16:], attribute)
		for at, octet := range octets {
			frame[mad+24+at] = octet
		}
		return frame
	}
	t.Fatal("no REQ")
	return nil
}

// Messages that the captures do not contain: rejected and delayed connections, and REQs of other transports. The
// communication IDs are the first two words of each message, the reason is octets 10 and 11. The transport of a REQ is
// in octet 43 and, extended, in octet 51.
func TestRefusedConnections(t *testing.T) {
	ids := map[int]byte{0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 10: 0, 11: 8}
	req := exchanged(t, 0x10, nil)
	low, extended := req[mad+24+43], req[mad+24+51]
	for _, c := range []struct {
		name  string
		frame []byte
		json  string
		human string
	}{
		{"MRA", exchanged(t, 0x11, ids), `{"message":"MRA","local_comm_id":"0x01020304","remote_comm_id":"0x05060708"}`,
			"CM MRA"},
		{"REJ", exchanged(t, 0x12, ids),
			`{"message":"REJ","local_comm_id":"0x01020304","remote_comm_id":"0x05060708","reason":8,` +
				`"reason_name":"invalid service id"}`,
			"CM REJ"},
		{"of no number that is known", exchanged(t, 0x1F, nil), "", "CM "},
		{"REQ of RC", req, `{"transport":"RC"}`, "RC"},
		{"REQ of UC", exchanged(t, 0x10, map[int]byte{43: low&^6 | 2}), `{"transport":"UC"}`, "UC"},
		{"REQ of RD", exchanged(t, 0x10, map[int]byte{43: low&^6 | 4}), `{"transport":"RD"}`, "RD"},
		{"REQ of XRC", exchanged(t, 0x10, map[int]byte{43: low | 6, 51: extended&^7 | 1}), `{"transport":"XRC"}`,
			"XRC"},
		{"REQ of another one", exchanged(t, 0x10, map[int]byte{43: low | 6, 51: extended&^7 | 2}),
			`{"transport":"extended"}`, "extended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := wiretest.File(t, "cm.pcapng",
				pcapngOf([]capture.Record{{Data: c.frame, OrigLen: uint32(len(c.frame))}}))
			out, _, status := inspect(nil, "-json", file)
			require.Zero(t, status)
			var line struct {
				CM map[string]any `json:"cm"`
			}
			require.NoError(t, json.Unmarshal([]byte(out), &line), out)
			if c.json != "" {
				var want map[string]any
				require.NoError(t, json.Unmarshal([]byte(c.json), &want))
				for key, value := range want {
					require.Equal(t, value, line.CM[key], "%s: %s", c.name, out)
				}
			}
			out, _, _ = inspect(nil, file)
			require.Contains(t, out, c.human, c.name)
		})
	}
}
