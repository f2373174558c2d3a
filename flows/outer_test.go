package flows

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// inIPv4 puts an IPv4 header before a packet of a protocol.
func inIPv4(class, protocol uint8, payload ...byte) []byte {
	ip := []byte{0x45, class, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(payload)))
	return append(ip, payload...)
}

func inEthernet(ip []byte) []byte {
	return append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0}, ip...)
}

// inVXLAN puts a frame into VXLAN.
func inVXLAN(class uint8, frame []byte) []byte {
	udp := []byte{0xC0, 0, 0x12, 0xB5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0}
	binary.BigEndian.PutUint16(udp[4:], uint16(16+len(frame)))
	return inEthernet(inIPv4(class, 17, slices.Concat(udp, frame)...))
}

// inERSPAN puts a frame into ERSPAN of type II.
func inERSPAN(class uint8, frame []byte) []byte {
	header := []byte{0x10, 0, 0x88, 0xBE, 0, 0, 0, 1, 0x10, 1, 0, 0, 0, 0, 0, 0}
	return inEthernet(inIPv4(class, 47, slices.Concat(header, frame)...))
}

// inMirror8949 puts a frame into GRE with protocol type 0x8949 and the 22 octets after it.
func inMirror8949(class uint8, frame []byte) []byte {
	header := append([]byte{0, 0, 0x89, 0x49}, make([]byte, 22)...)
	return inEthernet(inIPv4(class, 47, slices.Concat(header, frame)...))
}

// requestFrame returns a frame with a request.
func requestFrame(t *testing.T, ecn rocev2.ECN, psn uint32) []byte {
	s := newScript(t)
	p := rocev2.Packet{Datagram: rocev2.Datagram{Src: s.a, Dst: s.b, TrafficClass: 26<<2 | uint8(ecn), HopLimit: 64,
		SrcPort: 50000, DstPort: rocev2.Port}}
	p.BTH.Opcode, p.BTH.PKey, p.BTH.DestQP, p.BTH.PSN = bth.RCSendOnly, 0xFFFF, 18, psn
	return inEthernet(wiretest.Must(p.AppendBinary(nil))(t))
}

// A packet came with CE if an IP header below any mirror has CE and the packet is ECN-capable
// (RFC 6040, section 4.2).
func TestOuterECN(t *testing.T) {
	const ect0, ce = uint8(rocev2.ECT0), uint8(rocev2.CE)
	for _, row := range []struct {
		name  string
		frame []byte
		ce    uint64
		want  *Outer
	}{
		{"no tunnel", requestFrame(t, rocev2.CE, 1), 1, nil},
		{"outer CE", inVXLAN(5<<2|ce, requestFrame(t, rocev2.ECT0, 1)), 1, &Outer{Packets: 1, DSCP: 1 << 5,
			ECN: [4]uint64{rocev2.CE: 1}, Tunnels: []rocev2.Tunnel{rocev2.VXLAN}, marked: 1}},
		{"inner CE", inVXLAN(ect0, requestFrame(t, rocev2.CE, 1)), 1, &Outer{Packets: 1, DSCP: 1,
			ECN: [4]uint64{rocev2.ECT0: 1}, Tunnels: []rocev2.Tunnel{rocev2.VXLAN}}},
		{"CE around Not-ECT", inVXLAN(ce, requestFrame(t, rocev2.NotECT, 1)), 0, &Outer{Packets: 1, DSCP: 1,
			ECN: [4]uint64{rocev2.CE: 1}, Tunnels: []rocev2.Tunnel{rocev2.VXLAN}, CENotECT: 1}},
		{"CE around IP in IP", inEthernet(inIPv4(ce, 4, requestFrame(t, rocev2.ECT0, 1)[14:]...)), 1, &Outer{
			Packets: 1, DSCP: 1, ECN: [4]uint64{rocev2.CE: 1}, Tunnels: []rocev2.Tunnel{rocev2.IPIP}, marked: 1}},
		{"CE of a mirror", inERSPAN(ce, requestFrame(t, rocev2.ECT0, 1)), 0, nil},
		{"CE below a mirror", inERSPAN(0, inVXLAN(ce, requestFrame(t, rocev2.ECT0, 1))), 1, &Outer{Packets: 1,
			DSCP: 1, ECN: [4]uint64{rocev2.CE: 1}, Tunnels: []rocev2.Tunnel{rocev2.VXLAN}, marked: 1}},
		{"CE of a mirror with type 0x8949", inMirror8949(ce, requestFrame(t, rocev2.ECT0, 1)), 0, nil},
		{"CE below a mirror with type 0x8949", inMirror8949(0, inVXLAN(ce, requestFrame(t, rocev2.ECT0, 1))), 1,
			&Outer{Packets: 1, DSCP: 1, ECN: [4]uint64{rocev2.CE: 1}, Tunnels: []rocev2.Tunnel{rocev2.VXLAN},
				marked: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			table := New(Config{Evidence: true})
			var d Decoder
			var p Packet
			require.True(t, d.Decode(&p, row.frame, rocev2.DecodeOptions{}))
			table.Observe(&p, 1, time.Unix(1, 0))
			f := table.Snapshot().Flows[0]
			require.Len(t, f.Evidence.Episodes, int(row.ce))
			if row.want != nil {
				row.want.kinds = 1 << row.want.Tunnels[0]
			}
			require.Equal(t, row.want, f.Outer)
			require.Equal(t, row.ce, f.Data.CE)
		})
	}
}

// Decapsulation that follows RFC 6040 changes no ECN field in effect; one that drops the mark does.
func TestCompareDecapsulation(t *testing.T) {
	const ce = uint8(rocev2.CE)
	for _, row := range []struct {
		name  string
		after rocev2.ECN
		want  Rewrites
	}{
		{"keeps the mark", rocev2.CE, nil},
		{"drops the mark", rocev2.ECT0, Rewrites{{ce, uint8(rocev2.ECT0)}: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := NewComparison(ComparisonConfig{})
			var d Decoder
			for at, frame := range [][]byte{
				inVXLAN(ce, requestFrame(t, rocev2.ECT0, 7)), requestFrame(t, row.after, 7),
			} {
				var p Packet
				require.True(t, d.Decode(&p, frame, rocev2.DecodeOptions{}))
				c.Observe(Point(at), &p, time.Unix(1, int64(at)))
			}
			require.Equal(t, row.want, c.Total().ECN)
		})
	}
}
