package rocev2

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Encapsulations that only the configuration identifies: VXLAN to 4999 (0x1387), FOU to 5555 (0x15b3), CSIG tags with
// the TPID 0x88b5.
var configured = &Encapsulations{VXLANPorts: []uint16{4999}, FOUPorts: []uint16{5555}, CSIGTPID: 0x88B5}

var configuredFrames = []struct{ name, tunnels, frame string }{
	{"VXLAN", "vxlan", macs + `0800 450000720000000040110000` + sites + `c0011387005e0000` + vni42 + macs + `86dd` +
		send},
	{"IPv6 in FOU", "fou", macs + `0800 4500005c0000000040110000` + sites + `c00115b300480000` + send},
	{"IPv6 in FOU over IPv6", "fou", macs + `86dd 602beef500481140` + nodes + `c00115b300480000` + send},
	{"Ethernet in FOU", "fou", macs + `0800 4500006a0000000040110000` + sites + `c00115b300560000` + macs + `86dd` +
		send},
	{"CSIG tag", "", macs + `88b5b4a5 86dd` + send},
	{"VXLAN to a standard port", "vxlan", macs + `0800` + toVTEP + send},
}

func TestEncapsulations(t *testing.T) {
	for _, c := range configuredFrames {
		t.Run(c.name, func(t *testing.T) {
			b := wiretest.Hex(t, c.frame)
			var f Frame
			var p Packet
			f.Decode(b, DecodeOptions{Encapsulations: configured})
			require.NoError(t, f.Inner().Packet(&p))
			require.Equal(t, wiretest.Hex(t, send), p.IP)
			require.Equal(t, c.tunnels, f.Tunnels().String())
			require.Equal(t, c.tunnels != "", f.Tunnelled())
			wiretest.NoAllocs(t, "decoding", func() {
				f.Decode(b, DecodeOptions{Encapsulations: configured})
				_ = f.Inner().Packet(&p)
			})

			f.Decode(b, DecodeOptions{})
			if c.name != "VXLAN to a standard port" {
				require.ErrorIs(t, f.Inner().Packet(&p), ErrNotRoCEv2)
			}
			for n := range len(b) - 4 {
				f.Decode(b[:n:n], DecodeOptions{Encapsulations: configured})
				require.ErrorIs(t, f.Inner().Packet(&p), wireerr.Truncated, "%d octets", n)
			}
		})
	}
}

// Messages of the protocols that carry no packet, and headers that contradict themselves.
func TestNoPayload(t *testing.T) {
	udp := func(port, data string) string { // 80 octets in all: 20 of IPv4, 8 of UDP, 52
		return macs + `0800 450000500000000040110000` + sites + `c001` + port + `003c0000` + data
	}
	rest := ` 00000000000000000000000000000000000000000000000000000000000000000000000000000000`
	for _, c := range []struct {
		name, frame string
		err         error
	}{
		{"GTP-U, echo request", udp(`0868`, `32010004 00000000 00000000`+rest), errGTPUMessage},
		{"GTP-U, GTP prime", udp(`0868`, `20ff003c 00000000 00000000`+rest), errGTPUMessage},
		{"GTP-U, extension header of no octets", udp(`0868`, `34ff0034 00000000 00000085`+rest), errGTPU},
		{"GTP-U, extension header beyond the packet", udp(`0868`, `34ff0034 00000000 00000085 ff`+rest[3:]), errGTPU},
		{"GTP-U, neither IP nor Ethernet", udp(`0868`, `30ff0034 00000000 00000000`+rest), errPayloadType},
		{"VXLAN-GPE, version 1", udp(`12b6`, `1c000001 00000000 00000000`+rest), errGPE},
		{"VXLAN-GPE, NSH", udp(`12b6`, `0c000004 00000000 00000000`+rest), errGPE},
		{"GUE, control message", udp(`17c0`, `20040000 00000000 00000000`+rest), errGUEMessage},
		{"GUE, version 2", udp(`17c0`, `80040000 00000000 00000000`+rest), errGUEMessage},
		{"GUE, GRE", udp(`17c0`, `002f0000 00000000 00000000`+rest), errGUEMessage},
		{"GUE, options beyond the packet", udp(`17c0`, `1f040000 00000000 00000000`+rest), errGUE},
		{"FOU, neither IP nor Ethernet", udp(`15b3`, `00000000 00000000 00000000`+rest), errPayloadType},
		{"Arista timestamp of another version", macs + `d28b 0001 0012 6924810000002710 86dd` + send, errNotIP},
		{"Arista timestamp of another subtype", macs + `d28b 0002 0010 6924810000002710 86dd` + send, errNotIP},
		{"mirror of NVIDIA Spectrum, 21 octets", macs + `0800 4500002d00000000402f0000` + sites + `00008949` +
			`000102030405060708090a0b0c0d0e0f1011121314`, errGRE},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f Frame
			f.Decode(wiretest.Hex(t, c.frame), DecodeOptions{Encapsulations: configured})
			_, err := f.FiveTuple()
			require.Equal(t, c.err, err)
			require.ErrorIs(t, f.Inner().Packet(new(Packet)), ErrNotRoCEv2)
		})
	}
}

// Timestamps and CSIG tags are no VLAN tags, and an answer has none.
func TestVLANAmongTags(t *testing.T) {
	const vlan = `81006007` // PCP 3, VLAN 7
	for _, c := range []struct {
		name, tags string
		tagged     bool
	}{
		{"none", ``, false},
		{"CSIG", `9900b4a5`, false},
		{"Arista", `d28b 0001 0010 6924810000000000`, false},
		{"VLAN before CSIG", vlan + `9900b4a5`, true},
		{"VLAN after CSIG", `9900b4a5` + vlan, true},
		{"VLAN after a timestamp of 64 bits", `d28b 0001 0011 6924810000000000` + vlan, true},
		{"VLAN before a timestamp of 48 bits", vlan + `d28b 0001 0020 692481000000`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f Frame
			var p Packet
			f.Decode(wiretest.Hex(t, macs+c.tags+`86dd`+send), DecodeOptions{})
			require.NoError(t, f.Outer().Packet(&p))
			id, priority, ok := f.VLAN()
			want := slices.Concat(wiretest.Hex(t, macs)[6:12], wiretest.Hex(t, macs)[:6])
			if c.tagged {
				want = append(want, wiretest.Hex(t, vlan)...)
				require.Equal(t, []any{uint16(7), uint8(3)}, []any{id, priority})
			}
			require.Equal(t, c.tagged, ok)
			require.Equal(t, append(want, 0x08, 0x00), p.AppendReplyLink(nil, 4))
		})
	}
}

// FuzzEncapsulations decodes any octets with configured encapsulations. A packet below them is inside the octets.
func FuzzEncapsulations(f *testing.F) {
	for _, c := range configuredFrames {
		f.Add(wiretest.Hex(f, c.frame))
	}
	for _, c := range flows {
		f.Add(slices.Concat(wiretest.Hex(f, c.link), wiretest.Hex(f, c.tunnel), wiretest.Hex(f, c.flow)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var frame Frame
		var p Packet
		frame.Decode(b, DecodeOptions{Encapsulations: configured})
		if err := frame.Inner().Packet(&p); err != nil {
			require.Equal(t, Packet{}, p)
			return
		}
		require.LessOrEqual(t, len(p.Link)+len(p.Outer)+len(p.IP), len(b))
		require.GreaterOrEqual(t, len(p.Data), 12)
		_, err := frame.FiveTuple()
		require.False(t, err != nil && !wireerr.HasRoot(err, wireerr.Malformed))
		frame.VLAN()
		p.AppendReplyLink(nil, 6)
	})
}

// OuterHeaders yields one IP packet for each tunnel, and those of IP in IP.
func TestOuterHeaders(t *testing.T) {
	for _, c := range []struct {
		name, frame string
		want        []string // tunnel, and the first two octets of its IP header
	}{
		{"none", macs + `0800` + cnp4, nil},
		{"VXLAN with CE", macs + `0800` + strings.Replace(toVTEP, `4500`, `450f`, 1) + send, []string{"vxlan 450f"}},
		{"IP in IP", macs + `0800 450300540000000040290000` + sites + send, []string{"ipip 4503"}},
		{"labels", macs + `8847 3e801140` + cnp4, []string{"mpls "}},
		{"labels in GRE", macs + `0800 4502005800000000402f0000` + sites + `00008847 3e801140` + cnp4,
			[]string{"gre 4502", "mpls 4502"}},
		{"SRv6 in IPv6 in SRv6", macs + `86dd 602beef500bc2b40` + nodes + `2902040000000000` + node2 +
			`603beef5007c2940` + nodes + `604beef500542b40` + nodes + `0402040000000000` + node2 + cnp4,
			[]string{"srv6 602b", "ipip 603b", "srv6 604b"}},
		{"VXLAN in ERSPAN", macs + `0800 450000a400000000402f0000` + sites + `100088be 00000001 10000000 00000000` +
			macs + `0800` + strings.Replace(toVTEP, `4500`, `4503`, 1) + send, []string{"erspan2 4500", "vxlan 4503"}},
		{"nothing in VXLAN", macs + `0800` + strings.Replace(toVTEP, `86dd`, `0806`, 1) + send, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f Frame
			f.Decode(wiretest.Hex(t, c.frame), DecodeOptions{})
			var got []string
			for tunnel, ip := range f.OuterHeaders() {
				got = append(got, fmt.Sprintf("%v %x", tunnel, ip[:min(2, len(ip))]))
				_ = f.Outer().IP()
			}
			require.Equal(t, c.want, got)
			wiretest.NoAllocs(t, "iterating", func() {
				f.Decode(f.Octets(), DecodeOptions{})
				for range f.OuterHeaders() {
					break
				}
			})
		})
	}
}
