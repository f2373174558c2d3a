package roles

import (
	"slices"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/border"
	"github.com/rocecn/rocecn/rocev2"
)

// BorderConfig is the configuration of the border of a domain.
type BorderConfig struct {
	common
	Options []optionType `json:"options"` // option_types by another name
	CNP     bool         `json:"cnp"`     // CNPs may not cross either
	PPFC    bool         `json:"ppfc"`    // nor PPFC notifications
	Tunnels string       `json:"tunnels"` // pass, the default, or drop: those that the border cannot look into

	TunnelProtocols []uint8 `json:"tunnel_protocols"` // further IP protocols of such tunnels
}

// Rules returns the rules of the border.
func (c *BorderConfig) Rules() (b filter.Border, err error) {
	if len(c.Options) > 0 && len(c.OptionTypes) > 0 {
		return b, config.Wrong("options", "option_types are given as well: they are the same list")
	}
	messages, err := c.messageConfig()
	if err != nil {
		return b, err
	}
	if len(c.Options) > 0 {
		if messages.CodePoints, err = codePoints("options", c.Options); err != nil {
			return b, err
		}
	}
	if err := checkWord("tunnels", c.Tunnels, "pass", "drop"); err != nil {
		return b, err
	}
	for i, p := range c.TunnelProtocols {
		if p == wire.ProtoUDP || wire.IsExtension(p) || p == wire.ProtoFragment {
			return b, config.Wrong(config.Index("tunnel_protocols", i),
				"%d: want a protocol that is neither UDP nor an extension header", p)
		}
	}
	return filter.Border{
		CodePoints: messages.CodePoints, FCNPort: messages.FCNPort, ProxyPort: messages.ProxyPort, CNP: c.CNP,
		PPFC: c.PPFC, DropTunnels: c.Tunnels == "drop", TunnelProtocols: c.TunnelProtocols,
		TunnelPorts: slices.Concat(c.VXLANPorts, c.FOUPorts),
	}, nil
}

// Apply implements [Config].
func (c *BorderConfig) Apply(old node.Role) (node.Role, error) {
	rules, err := c.Rules()
	if err != nil {
		return nil, err
	}
	r := oldOrNew[Border](old)
	return r, configureRole(&r.Role, border.New, border.Config{Enabled: c.Enabled, Border: rules})
}

// A Border forwards the packets of any kind that may cross, if they are IP packets: those under MPLS labels
// without the labels. RoCEv2 and messages have a line.
type Border struct{ *border.Role }

// Receive implements [node.Role].
func (r *Border) Receive(_ []byte, f *rocev2.Frame, e node.Event) ([]byte, node.Decision) {
	_, d := r.Role.Receive(nil, f, e)
	if f == nil || d.Action == node.ActionDropped || e.Observe {
		return nil, d
	}
	packet := f.Mirror() // the mirror's packet crosses, with the copy in it
	if packet == nil {
		packet = f.Outer().IP()
	}
	if packet == nil {
		packet = f.BorderPacket()
	}
	return packet, d
}
