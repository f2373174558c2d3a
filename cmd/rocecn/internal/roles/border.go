package roles

import (
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/border"
	"github.com/rocecn/rocecn/rocev2"
)

// borderConfig is the configuration of the border of a domain.
type borderConfig struct {
	common
	Options []optionType `json:"options"` // option_types by another name
	CNP     bool         `json:"cnp"`     // CNPs may not cross either
	PPFC    bool         `json:"ppfc"`    // nor PPFC notifications
}

// Rules returns what must not cross.
func (c *borderConfig) Rules() (b filter.Border, err error) {
	if len(c.Options) > 0 && len(c.OptionTypes) > 0 {
		return b, config.Wrong("options", "option_types are given as well: they are the same list")
	}
	messages, err := c.message()
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

// Apply is that of [Config].
func (c *borderConfig) Apply(old Role) (Role, error) {
	rules, err := c.Rules()
	if err != nil {
		return nil, err
	}
	r := again[borderRole](old)
	return r, apply(&r.Border, border.New, border.Config{Enabled: c.Enabled, Border: rules})
}

type borderRole struct{ *border.Border }

// Play lets packets cross or not. What crosses is forwarded, whatever it is, if it is an IP packet: what MPLS labels
// carry without them. RoCEv2 and messages have a line.
func (r *borderRole) Play(out []byte, f *rocev2.Frame, now time.Time) ([]byte, Verdict) {
	_, d := r.Receive(out, f, 0, now)
	if d.Action == node.Dropped {
		return nil, Verdict{Decision: d}
	}
	packet := f.Outermost()
	if packet == nil {
		packet = f.Innermost()
	}
	return packet, Verdict{Decision: d}
}
