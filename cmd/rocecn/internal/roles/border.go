package roles

import (
	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/filter"
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
	return filter.Border{
		CodePoints: messages.CodePoints, FCNPort: messages.FCNPort, ProxyPort: messages.ProxyPort, CNP: c.CNP,
		PPFC: c.PPFC,
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
