package inspect

import (
	"net/netip"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// What the notifications hold.
type (
	jsonFastCNP struct {
		Option      uint8      `json:"option"`
		OptionType  hex8       `json:"option_type"` // of the IPv6 option
		OriginalDst netip.Addr `json:"original_dst"`
		Origin      string     `json:"origin"`
		IOAM        *jsonTrace `json:"ioam,omitempty"` // only in option 2
	}
	jsonFCN struct {
		FlowLabel uint32 `json:"flow_label"`
		Level     uint8  `json:"level"`
		Reserved  uint16 `json:"reserved"`
	}
	jsonProxy struct {
		Family         int        `json:"family"`
		Src            netip.Addr `json:"src"`
		Dst            netip.Addr `json:"dst"`
		Protocol       uint8      `json:"protocol"`
		SrcPort        uint16     `json:"src_port"`
		DstPort        uint16     `json:"dst_port"`
		Level          uint8      `json:"level"`
		InvokingLen    int        `json:"invoking_len"`
		InvokingDestQP *uint32    `json:"invoking_dest_qp,omitempty"`
	}
	jsonPPFC struct {
		Type    string     `json:"type"`
		Address netip.Addr `json:"address"`
		Port    uint16     `json:"port"`
		Pause   int64      `json:"pause_us"`
		Flags   uint16     `json:"flags"`
	}
)

func newJSONFastCNP(n *fastcnp.Notification) *jsonFastCNP {
	o := &n.Option
	j := &jsonFastCNP{
		Option: o.Number, OptionType: hex8(n.OptionType), OriginalDst: o.OriginalDst, Origin: n.Origin().String(),
	}
	if o.Number == 2 {
		trace := newJSONTrace(&o.Trace, jsonIOAM{Type: uint8(o.Trace.Kind), Namespace: o.Trace.Namespace})
		j.IOAM = &trace
	}
	return j
}

func newJSONProxy(m *proxymsg.Message, d *rocev2.Datagram) *jsonProxy {
	j := &jsonProxy{
		Family: 4, Src: m.Src, Dst: m.Dst, Protocol: m.Protocol, SrcPort: m.SrcPort, DstPort: m.DstPort, Level: m.Level,
		InvokingLen: invokingLen(m, d),
	}
	if m.Src.Is6() {
		j.Family = 6
	}
	if h, err := m.BTH(); err == nil {
		j.InvokingDestQP = &h.DestQP
	}
	return j
}

// invokingLen returns how many octets of the invoking packet were sent in d,
// also when the capture cut them.
func invokingLen(m *proxymsg.Message, d *rocev2.Datagram) int {
	return len(m.Invoking) + int(d.Length) - 8 - len(d.Data)
}

func newJSONPPFC(n *ppfc.Notification) *jsonPPFC {
	return &jsonPPFC{Type: n.Type.String(), Address: n.Congested, Port: n.Port, Pause: n.Pause.Microseconds(), Flags: n.Flags}
}
