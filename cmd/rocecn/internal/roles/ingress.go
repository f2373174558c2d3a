package roles

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/rocev2"
)

// IngressConfig is the configuration of the ingress PE.
type IngressConfig struct {
	common
	Tunnel tunnel `json:"tunnel"`
	// assign, the default, or learn: from packets that the kernel encapsulates
	Labels     string         `json:"labels"`
	CNPFrom    ownAddresses   `json:"cnp_from"` // source of CNPs
	CNP        ownAddresses   `json:"cnp"`      // earlier name of cnp_from
	Accept     []netip.Prefix `json:"accept"`   // nodes of the WAN
	Idle       *time.Duration `json:"idle"`
	Quarantine *time.Duration `json:"quarantine"`
	MaxFlows   *int           `json:"max_flows"`
	PerFlow    time.Duration  `json:"per_flow"`
	Rate       rate           `json:"rate"`
	LearnPort  bool           `json:"learn_port"`     // whether the UDP source port may decide a tie of votes
	RateIn     rate           `json:"rate_in"`        // of all FCNs, accepted or not
	RateInFrom rate           `json:"rate_in_source"` // of those of one node
	Seed       *seed          `json:"seed"`           // absent: labels differ from run to run
}

// A tunnel is the tunnel of packets through the WAN.
type tunnel struct {
	Type     string       `json:"type"` // ipip, vxlan or srv6
	Src      netip.Addr   `json:"src"`  // the PE's own address in the WAN
	Dst      netip.Addr   `json:"dst"`  // where the tunnel ends; SRv6: the only segment
	Segments []netip.Addr `json:"segments"`
	VNI      uint32       `json:"vni"`
	Reduced  bool         `json:"reduced"`
}

// A seed is a number, or any text.
type seed uint64

func (s *seed) UnmarshalText(text []byte) error {
	if _, err := strconv.ParseFloat(string(text), 64); err == nil {
		if _, err := strconv.ParseUint(string(text), 10, 64); err != nil {
			return fmt.Errorf("%s: want a whole number from 0 to %d", text, uint64(1<<64-1))
		}
	}
	sum := sha256.Sum256(text)
	*s = seed(binary.BigEndian.Uint64(sum[:]))
	return nil
}

// Limited implements [Sending].
func (c *IngressConfig) Limited() bool { return c.PerFlow != 0 || c.Rate != rate{} }

// Lacks implements [Lacking]. If the role gives labels, it encapsulates all senders' packets.
func (c *IngressConfig) Lacks() error {
	switch {
	case !c.Learns():
		return nil
	case len(c.Accept) == 0:
		return config.Wrong("accept", "missing: without it no node's FCNs count")
	case len(c.CNPFrom)+len(c.CNP) == 0:
		return config.Wrong("cnp_from", "missing: without an address of its own towards senders the role sends no CNP")
	}
	return nil
}

// cnpSource returns the source addresses of CNPs, and the name of the key that has them.
func (c *IngressConfig) cnpSource() (key string, source ownAddresses, err error) {
	switch {
	case c.CNPFrom != nil && c.CNP != nil:
		return "", nil, config.Wrong("cnp", "given together with cnp_from: want one of them")
	case c.CNP != nil:
		return "cnp", c.CNP, nil
	}
	return "cnp_from", c.CNPFrom, nil
}

// Apply implements [Config].
func (c *IngressConfig) Apply(old node.Role) (node.Role, error) {
	messages, err := c.messageConfig()
	if err != nil {
		return nil, err
	}
	if err := checkWord("labels", c.Labels, "assign", "learn"); err != nil {
		return nil, err
	}
	before := oldOrNew[Ingress](old)
	pairs := newPairs(before.pairs, true, 0, c.qpmapConfig(c.LearnPort))
	pe := &Ingress{Role: before.Role, pairs: pairs}
	cfg := ingress.Config{
		Enabled: c.Enabled, WAN: c.Tunnel.Src, Port: messages.FCNPort, Accept: acl.New(c.Accept...),
		LearnLabels: c.Learns(), IgnoreTunnels: true, QPs: pe.pairs.Map, PerFlow: c.PerFlow, Out: node.Rate(c.Rate),
		In: node.Rate(c.RateIn), InPerSource: node.Rate(c.RateInFrom),
	}
	if c.Enabled {
		if err := c.setEnabled(&cfg, pe); err != nil {
			return nil, err
		}
	}
	return pe, configureRole(&pe.Role, ingress.New, cfg)
}

// Learns reports whether others encapsulate, and give the labels.
func (c *IngressConfig) Learns() bool { return c.Labels == "learn" }

// setEnabled sets the keys that a role may lack while it is off.
func (c *IngressConfig) setEnabled(cfg *ingress.Config, pe *Ingress) (err error) {
	switch t := &c.Tunnel; {
	case !isUsable(t.Src):
		err = config.Wrong("tunnel.src", notUsable)
	case !c.Learns():
		err = t.configureTunnel(cfg, pe)
	case c.Quarantine != nil:
		err = config.Wrong("quarantine", `labels rest that the role gives: not with labels "learn"`)
	case c.Seed != nil:
		err = config.Wrong("seed", `it is for labels that the role gives: not with labels "learn"`)
	default: // only where the tunnel begins is to be known
		err = rejectKeys(`others encapsulate with labels "learn": src is enough`, []presentKey{
			{"tunnel.type", t.Type != ""}, {"tunnel.dst", t.Dst.IsValid()}, {"tunnel.segments", t.Segments != nil},
			{"tunnel.vni", t.VNI != 0}, {"tunnel.reduced", t.Reduced},
		})
	}
	if err != nil {
		return err
	}
	key, source, err := c.cnpSource()
	if err != nil {
		return err
	}
	if cfg.Self4, cfg.Self6, err = source.splitFamilies(key, len(source) > 0); err != nil {
		return err
	}
	if c.Idle != nil {
		cfg.Idle = max(*c.Idle, 1) // 0 stands for the default there
	}
	if c.Quarantine != nil {
		cfg.Quarantine = max(*c.Quarantine, 1) // likewise
	}
	if c.MaxFlows != nil {
		if cfg.MaxFlows = *c.MaxFlows; cfg.MaxFlows < 1 || cfg.MaxFlows > fcn.MaxFlowLabel {
			return config.Wrong("max_flows", "%d: want 1 to %d, the number of flow labels", cfg.MaxFlows,
				fcn.MaxFlowLabel)
		}
	}
	if c.Seed != nil {
		cfg.Seed = uint64(*c.Seed)
	}
	return nil
}

// isUsable reports whether an address can be an end of a tunnel.
func isUsable(a netip.Addr) bool { return a.Is6() && rocev2.CheckAnswerable(a) == nil }

const notUsable = "want an IPv6 unicast address that others can reach"

// configureTunnel makes the tunnel of the PE.
func (t *tunnel) configureTunnel(cfg *ingress.Config, pe *Ingress) error {
	switch {
	case len(t.Segments) > 0 && t.Type != "srv6":
		return config.Wrong("tunnel.segments", "only srv6 has segments")
	case len(t.Segments) > 0 && t.Dst.IsValid():
		return config.Wrong("tunnel.dst", "want only one of dst and segments")
	case len(t.Segments) == 0 && !isUsable(t.Dst):
		return config.Wrong("tunnel.dst", notUsable)
	case len(t.Segments) > 127:
		return config.Wrong("tunnel.segments", "%d of them: want at most 127", len(t.Segments))
	case t.VNI > 0xFFFFFF:
		return config.Wrong("tunnel.vni", "%d: want 0 to %d", t.VNI, 0xFFFFFF)
	}
	for i, s := range t.Segments {
		if !isUsable(s) {
			return config.Wrong(config.Index("tunnel.segments", i), notUsable)
		}
	}
	switch t.Type {
	case "ipip":
		cfg.Tunnel = &encap.IPInIPv6{Src: t.Src, Dst: t.Dst}
	case "vxlan":
		pe.vxlan = &encap.VXLAN{Src: t.Src, Dst: t.Dst, VNI: t.VNI}
		cfg.Tunnel = pe.vxlan
	case "srv6":
		segments := t.Segments
		if len(segments) == 0 {
			segments = []netip.Addr{t.Dst}
		}
		cfg.Tunnel = &encap.SRv6{Src: t.Src, Segments: segments, Reduced: t.Reduced}
	default:
		return config.Wrong("tunnel.type", "%q: want ipip, vxlan or srv6", t.Type)
	}
	return nil
}

// An Ingress is the ingress PE, which learns queue pairs.
type Ingress struct {
	*ingress.Role
	pairs *pairs
	vxlan *encap.VXLAN // the tunnel, if it is one
}

// Receive forwards packets that come without a tunnel, unless others encapsulate. The level of a queue does not matter:
// the kernel and its neighbours answer congestion of the PE itself.
func (pe *Ingress) Receive(out []byte, f *rocev2.Frame, e node.Event) ([]byte, node.Decision) {
	e.Level = 0
	if pe.vxlan != nil && f != nil {
		pe.vxlan.Ethernet = ownEthernet
		if f.Options().Link == rocev2.LinkEthernet {
			pe.vxlan.Ethernet = f.Link()
		}
	}
	return pe.Role.Receive(out, f, e)
}

// ownEthernet is the header of the frame inside VXLAN if the packet came without one.
var ownEthernet = []byte{0x02, 0, 0, 0, 0, 0x02, 0x02, 0, 0, 0, 0, 0x01, 0x08, 0x00}

// Due implements [node.Role].
func (pe *Ingress) Due(out []byte, now time.Time) ([]byte, node.Decision) {
	pe.pairs.Expire(now)
	return pe.Role.Due(out, now)
}

// Sizes implements [Sized].
func (pe *Ingress) Sizes() Sizes {
	n := pe.pairs.sizes()
	n.Flows, n.FreeLabels = pe.Len(), pe.Free()
	return n
}

// Tables implements [Tabled].
func (pe *Ingress) Tables() []Table {
	return append(pe.pairs.tables(), Table{"flows", pe.Len(), pe.Max()})
}
