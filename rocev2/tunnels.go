package rocev2

import (
	"iter"
	"math/bits"
	"strings"

	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// A Tunnel is an encapsulation around a packet: a mirror, an overlay or a label
// stack. A Segment Routing header without encapsulation is not a tunnel.
type Tunnel uint8

// The tunnels.
const (
	IPIP     Tunnel = iota // IP in IP (RFC 2003, RFC 2473, RFC 4213); [Tunnels] does not list it
	ERSPAN1                // a mirrored frame directly after GRE
	ERSPAN2                // a mirrored frame after GRE and an ERSPAN header of type II
	ERSPAN3                // a mirrored frame or packet after GRE and an ERSPAN header of type III
	GRE                    // RFC 2784, RFC 2890; not listed if it carries ERSPAN
	VXLAN                  // RFC 7348
	Geneve                 // RFC 8926
	MPLS                   // RFC 3032, RFC 4023, RFC 7510, RFC 4448: one label stack, however many labels
	SRv6                   // RFC 8986: encapsulation with a Segment Routing header, or of Ethernet in IPv6
	GRE8949                // a mirrored frame after GRE with protocol type 0x8949 and 22 octets (NVIDIA Spectrum)
	VXLANGPE               // draft-ietf-nvo3-vxlan-gpe, with IP or Ethernet
	GTPU                   // 3GPP TS 29.281, with IP or Ethernet
	GUE                    // draft-ietf-intarea-gue, with IP or Ethernet
	FOU                    // IP or Ethernet directly in UDP, to a port of Encapsulations
)

var tunnelNames = [...]string{
	"ipip", "erspan1", "erspan2", "erspan3", "gre", "vxlan", "geneve", "mpls", "srv6", "gre-8949", "vxlan-gpe", "gtpu",
	"gue", "fou",
}

// String returns the tunnel in lower case.
func (t Tunnel) String() string { return enumtext.Name(t, tunnelNames[:], "Tunnel") }

// isMirror reports whether the tunnel carries frames that a mirror copied.
func (t Tunnel) isMirror() bool { return t >= ERSPAN1 && t <= ERSPAN3 || t == GRE8949 }

// maxTunnels is the maximum number of tunnels around a packet. Usually the limit on IP headers applies first; this one
// limits label stacks inside label stacks.
const maxTunnels = 12

// Tunnels is the list of all tunnels around a packet.
type Tunnels struct {
	list uint64 // four bits a tunnel, the outermost lowest; one word is fast to read immediately after it is written
}

// Len returns the number of tunnels.
func (t Tunnels) Len() int { return (bits.Len64(t.list) + 3) / 4 }

// All yields the tunnels, the outermost first.
func (t Tunnels) All() iter.Seq[Tunnel] {
	return func(yield func(Tunnel) bool) {
		for list := t.list; list != 0; list >>= 4 {
			if !yield(Tunnel(list & 15)) {
				return
			}
		}
	}
}

// mirrored reports whether one of the tunnels is that of a mirror. If so, the packet is a copy, sent by a mirror, of a
// packet that passed another node.
func (t Tunnels) mirrored() bool {
	for tunnel := range t.All() {
		if tunnel.isMirror() {
			return true
		}
	}
	return false
}

// String returns the tunnels, the outermost first, as in "erspan2 vxlan".
func (t Tunnels) String() string {
	var s strings.Builder
	for tunnel := range t.All() {
		if s.Len() > 0 {
			s.WriteByte(' ')
		}
		s.WriteString(tunnel.String())
	}
	return s.String()
}

// add adds a tunnel inside the present ones.
func (t *Tunnels) add(tunnel Tunnel) error {
	at := 4 * t.Len()
	if at >= 4*maxTunnels {
		return errTunnels
	}
	t.list |= uint64(tunnel) << at
	return nil
}

var errTunnels = wireerr.New("rocev2", "tunnels",
	"nested more than 12 deep", ErrNotRoCEv2, wireerr.Malformed)
