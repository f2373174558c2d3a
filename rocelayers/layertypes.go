package rocelayers

import (
	"sync"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/rocev2"
)

// The layer types, one block of numbers. gopacket has a single number space
// for all programs' layers, and registering a number twice panics at start-up;
// these are not used by any other project that is known to us.
const (
	LayerTypeBTH gopacket.LayerType = 1791 + iota
	LayerTypeCNP
	LayerTypeICRC
	_ // Fast CNP
	_ // Destination Options
	_ // Hop-by-Hop Options
	_ // IOAM
	_ // FCN
	_ // notification to a proxy
	_ // 1800 is another project's
	_ // PPFC
)

func init() {
	register(LayerTypeBTH, "BTH", decodeBTH)
	register(LayerTypeCNP, "CNP", decodeCNP)
	register(LayerTypeICRC, "ICRC", decodeICRC)
}

func register(t gopacket.LayerType, name string, decode gopacket.DecodeFunc) {
	gopacket.RegisterLayerType(int(t), gopacket.LayerTypeMetadata{Name: name, Decoder: decode})
}

// Register makes UDP port 4791 lead to the BTH, for NewPacket and for every
// DecodingLayerParser. Call it before decoding starts: gopacket's table of
// ports has no lock. Further calls do nothing.
//
// For another port see [layers.RegisterUDPPortLayerType].
func Register() { claimPort() }

var claimPort = sync.OnceFunc(func() {
	layers.RegisterUDPPortLayerType(rocev2.Port, LayerTypeBTH)
})
