// Code generated from rocelayers/layertypes.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import (
	"errors"
	"sync"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/rocecn/rocecn/internal/wireerr"
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
	register(LayerTypeICRC, "ICRC", decodeAs[ICRC])
	register(LayerTypeFastCNP, "FastCNP", decodeAlone)
	register(LayerTypeIOAM, "IOAM", decodeAs[IOAM])
	register(LayerTypeFCN, "FCN", decodeInUDP[FCN])
	register(LayerTypeProxy, "ProxyNotification", decodeInUDP[Proxy])
	register(LayerTypePPFC, "PPFC", decodeAlone)
	register(LayerTypeCM, "CM", decodeAs[CM])
	register(LayerTypeFlowControl, "FlowControl", decodeFlowControl)
}

func register(t gopacket.LayerType, name string, decode gopacket.DecodeFunc) {
	gopacket.RegisterLayerType(int(t), gopacket.LayerTypeMetadata{Name: name, Decoder: decode})
}

// Methods of gopacket.Layer and gopacket.DecodingLayer.

func (l *BTH) LayerType() gopacket.LayerType                { return LayerTypeBTH }
func (l *CM) LayerType() gopacket.LayerType                 { return LayerTypeCM }
func (l *CNP) LayerType() gopacket.LayerType                { return LayerTypeCNP }
func (l *DestinationOptions) LayerType() gopacket.LayerType { return layers.LayerTypeIPv6Destination }
func (l *FastCNP) LayerType() gopacket.LayerType            { return LayerTypeFastCNP }
func (l *FCN) LayerType() gopacket.LayerType                { return LayerTypeFCN }
func (l *FlowControl) LayerType() gopacket.LayerType        { return LayerTypeFlowControl }
func (l *HopByHop) LayerType() gopacket.LayerType           { return layers.LayerTypeIPv6HopByHop }
func (l *ICRC) LayerType() gopacket.LayerType               { return LayerTypeICRC }
func (l *IOAM) LayerType() gopacket.LayerType               { return LayerTypeIOAM }
func (l *PPFC) LayerType() gopacket.LayerType               { return LayerTypePPFC }
func (l *Proxy) LayerType() gopacket.LayerType              { return LayerTypeProxy }
func (l *Routing) LayerType() gopacket.LayerType            { return layers.LayerTypeIPv6Routing }

func (l *BTH) CanDecode() gopacket.LayerClass                { return l.LayerType() }
func (l *CM) CanDecode() gopacket.LayerClass                 { return l.LayerType() }
func (l *CNP) CanDecode() gopacket.LayerClass                { return l.LayerType() }
func (l *DestinationOptions) CanDecode() gopacket.LayerClass { return l.LayerType() }
func (l *FastCNP) CanDecode() gopacket.LayerClass            { return l.LayerType() }
func (l *FCN) CanDecode() gopacket.LayerClass                { return l.LayerType() }
func (l *FlowControl) CanDecode() gopacket.LayerClass        { return l.LayerType() }
func (l *HopByHop) CanDecode() gopacket.LayerClass           { return l.LayerType() }
func (l *ICRC) CanDecode() gopacket.LayerClass               { return l.LayerType() }
func (l *IOAM) CanDecode() gopacket.LayerClass               { return l.LayerType() } // which no layer leads to
func (l *PPFC) CanDecode() gopacket.LayerClass               { return l.LayerType() }
func (l *Proxy) CanDecode() gopacket.LayerClass              { return l.LayerType() }
func (l *Routing) CanDecode() gopacket.LayerClass            { return l.LayerType() }

// final is embedded in the layers that no other layer follows. Only the ICRC follows those of a BTH, and it is in the
// BTH layer.
type final struct{}

// NextLayerType returns LayerTypeZero.
func (final) NextLayerType() gopacket.LayerType { return gopacket.LayerTypeZero }

// inBTH is in the layers that stand between a BTH and its ICRC.
type inBTH struct {
	final
	bth *BTH
}

func (l *inBTH) setBTH(before *BTH) { l.bth = before }

// layer is the constraint for layers that NewPacket returns and a parser decodes into.
type layer[T any] interface {
	*T
	gopacket.Layer
	gopacket.DecodingLayer
}

// decodeAs decodes a layer, adds it to a packet and goes on.
func decodeAs[T any, P layer[T]](data []byte, p gopacket.PacketBuilder) error {
	return decodeInto(P(new(T)), data, p)
}

func decodeInto[T any, P layer[T]](l P, data []byte, p gopacket.PacketBuilder) error {
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	if next := l.NextLayerType(); next != gopacket.LayerTypeZero {
		return p.NextDecoder(next)
	}
	return nil
}

// Truncation is also reported to gopacket.
func refuse(err error, df gopacket.DecodeFeedback) error {
	if errors.Is(err, wireerr.Truncated) {
		df.SetTruncated()
	}
	return err
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

// RegisterFCN makes a UDP port lead to the [FCN]: fcn.Port, or the port of the deployment. Like Register, call it
// before decoding starts.
func RegisterFCN(port uint16) { layers.RegisterUDPPortLayerType(layers.UDPPort(port), LayerTypeFCN) }

// RegisterProxy makes a UDP port lead to the [Proxy] notification: proxymsg.Port, or the port of the deployment. Like
// Register, call it before decoding starts.
func RegisterProxy(port uint16) {
	layers.RegisterUDPPortLayerType(layers.UDPPort(port), LayerTypeProxy)
}

// OverrideDestinationOptions makes NewPacket decode IPv6 Destination Options
// with [DestinationOptions] where gopacket's own layers.IPv6Destination would
// stand, for the whole program. Call it before decoding starts.
//
// It breaks code, including that of other packages, that takes the layer of type layers.LayerTypeIPv6Destination for a
// *layers.IPv6Destination: the type assertion fails, and panics if it is not checked. Nothing here needs the override:
// [OptionsOf] and [IOAMOf] read gopacket's layer as well, and the [FastCNP] is found without it. It is for programs
// that read the options of a header that gopacket rejects, or serialize its octets unchanged.
//
// A DecodingLayerParser needs no override: give it a DestinationOptions.
func OverrideDestinationOptions() {
	const name = "IPv6Destination"
	decoder := gopacket.DecodeFunc(decodeDestinationOptions)
	gopacket.OverrideLayerType(int(layers.LayerTypeIPv6Destination),
		gopacket.LayerTypeMetadata{Name: name, Decoder: decoder})
	layers.IPProtocolMetadata[layers.IPProtocolIPv6Destination].DecodeWith = decoder
}
