package play

import (
	"time"

	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/border"
	"github.com/rocecn/rocecn/rocev2"
)

func init() { roles["border"] = func() config { return new(borderConfig) } }

// borderConfig is the configuration of the border of a domain.
type borderConfig struct {
	common
	Options []optionType `json:"options"` // option_types by another name
	CNP     bool         `json:"cnp"`     // CNPs may not cross either
	PPFC    bool         `json:"ppfc"`    // nor PPFC notifications
}

func (c *borderConfig) role() (role, error) {
	if len(c.Options) > 0 && len(c.OptionTypes) > 0 {
		return nil, wrong("options", "option_types are given as well: they are the same list")
	}
	messages, err := c.message()
	if err != nil {
		return nil, err
	}
	if len(c.Options) > 0 {
		if messages.CodePoints, err = codePoints("options", c.Options); err != nil {
			return nil, err
		}
	}
	b, err := border.New(border.Config{Enabled: c.Enabled, Border: filter.Border{
		CodePoints: messages.CodePoints, FCNPort: messages.FCNPort, ProxyPort: messages.ProxyPort, CNP: c.CNP,
		PPFC: c.PPFC,
	}})
	return &borderRole{b}, err
}

type borderRole struct{ *border.Border }

// play lets packets cross or not. What crosses is forwarded, whatever it is, if it is an IP packet: what MPLS labels
// carry without them. RoCEv2 and messages have a line.
func (r *borderRole) play(out []byte, f *rocev2.Frame, now time.Time) ([]byte, line) {
	_, d := r.Receive(out, f, 0, now)
	if d.Action == node.Dropped {
		return nil, lineOf(&d)
	}
	packet := f.Outermost()
	if packet == nil {
		packet = f.Innermost()
	}
	return packet, lineOf(&d)
}
