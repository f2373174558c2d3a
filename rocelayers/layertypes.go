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
//
// [IPv6], [HopByHop] and [DestinationOptions] have gopacket's types.
const (
	LayerTypeBTH gopacket.LayerType = 1791 + iota
	LayerTypeCNP
	LayerTypeICRC
	LayerTypeFastCNP
	LayerTypeIOAM
	LayerTypeFCN
	LayerTypeProxy
	LayerTypePPFC
	LayerTypeCM
	_ // 1800 is another project's
	LayerTypeFlowControl
)

func init() {
	register(LayerTypeBTH, "BTH", decodeBTH)
	register(LayerTypeCNP, "CNP", decodeAlone)
	register(LayerTypeICRC, "ICRC", decodeICRC)
	register(LayerTypeFastCNP, "FastCNP", decodeAlone)
	register(LayerTypeIOAM, "IOAM", decodeIOAM)
	register(LayerTypeFCN, "FCN", decodeFCN)
	register(LayerTypeProxy, "ProxyNotification", decodeProxy)
	register(LayerTypePPFC, "PPFC", decodeAlone)
	register(LayerTypeCM, "CM", decodeCM)
	register(LayerTypeFlowControl, "FlowControl", decodeFlowControl)
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

// RegisterFCN makes a UDP port lead to the [FCN]: fcn.ExperimentalPort, or what the
// deployment uses. Like Register, call it before decoding starts.
func RegisterFCN(port uint16) {
	layers.RegisterUDPPortLayerType(layers.UDPPort(port), LayerTypeFCN)
}

// RegisterProxy makes a UDP port lead to the [Proxy] notification:
// proxymsg.ExperimentalPort, or what the deployment uses. Like Register, call it before
// decoding starts.
func RegisterProxy(port uint16) {
	layers.RegisterUDPPortLayerType(layers.UDPPort(port), LayerTypeProxy)
}

// OverrideDestinationOptions makes NewPacket decode IPv6 Destination Options
// with [DestinationOptions] where gopacket's own layers.IPv6Destination would
// stand, for the whole program. Call it before decoding starts.
//
// It breaks code, also that of other packages, that takes the layer of type
// layers.LayerTypeIPv6Destination for a *layers.IPv6Destination: the type
// assertion fails, and panics where it is not checked. Nothing here needs the
// override: [OptionsOf] and [IOAMOf] read gopacket's layer as well, and the
// [FastCNP] is found without it. It is for programs that want the options of
// a header that gopacket refuses, or its octets serialized as they were.
//
// A DecodingLayerParser needs no override: give it a DestinationOptions.
func OverrideDestinationOptions() {
	const name = "IPv6Destination"
	decoder := gopacket.DecodeFunc(decodeDestinationOptions)
	gopacket.OverrideLayerType(int(layers.LayerTypeIPv6Destination),
		gopacket.LayerTypeMetadata{Name: name, Decoder: decoder})
	layers.IPProtocolMetadata[layers.IPProtocolIPv6Destination].DecodeWith = decoder
}
