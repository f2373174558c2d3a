package roles

import (
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/node/congested"
)

// A KernelSwitch is a switch that the kernel can play alone.
type KernelSwitch struct {
	Self       netip.Addr // IPv6
	PerFlow    time.Duration
	CodePoints fastcnp.CodePoints
	Marks      bool // whether packets are marked
	Senders    []KernelSender
}

// A KernelSender says what is done for the senders in a prefix of IPv6 addresses, of
// several around an address in the longest.
type KernelSender struct {
	Prefix  netip.Prefix
	Method  congested.Method // FastCNP, Mark or Nothing
	Capable congested.Capability
}

// Kernel returns what the kernel needs to know, or says which key it knows nothing
// of.
func (c *switchConfig) Kernel() (k KernelSwitch, err error) {
	messages, err := c.message()
	if err != nil {
		return k, err
	}
	k = KernelSwitch{PerFlow: c.PerFlow[0], CodePoints: messages.CodePoints, Marks: c.Marks()}
	for _, key := range []struct {
		name  string
		given bool
	}{
		{"rate", c.Rate != rate{}}, {"own_record", c.OwnRecord != nil}, {"inner_source", c.InnerSource},
		{"levels", c.Levels != nil}, {"congested", c.Congested == "ce"}, {"fallback", c.Fallback != congested.Nothing},
		{"per_flow", slices.ContainsFunc(c.PerFlow[:], func(d time.Duration) bool { return d != k.PerFlow })},
	} {
		if key.given {
			return k, config.Wrong(key.name, `the kernel cannot do that: mode "agent" can`)
		}
	}
	if _, k.Self, err = c.Self.families("self"); err != nil {
		return k, err
	}
	if !k.Self.IsValid() {
		return k, config.Wrong("self", "the kernel needs an IPv6 address")
	}
	for i, m := range c.Methods {
		if m.Method == nil {
			return k, config.Wrong(config.Join(config.Index("methods", i), "method"), "missing")
		}
		switch *m.Method {
		case congested.FastCNP, congested.Mark, congested.Nothing:
		default:
			return k, config.Wrong(config.Join(config.Index("methods", i), "method"),
				`the kernel knows fastcnp, mark and none: mode "agent" knows more`)
		}
		if m.Senders.Addr().Is4() && *m.Method != congested.Nothing {
			return k, config.Wrong(config.Join(config.Index("methods", i), "senders"),
				`%v: the kernel knows IPv6 alone: mode "agent" knows more`, m.Senders)
		}
		if m.Senders.Addr().Is6() {
			k.add(c, m.Senders)
		}
	}
	for _, m := range c.Capable {
		if m.Senders.Addr().Is6() {
			k.add(c, m.Senders)
		}
	}
	return k, nil
}

// add adds the senders in a prefix, unless they are there.
func (k *KernelSwitch) add(c *switchConfig, p netip.Prefix) {
	if slices.ContainsFunc(k.Senders, func(s KernelSender) bool { return s.Prefix == p }) {
		return
	}
	s := KernelSender{Prefix: p}
	around := func(q netip.Prefix, longest *int) bool {
		if q.Bits() > p.Bits() || q.Bits() < *longest || !q.Contains(p.Addr()) {
			return false
		}
		*longest = q.Bits()
		return true
	}
	longest := 0
	for _, m := range c.Methods {
		if around(m.Senders, &longest) {
			s.Method = *m.Method
		}
	}
	longest = 0
	for _, m := range c.Capable {
		if around(m.Senders, &longest) {
			s.Capable = *m.Capable
		}
	}
	k.Senders = append(k.Senders, s)
}
