package play

import (
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/message"
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
	return &borderRole{border.New(border.Config{Enabled: c.Enabled, Border: filter.Border{
		CodePoints: messages.CodePoints, FCNPort: messages.FCNPort, ProxyPort: messages.ProxyPort, CNP: c.CNP, PPFC: c.PPFC,
	}})}, nil
}

type borderRole struct{ border *border.Border }

// crossing returns the IP packet in a frame, nil if there is none. What MPLS
// labels carry comes out without them.
func crossing(f *frame) []byte {
	o := f.Options
	o.Cut = true // whatever its length field says
	if _, ip, err := rocev2.Split(f.Data, o); err == nil {
		return ip
	}
	return rocev2.Innermost(f.Data, o)
}

// play lets packets cross or not. What crosses is forwarded, whatever it is, if
// it is an IP packet; RoCEv2 and messages have a line.
func (r *borderRole) play(f *frame) (line, []byte) {
	packet := crossing(f)
	switch v := r.border.Judge(f.Data, f.Options); {
	case v.Kind == message.Other:
		return line{}, packet
	case v.Reason == node.Disabled:
		return refuse(v.Reason), packet
	case v.Drop:
		return line{Action: dropped, Kind: v.Kind.String()}, nil
	}
	return line{Action: passed}, packet
}
