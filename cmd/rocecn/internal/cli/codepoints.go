package cli

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// CodePoints are flags for the numbers that IANA has not assigned yet: the types of Fast CNP's options, and the UDP
// ports of FCN and proxy messages. Where messages are read, the address family in proxy messages is one more.
type CodePoints struct {
	options    fastcnp.CodePoints
	fcn, proxy portFlag
	family     proxymsg.Family
}

// Flags adds -option-types, -fcn-port and -proxy-port.
func (c *CodePoints) Flags(flags *flag.FlagSet) {
	c.fcn, c.proxy = fcn.Port, proxymsg.Port
	OptionTypes(flags, &c.options)
	flags.Var(&c.fcn, "fcn-port", "UDP destination `port` of FCN messages")
	flags.Var(&c.proxy, "proxy-port", "UDP destination `port` of proxy messages")
}

// ProxyFamily adds -proxy-family.
func (c *CodePoints) ProxyFamily(flags *flag.FlagSet) {
	flags.Func("proxy-family",
		"address `family` of the flows in proxy messages, 4 or 6 (default: the one that fits)",
		func(s string) error {
			switch s {
			case "4":
				c.family = proxymsg.IPv4
			case "6":
				c.family = proxymsg.IPv6
			default:
				return errors.New("want 4 or 6")
			}
			return nil
		})
}

// A portFlag is a UDP port as a flag, in decimal.
type portFlag uint16

// String returns the number.
func (p *portFlag) String() string { return strconv.Itoa(int(*p)) }

// Set is for package flag.
func (p *portFlag) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return errors.New("want 1 to 65535")
	}
	*p = portFlag(n)
	return CheckPort(uint16(n))
}

// CheckPort returns an error if messages cannot use a UDP port.
func CheckPort(port uint16) error {
	switch {
	case port == 0:
		return errors.New("want 1 to 65535")
	case port == rocev2.Port:
		return fmt.Errorf("%d is the port of RoCEv2", port)
	case wire.IsTunnelPort(port):
		return fmt.Errorf("%d is the port of a tunnel", port)
	}
	return nil
}

// Config returns the configuration by the flags. Every port belongs to one kind of message.
func (c *CodePoints) Config() (message.Config, error) {
	if c.fcn == c.proxy {
		return message.Config{}, fmt.Errorf("-fcn-port, -proxy-port: both are %d", c.fcn)
	}
	return message.Config{FCNPort: uint16(c.fcn), ProxyPort: uint16(c.proxy), CodePoints: c.options,
		ProxyFamily: c.family}, nil
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
