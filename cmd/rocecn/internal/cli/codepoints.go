package cli

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// CodePoints are what IANA has not assigned yet, as flags: the types of Fast CNP's
// options, and the UDP ports of FCN and proxy messages.
type CodePoints struct {
	options    fastcnp.CodePoints
	fcn, proxy uint
}

// Flags adds -option-types, -fcn-port and -proxy-port.
func (c *CodePoints) Flags(flags *flag.FlagSet) {
	OptionTypes(flags, &c.options)
	flags.UintVar(&c.fcn, "fcn-port", fcn.Port, "UDP destination `port` of FCN messages")
	flags.UintVar(&c.proxy, "proxy-port", proxymsg.Port, "UDP destination `port` of messages to a proxy")
}

// Config returns what the flags say. Every port belongs to one kind of message.
func (c *CodePoints) Config() (message.Config, error) {
	const flags = "-fcn-port, -proxy-port"
	for _, port := range []uint{c.fcn, c.proxy} {
		switch {
		case port == 0 || port > 0xFFFF:
			return message.Config{}, fmt.Errorf("%s: 1 to 65535 allowed, not %d", flags, port)
		case port == rocev2.Port:
			return message.Config{}, fmt.Errorf("%s: %d is the port of RoCEv2", flags, port)
		}
	}
	if c.fcn == c.proxy {
		return message.Config{}, fmt.Errorf("%s: both are %d", flags, c.fcn)
	}
	return message.Config{FCNPort: uint16(c.fcn), ProxyPort: uint16(c.proxy), CodePoints: c.options}, nil
}

// OptionTypes adds -option-types alone.
func OptionTypes(flags *flag.FlagSet, c *fastcnp.CodePoints) {
	usual := fmt.Sprintf("0x%02x,0x%02x", uint8(fastcnp.Option1Type), uint8(fastcnp.Option2Type))
	if one, _, _ := strings.Cut(usual, ","); fastcnp.Option1Type == fastcnp.Option2Type {
		usual = one
	}
	flags.Func("option-types",
		"`types` of the Fast CNP options: one for both, or two with a comma (default "+usual+")",
		func(s string) error {
			first, second, two := strings.Cut(s, ",")
			if !two {
				second = first
			}
			for _, p := range []struct {
				text string
				to   *ipv6opt.Type
			}{{first, &c.Option1}, {second, &c.Option2}} {
				n, err := strconv.ParseUint(p.text, 0, 8)
				if err != nil || ipv6opt.Type(n).IsPadding() {
					return errors.New("an option type is a number from 2 to 255, as in 0x9e")
				}
				*p.to = ipv6opt.Type(n)
			}
			return nil
		})
}
