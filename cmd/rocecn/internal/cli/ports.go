package cli

import (
	"flag"
	"fmt"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// Ports are the UDP ports of FCN and proxy messages, which have only experimental
// ones so far, as two flags.
type Ports struct{ fcn, proxy uint }

// Flags adds -fcn-port and -proxy-port.
func (p *Ports) Flags(flags *flag.FlagSet) {
	flags.UintVar(&p.fcn, "fcn-port", fcn.Port, "UDP destination `port` of FCN messages")
	flags.UintVar(&p.proxy, "proxy-port", proxymsg.Port, "UDP destination `port` of messages to a proxy")
}

// Config returns what the flags say. Every port belongs to one kind of message.
func (p *Ports) Config() (c message.Config, err error) {
	const flags = "-fcn-port, -proxy-port"
	for _, port := range []uint{p.fcn, p.proxy} {
		switch {
		case port == 0 || port > 0xFFFF:
			return c, fmt.Errorf("%s: 1 to 65535 allowed, not %d", flags, port)
		case port == rocev2.Port:
			return c, fmt.Errorf("%s: %d is the port of RoCEv2", flags, port)
		}
	}
	if p.fcn == p.proxy {
		return c, fmt.Errorf("%s: both are %d", flags, p.fcn)
	}
	return message.Config{FCNPort: uint16(p.fcn), ProxyPort: uint16(p.proxy)}, nil
}
