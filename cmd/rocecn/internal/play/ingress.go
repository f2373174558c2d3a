package play

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/node/limit"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

func init() { roles["ingress"] = func() config { return new(ingressConfig) } }

// ingressConfig is the configuration of the ingress PE.
type ingressConfig struct {
	common
	Tunnel     tunnel         `json:"tunnel"`
	CNP        ownAddresses   `json:"cnp"`    // towards senders
	Accept     []netip.Prefix `json:"accept"` // nodes of the WAN
	Idle       *time.Duration `json:"idle"`
	Quarantine *time.Duration `json:"quarantine"`
	MaxFlows   *int           `json:"max_flows"`
	PerFlow    time.Duration  `json:"per_flow"`
	Rate       rate           `json:"rate"`
	RateIn     rate           `json:"rate_in"`        // of FCN, whatever becomes of them
	RateInFrom rate           `json:"rate_in_source"` // of those of one node
	Seed       *seed          `json:"seed"`           // absent: labels differ from run to run
}

// A tunnel is what packets go through the WAN in.
type tunnel struct {
	Type     string       `json:"type"` // ipip, vxlan or srv6
	Src      netip.Addr   `json:"src"`  // the PE's own address in the WAN
	Dst      netip.Addr   `json:"dst"`  // where the tunnel ends; SRv6: the only segment
	Segments []netip.Addr `json:"segments"`
	VNI      uint32       `json:"vni"`
	Reduced  bool         `json:"reduced"`
}

// A seed is a number, or any text.
type seed [32]byte

func (s *seed) UnmarshalText(text []byte) error {
	if _, err := strconv.ParseFloat(string(text), 64); err == nil {
		if _, err := strconv.ParseUint(string(text), 10, 64); err != nil {
			return fmt.Errorf("%s is no whole number from 0 to %d", text, uint64(1<<64-1))
		}
	}
	*s = sha256.Sum256(text)
	return nil
}

func (c *ingressConfig) role() (role, error) {
	messages, err := c.message()
	if err != nil {
		return nil, err
	}
	pe := &ingressPE{enabled: c.Enabled, port: messages.FCNPort, self: c.Tunnel.Src, pairs: qpmap.New(qpmap.Config{})}
	cfg := ingress.Config{
		Enabled: c.Enabled, Self: c.Tunnel.Src, Accept: acl.New(c.Accept...), QPs: pe.pairs,
		PerFlow: c.PerFlow, Total: limit.Rate(c.Rate),
		In: limit.Rate(c.RateIn), InPerSource: limit.Rate(c.RateInFrom),
	}
	if c.Enabled {
		if err := c.enabled(&cfg, pe); err != nil {
			return nil, err
		}
	}
	pe.own = [...]netip.Addr{cfg.Self, cfg.CNP4, cfg.CNP6}
	pe.pe, err = ingress.New(cfg)
	return pe, err
}

// enabled sets what a role that is off may lack.
func (c *ingressConfig) enabled(cfg *ingress.Config, pe *ingressPE) (err error) {
	if err = c.Tunnel.set(pe); err != nil {
		return err
	}
	if len(c.CNP) > 0 {
		if cfg.CNP4, cfg.CNP6, err = c.CNP.families("cnp"); err != nil {
			return err
		}
	}
	if c.Idle != nil {
		cfg.Idle = max(*c.Idle, 1) // 0 stands for the default there
	}
	if c.Quarantine != nil {
		cfg.Quarantine = max(*c.Quarantine, 1) // likewise
	}
	if c.MaxFlows != nil {
		if cfg.MaxFlows = *c.MaxFlows; cfg.MaxFlows < 1 || cfg.MaxFlows > ingress.MaxLabel {
			return wrong("max_flows", "%d: 1 to %d, the number of flow labels, allowed", cfg.MaxFlows, ingress.MaxLabel)
		}
	}
	if c.Seed != nil {
		cfg.Seed = *c.Seed
	}
	return nil
}

// set makes the tunnel of the PE.
func (t *tunnel) set(pe *ingressPE) error {
	usable := func(a netip.Addr) bool { return a.Is6() && rocev2.Answerable(a) == nil }
	switch {
	case !usable(t.Src):
		return wrong("tunnel.src", "an IPv6 unicast address that others can reach needed")
	case len(t.Segments) > 0 && t.Type != "srv6":
		return wrong("tunnel.segments", "only srv6 has segments")
	case len(t.Segments) > 0 && t.Dst.IsValid():
		return wrong("tunnel.dst", "segments say where the tunnel goes")
	case len(t.Segments) == 0 && !usable(t.Dst):
		return wrong("tunnel.dst", "an IPv6 unicast address that others can reach needed")
	case len(t.Segments) > 127:
		return wrong("tunnel.segments", "more than 127")
	case t.VNI > 0xFFFFFF:
		return wrong("tunnel.vni", "%d: 0 to %d allowed", t.VNI, 0xFFFFFF)
	}
	for i, s := range t.Segments {
		if !usable(s) {
			return wrong(index("tunnel.segments", i), "an IPv6 unicast address that others can reach needed")
		}
	}
	switch t.Type {
	case "ipip":
		pe.tunnel = &encap.IPInIPv6{Src: t.Src, Dst: t.Dst}
	case "vxlan":
		pe.vxlan = encap.VXLAN6{Src: t.Src, Dst: t.Dst, VNI: t.VNI}
		pe.tunnel = &pe.vxlan
	case "srv6":
		segments := t.Segments
		if len(segments) == 0 {
			segments = []netip.Addr{t.Dst}
		}
		pe.tunnel = &encap.SRv6{Src: t.Src, Segments: segments, Reduced: t.Reduced}
	default:
		return wrong("tunnel.type", "%q is none of ipip, vxlan and srv6", t.Type)
	}
	return nil
}

// ingressPE plays the ingress PE.
type ingressPE struct {
	enabled  bool
	port     uint16 // of FCN
	self     netip.Addr
	own      [3]netip.Addr
	pe       *ingress.PE
	tunnel   encap.Tunnel
	vxlan    encap.VXLAN6
	pairs    *qpmap.Map
	datagram rocev2.Datagram
	flow     rocev2.Flow
	packet   rocev2.Packet
	buf      []byte
}

func (pe *ingressPE) play(f *frame) (line, []byte) {
	switch reason := toPort(&pe.datagram, f, pe.port); reason {
	case node.NotOurs:
		return pe.traffic(f)
	case node.Accepted:
		out, n, reason := pe.pe.ReceivePacket(pe.buf[:0], &pe.datagram, f.Time)
		pe.buf = out[:0]
		if reason != node.Accepted {
			return refuse(reason), nil
		}
		return line{Action: sent, Kind: "cnp", To: n.Flow.Src}, out
	default: // fragment, broken
		return pe.refuse(reason), nil
	}
}

// traffic forwards what comes without a tunnel, and learns from what comes in one
// that ends here.
func (pe *ingressPE) traffic(f *frame) (line, []byte) {
	link, ip, notIP := rocev2.Split(f.Data, f.Options)
	err := pe.packet.Decode(f.Data, f.Options)
	rocev2Packet := !errors.Is(err, rocev2.ErrNotRoCEv2)
	switch {
	case pe.flow.Decode(f.Data, f.Options) == nil && pe.flow.Tunnelled() && !mirrored(pe.flow.Tunnels):
		return pe.outOfTunnel(f), nil
	case notIP != nil && !rocev2Packet, notIP == nil && slices.Contains(pe.own[:], destination(ip)):
		return line{}, nil
	case !pe.enabled && !rocev2Packet:
		return line{}, nil
	case !pe.enabled:
		return pe.refuse(node.Disabled), nil
	case notIP != nil: // it is RoCEv2, but breaks off
		return pe.refuse(node.Broken), nil
	case f.Options.Cut && !rocev2Packet:
		return line{}, nil
	case f.Options.Cut:
		return pe.cut(f), nil
	}
	pe.vxlan.Ethernet = link
	if f.Options.Link != rocev2.LinkEthernet {
		pe.vxlan.Ethernet = ownEthernet
	}
	out, how, err := pe.pe.Forward(pe.buf[:0], ip, 0, pe.tunnel, f.Time)
	pe.buf = out[:0]
	switch {
	case err != nil && rocev2Packet: // too long for the tunnel
		return pe.refuse(node.Broken), nil
	case err != nil:
		return line{}, nil
	case !how.RoCEv2:
		return line{}, out
	}
	return line{Action: forwarded, Reason: how.Reason, Label: &how.Label}, out
}

// cut gives a RoCEv2 packet that the capture cut its label. Its octets are not all
// there, so it cannot be sent on.
func (pe *ingressPE) cut(f *frame) line {
	var p rocev2.Packet
	if p.Datagram.Decode(f.Data, f.Options, rocev2.Port) != nil {
		return pe.refuse(node.Broken)
	}
	if _, err := p.BTH.Header.Decode(p.Data); err != nil {
		return pe.refuse(node.Broken)
	}
	if pe.packet.Decode(f.Data, f.Options) == nil {
		p = pe.packet // all its headers are there
	}
	label, reason := pe.pe.Label(&p, 0, f.Time)
	return line{Action: forwarded, Reason: reason, Label: &label}
}

// ownEthernet is the header of the frame inside VXLAN where the packet came
// without one.
var ownEthernet = []byte{0x02, 0, 0, 0, 0, 0x02, 0x02, 0, 0, 0, 0, 0x01, 0x08, 0x00}

// mirrored says whether what came in these tunnels is a copy of a packet that was
// elsewhere.
func mirrored(tunnels rocev2.Tunnels) bool {
	for t := range tunnels.All() {
		if t == rocev2.ERSPAN1 || t == rocev2.ERSPAN2 || t == rocev2.ERSPAN3 {
			return true
		}
	}
	return false
}

// outOfTunnel learns from a packet that came in a tunnel.
func (pe *ingressPE) outOfTunnel(f *frame) line {
	inner := rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: f.Options.Cut}
	if pe.flow.OuterDst() != pe.self || pe.packet.Decode(pe.flow.IP, inner) != nil || !pe.pe.Observe(&pe.packet, 0, f.Time) {
		return line{}
	}
	return learnedFrom(pe.pairs, &pe.packet)
}

// refuse is refuse of a role that may be off.
func (pe *ingressPE) refuse(r node.Reason) line {
	if !pe.enabled {
		r = node.Disabled
	}
	return refuse(r)
}

// destination returns the destination address of an IP packet.
func destination(ip []byte) netip.Addr {
	if ip[0]>>4 == 4 {
		return netip.AddrFrom4([4]byte(ip[16:]))
	}
	return netip.AddrFrom16([16]byte(ip[24:]))
}
