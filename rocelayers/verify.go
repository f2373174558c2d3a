package rocelayers

import (
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
)

var (
	ErrNoBTH = wireerr.New("rocelayers", "packet", 0, "no BTH layer", wireerr.Other)
	ErrNoIP  = wireerr.New("rocelayers", "packet", 0, "no IPv4 or IPv6 layer whose octets are at hand", wireerr.Malformed)
)

// VerifyICRC checks the ICRC of a decoded packet and returns the coverage that
// matches. Other errors than [icrc.ErrMismatch] are those of a packet that has
// no ICRC to check: no BTH layer, cut by the capture.
func VerifyICRC(p gopacket.Packet) (icrc.Coverage, error) {
	var ip gopacket.NetworkLayer // of IP in IP the innermost
	for _, l := range p.Layers() {
		switch l := l.(type) {
		case *layers.IPv4:
			ip = l
		case *layers.IPv6:
			ip = l
		case *BTH:
			return VerifyNetworkLayer(ip)
		case *Proxy: // a BTH behind it is the invoking packet's
			return icrc.AsSent, ErrNoBTH
		}
	}
	return icrc.AsSent, ErrNoBTH
}

// VerifyNetworkLayer checks the ICRC of the packet that ip, a *layers.IPv4,
// *layers.IPv6 or *IPv6, was decoded from. It is for a DecodingLayerParser, which knows
// that there is a BTH; of IP in IP the innermost layer is the one to give,
// which the parser decodes last. It allocates nothing.
func VerifyNetworkLayer(ip gopacket.NetworkLayer) (icrc.Coverage, error) {
	b, err := octets(ip)
	if err != nil {
		return icrc.AsSent, err
	}
	return icrc.Verify(b)
}

// octets returns the IP packet that ip was decoded from, as far as it was
// there, perhaps with octets behind its end. gopacket cuts layers out of one
// frame, so those that follow the IP header lie in the capacity of its
// contents.
func octets(ip gopacket.NetworkLayer) ([]byte, error) {
	var header, rest int
	switch ip := ip.(type) {
	case *IPv6:
		return octets(&ip.IPv6)
	case *layers.IPv4:
		header, rest = len(ip.Contents), len(ip.Payload)
	case *layers.IPv6:
		header, rest = len(ip.Contents), len(ip.Payload)
		if ip.HopByHop != nil { // in neither
			rest += len(ip.HopByHop.Contents)
		}
	}
	if header == 0 || header+rest > cap(ip.LayerContents()) {
		return nil, ErrNoIP
	}
	return ip.LayerContents()[:header+rest], nil
}
