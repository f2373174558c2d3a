package roles

import (
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
)

// A KernelSwitch is a switch that the kernel can play alone.
type KernelSwitch struct {
	Self       netip.Addr // IPv6; not valid where there are no Fast CNPs
	PerFlow    [8]time.Duration
	CodePoints fastcnp.CodePoints
	Marks      bool // whether packets are marked
	Seed       uint64
	Senders    []KernelSender
}

// A KernelSender has the method for the senders in a prefix. The longest of several prefixes of an address
// applies.
type KernelSender struct {
	Prefix  netip.Prefix
	Method  congested.Method // FastCNP, Mark or Nothing
	Capable congested.Capability
}

const notInKernel = `the kernel cannot do that: mode "agent" can`

// Kernel returns the configuration of the kernel program, or an error that names a key without a counterpart there.
func (c *SwitchConfig) Kernel() (k KernelSwitch, err error) {
	messages, err := c.messageConfig()
	if err != nil {
		return k, err
	}
	k = KernelSwitch{PerFlow: c.PerFlow, CodePoints: messages.CodePoints, Marks: c.Marks()}
	if c.Seed != nil {
		k.Seed = uint64(*c.Seed)
	}
	if err := rejectKeys(notInKernel, []presentKey{
		{"rate", c.Rate != rate{}}, {"own_record", c.OwnRecord != nil}, {"inner_source", c.InnerSource},
		{"level", c.Level != nil}, {"levels", c.Levels != nil}, {"congested", c.Congested == "ce"},
		{"fallback", c.Fallback != congested.NoMethod}, {"proxies", c.Proxies != nil},
		{"proxies_from", c.FromRouting()}, {"pe", c.PE != nil},
		{"port", c.Port != 0}, {"pause_us", c.PauseUS != nil}, {"ppfc", c.PPFC != nil}, {"ppfc_to", c.PPFCTo != ""},
		{"ppfc_address", c.PPFCAddress != ""}, {"ioam_namespaces", c.Namespaces != nil}, {"fcn", c.FCN == "any"},
		{"udp_checksum", c.UDPChecksum != nil},
	}); err != nil {
		return k, err
	}
	if _, k.Self, err = c.Self.splitFamilies("self", true); err != nil {
		return k, err
	}
	methods, err := byPrefix[congested.Method]("methods", c.Methods)
	if err != nil {
		return k, err
	}
	capable, err := byPrefix[congested.Capability]("capable", c.Capable)
	if err != nil {
		return k, err
	}
	for i, m := range methods {
		switch at := config.Index("methods", i); {
		case m.Value != congested.MethodFastCNP && m.Value != congested.MethodMark && m.Value != congested.NoMethod:
			return k, config.Wrong(config.Join(at, "method"),
				`the kernel knows fastcnp, mark and none: mode "agent" knows more`)
		case m.Prefix.Addr().Is4() && m.Value == congested.MethodFastCNP:
			return k, config.Wrong(config.Join(at, "method"),
				"%v: want mark or none, as there are no Fast CNPs over IPv4", m.Prefix)
		case m.Value == congested.MethodFastCNP && !k.Self.IsValid():
			return k, config.Wrong("self", "Fast CNPs need an IPv6 address")
		}
	}
	for _, p := range slices.Concat(prefixesOf(methods), prefixesOf(capable)) {
		if !slices.ContainsFunc(k.Senders, func(s KernelSender) bool { return s.Prefix == p }) {
			k.Senders = append(k.Senders, KernelSender{p, lookUpAround(p, methods), lookUpAround(p, capable)})
		}
	}
	return k, nil
}

func prefixesOf[V any](rules []acl.Entry[V]) (all []netip.Prefix) {
	for _, r := range rules {
		all = append(all, r.Prefix)
	}
	return all
}

// lookUpAround returns the value of the longest prefix that contains p.
func lookUpAround[V any](p netip.Prefix, rules []acl.Entry[V]) (value V) {
	longest := -1
	for _, r := range rules {
		if n := r.Prefix.Bits(); n > longest && n <= p.Bits() && r.Prefix.Contains(p.Addr()) {
			longest, value = n, r.Value
		}
	}
	return value
}

// A KernelTranslator is a sender that the kernel can play alone, as far as Fast CNPs go:
// one in front of a host that only knows CNPs.
type KernelTranslator struct {
	Host       netip.Addr // IPv6
	Accept     []netip.Prefix
	Receivers  bool // those of flows are believed as well
	Window     time.Duration
	CodePoints fastcnp.CodePoints
}

// Kernel returns the configuration of the kernel program, or an error that names a key without a counterpart there.
func (c *SenderConfig) Kernel() (k KernelTranslator, err error) {
	messages, err := c.messageConfig()
	if err != nil {
		return k, err
	}
	if err := rejectKeys(notInKernel, []presentKey{
		{"rate", c.Rate != rate{}}, {"per_source", c.PerSource != 0}, {"allow_tunnel", c.AllowTunnel},
		{"reaction", c.Reaction != nil},
	}); err != nil {
		return k, err
	}
	if c.As != "cnp" {
		return k, config.Wrong("as", `%q: want "cnp", since the kernel makes CNPs alone`, c.As)
	}
	if _, k.Host, err = c.Self.splitFamilies("self", true); err != nil {
		return k, err
	}
	if !k.Host.IsValid() {
		return k, config.Wrong("self", "the kernel needs an IPv6 address")
	}
	k.Accept, k.Receivers = c.Accept, c.Receivers == nil || *c.Receivers
	k.Window, k.CodePoints = c.Window, messages.CodePoints
	return k, nil
}
