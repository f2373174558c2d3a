package conform

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
)

// A profile describes a device and its connection to the tester.
type profile struct {
	Device     device     `json:"device"`
	CodePoints codePoints `json:"code_points"`
	Ports      []port     `json:"port"`
	Hosts      hosts      `json:"hosts"`
	Congestion congestion `json:"congestion"`
	Time       times      `json:"time"`
	Pairs      []pair     `json:"pair"`
}

// A device is the device under test.
type device struct {
	Name      string       `json:"name"`
	Role      string       `json:"role"`
	Addresses []netip.Addr `json:"addresses"`
	Supports  *[]string    `json:"supports"` // nil: those that the role must have
	Limits    limits       `json:"limits"`
	// Enable is a command that switches on all abilities of a device that is off.
	Enable []string `json:"enable"`
	// Disable is a command that switches them off again.
	Disable []string `json:"disable"`
}

// limits are those that the device is configured with.
type limits struct {
	PerFlow time.Duration `json:"per_flow"`
	Total   perSecond     `json:"total"`
	Idle    time.Duration `json:"idle"` // after which an ingress PE forgets a silent flow
}

// codePoints are the numbers that are not assigned yet.
type codePoints struct {
	OptionTypes []uint8  `json:"option_types"`
	FCNPort     uint16   `json:"fcn_port"`
	ProxyPort   uint16   `json:"proxy_port"`
	VXLANPorts  []uint16 `json:"vxlan_ports"`
	// IOAMNamespaces are those of the traces to which the device adds its own record; nil: all.
	IOAMNamespaces []uint16 `json:"ioam_namespaces"`
}

// A port is an interface of the tester.
type port struct {
	Interface    string     `json:"interface"`
	Side         string     `json:"side"`
	Address      netip.Addr `json:"address"`
	MAC          hardware   `json:"mac"`
	NeighbourMAC hardware   `json:"neighbour_mac"`
	VLAN         uint16     `json:"vlan"`
}

// hosts are the addresses of the hosts that the tester plays.
type hosts struct {
	Sender   []netip.Prefix `json:"sender"`
	Receiver []netip.Prefix `json:"receiver"`
	Capable  []netip.Prefix `json:"capable"` // senders that the device knows to understand Fast CNPs
	PE       []netip.Addr   `json:"pe"`      // ingress PEs that the tester plays
}

// congestion is the means to congest the device. Rate is the bound of all packets that the tester sends.
type congestion struct {
	By    string        `json:"by"`
	Rate  bitRate       `json:"rate"`
	For   time.Duration `json:"for"`
	Start []string      `json:"start"`
	Stop  []string      `json:"stop"`
}

type times struct {
	Case   time.Duration `json:"case"`
	Settle time.Duration `json:"settle"`
}

// A pair is a connection of the device: packets from src to queue pair dest_qp of dst come from queue pair src_qp.
type pair struct {
	Src    netip.Addr `json:"src"`
	Dst    netip.Addr `json:"dst"`
	DestQP uint32     `json:"dest_qp"`
	SrcQP  uint32     `json:"src_qp"`
}

// hardware is a hardware address as text.
type hardware struct{ mac }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (h *hardware) UnmarshalText(text []byte) error {
	a, err := net.ParseMAC(string(text))
	if err != nil || len(a) != len(h.mac) || a[0]&1 != 0 || mac(a) == (mac{}) {
		return fmt.Errorf(`%q: want the hardware address of one interface, as in "02:00:00:00:00:01"`, text)
	}
	h.mac = mac(a)
	return nil
}

// bitRate is a rate in bits a second.
type bitRate uint64

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *bitRate) UnmarshalText(text []byte) error {
	n, err := parseRate(string(text), "bit/s", "bits/s", "bit", "bps")
	if err != nil || n < 1 || n > 1e12 {
		return fmt.Errorf(`%q: want 1 to 10^12 bits a second, as in "20M"`, text)
	}
	*r = bitRate(n)
	return nil
}

// perSecond is a rate in packets a second.
type perSecond float64

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *perSecond) UnmarshalText(text []byte) error {
	n, err := parseRate(string(text), "/s")
	if err != nil || n <= 0 || n > 1e9 {
		return fmt.Errorf(`%q: want more than 0, at most 10^9 notifications a second, as in "1000"`, text)
	}
	*r = perSecond(n)
	return nil
}

// parseRate parses a number with an optional prefix of its unit, and one of the units or none.
func parseRate(text string, units ...string) (float64, error) {
	s := strings.ToLower(strings.TrimSpace(text))
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u); ok {
			s = rest
			break
		}
	}
	factor := 1.
	for i, prefix := range []string{"k", "m", "g"} {
		if rest, ok := strings.CutSuffix(s, prefix); ok {
			s, factor = rest, []float64{1e3, 1e6, 1e9}[i]
		}
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err == nil && n != n {
		err = strconv.ErrSyntax
	}
	return n * factor, err
}

// Bounds of the traffic and of the time of a case.
const (
	maxCongestion = 10 * time.Second
	maxCaseTime   = 10 * time.Minute
)

// abilities are the words of device.supports.
var abilities = []string{
	"option1", "option2", "ioam", "fcn", "proxy", "ipv4", "ipv6", "mark", "ppfc-stop", "ppfc-resume", "ppfc-alarm",
	"ppfc-hold", "levels", "icmpv6-learning",
}

// readProfile reads a profile in TOML or JSON. role, if not empty, replaces that of the file.
func readProfile(octets []byte, role string) (*profile, error) {
	tree, err := config.Read(octets)
	if err != nil {
		return nil, err
	}
	p := &profile{
		CodePoints: codePoints{OptionTypes: []uint8{0x9E}, FCNPort: 1021, ProxyPort: 1022,
			VXLANPorts: []uint16{portVXLAN}},
		Congestion: congestion{By: "none"},
		Time:       times{Case: 10 * time.Second, Settle: time.Second},
	}
	if err := tree.Decode(p); err != nil {
		return nil, err
	}
	if role != "" {
		p.Device.Role = role
	}
	return p, tree.LocateError(p.check())
}

// check rejects values that do not go together.
func (p *profile) check() error {
	for _, rule := range []func() error{p.checkDevice, p.checkCodePoints, p.checkPorts, p.checkHosts, p.checkCongestion,
		p.checkPairs} {
		if err := rule(); err != nil {
			return err
		}
	}
	switch t := p.Time; {
	case t.Case < 100*time.Millisecond || t.Case > maxCaseTime:
		return config.Wrong("time.case", "%v: want 100ms to %v", t.Case, maxCaseTime)
	case t.Settle < 10*time.Millisecond || t.Settle > t.Case/2:
		return config.Wrong("time.settle", "%v: want 10ms to half of time.case, %v", t.Settle, t.Case/2)
	}
	return nil
}

func (p *profile) checkDevice() error {
	d := &p.Device
	switch {
	case d.Role == "":
		return config.Wrong("device.role", "missing: want %s", strings.Join(roleNames, ", "))
	case !slices.Contains(roleNames, d.Role):
		return config.Wrong("device.role", "%q: want %s", d.Role, strings.Join(roleNames, ", "))
	case len(d.Addresses) == 0:
		return config.Wrong("device.addresses", "missing: want the addresses from which the device sends")
	}
	for i, a := range d.Addresses {
		if !isUnicast(a) {
			return config.Wrong(config.Index("device.addresses", i), "%v: want a unicast address of one host", a)
		}
	}
	if (d.Enable == nil) != (d.Disable == nil) {
		return config.Wrong("device.enable", "without the other one: want both enable and disable, or none")
	}
	for key, command := range map[string][]string{"device.enable": d.Enable, "device.disable": d.Disable} {
		if command != nil && len(command) == 0 {
			return config.Wrong(key, "empty: want a program and its arguments")
		}
	}
	if d.Supports == nil {
		d.Supports = &roleInfos[d.Role].supports
	}
	d.addImplied()
	for i, s := range *d.Supports {
		if !slices.Contains(abilities, s) {
			return config.Wrong(config.Index("device.supports", i), "%q: want %s", s, strings.Join(abilities, ", "))
		}
	}
	return nil
}

// addImplied completes supports, unless it is empty: a proxy and an ingress PE support their messages, and a list
// without a family means IPv6.
func (d *device) addImplied() {
	list := *d.Supports
	if len(list) == 0 {
		return
	}
	for role, word := range map[string]string{"proxy": "proxy", "ingress": "fcn"} {
		if d.Role == role && !slices.Contains(list, word) {
			list = append(slices.Clone(list), word)
		}
	}
	if !slices.Contains(list, "ipv4") && !slices.Contains(list, "ipv6") {
		list = append(slices.Clone(list), "ipv6")
	}
	d.Supports = &list
}

func (p *profile) checkCodePoints() error {
	c := &p.CodePoints
	if n := len(c.OptionTypes); n != 1 && n != 2 {
		return config.Wrong("code_points.option_types", "a list of %d: want one type, or two for options 1 and 2", n)
	}
	for i, t := range c.OptionTypes {
		if t>>5 != 4 {
			return config.Wrong(config.Index("code_points.option_types", i),
				"%d: want a type with act 10 and chg 0, 128 to 159", t)
		}
	}
	for _, p := range []struct {
		key  string
		port uint16
	}{{"fcn_port", c.FCNPort}, {"proxy_port", c.ProxyPort}} {
		if p.port == 0 || p.port == portRoCE || p.key == "proxy_port" && p.port == c.FCNPort {
			return config.Wrong("code_points."+p.key, "%d: want a port that no other message has, 1 to 65535", p.port)
		}
	}
	return nil
}

func (p *profile) checkPorts() error {
	if len(p.Ports) == 0 {
		return config.Wrong("port", "missing: want a table [[port]] for each interface of the tester")
	}
	for i, port := range p.Ports {
		key := config.Index("port", i)
		switch {
		case port.Interface == "":
			return config.Wrong(key+".interface", "missing: want the name of an interface")
		case port.Interface == "any":
			return config.Wrong(key+".interface", "any: want the name of one interface")
		case !slices.Contains([]string{"sender", "receiver", "control"}, port.Side):
			return config.Wrong(key+".side", "%q: want sender, receiver or control", port.Side)
		case port.VLAN > 4094:
			return config.Wrong(key+".vlan", "%d: want 1 to 4094, or 0 for none", port.VLAN)
		case port.Address.IsValid() && !isUnicast(port.Address):
			return config.Wrong(key+".address", "%v: want a unicast address of one host", port.Address)
		case slices.ContainsFunc(p.Ports[:i], func(o portTable) bool {
			return o.Interface == port.Interface && o.VLAN == port.VLAN
		}):
			return config.Wrong(key+".interface", "%s is named twice, with the same VLAN", port.Interface)
		}
	}
	for _, side := range roleInfos[p.Device.Role].sides {
		if !slices.ContainsFunc(p.Ports, func(o portTable) bool { return o.Side == side }) {
			return config.Wrong("port", "no port with side %q: the role %s needs one", side, p.Device.Role)
		}
	}
	return nil
}

// portTable is port, where a variable has that name.
type portTable = port

func (p *profile) checkHosts() error {
	for _, l := range []struct {
		key      string
		prefixes []netip.Prefix
	}{
		{"hosts.sender", p.Hosts.Sender}, {"hosts.receiver", p.Hosts.Receiver}, {"hosts.capable", p.Hosts.Capable},
	} {
		required := slices.Contains(roleInfos[p.Device.Role].hosts, strings.TrimPrefix(l.key, "hosts."))
		if required && len(l.prefixes) == 0 {
			return config.Wrong(l.key, "missing: want the prefixes of the hosts that the tester plays")
		}
		for i, prefix := range l.prefixes {
			key := config.Index(l.key, i)
			bits := prefix.Addr().BitLen() - prefix.Bits()
			switch {
			case !isUnicast(hostOf(prefix, 1)):
				return config.Wrong(key, "%v: want a prefix of unicast addresses", prefix)
			case bits > 0 && bits < 8:
				return config.Wrong(key, "%v: want a single address, or at least 256 of them", prefix)
			}
			for _, a := range p.Device.Addresses {
				if bits == 0 && prefix.Contains(a) {
					return config.Wrong(key, "%v: want an address that is not in device.addresses", prefix)
				}
			}
		}
	}
	for i, a := range p.Hosts.PE {
		if !isUnicast(a) {
			return config.Wrong(config.Index("hosts.pe", i), "%v: want a unicast address of one host", a)
		}
	}
	return nil
}

func (p *profile) checkCongestion() error {
	c := &p.Congestion
	switch {
	case !slices.Contains([]string{"overload", "command", "none"}, c.By):
		return config.Wrong("congestion.by", "%q: want overload, command or none", c.By)
	case c.By == "overload" && c.Rate == 0:
		return config.Wrong("congestion.rate", `missing: want bits a second, as in "20M"`)
	case c.By == "command" && len(c.Start) == 0:
		return config.Wrong("congestion.start", "missing: want a program and its arguments")
	case c.By != "command" && (c.Start != nil || c.Stop != nil):
		return config.Wrong("congestion.by", `%q: want "command" with start and stop`, c.By)
	case c.By == "none" && c.For != 0:
		return config.Wrong("congestion.by", `"none": want "overload" or "command" with for`)
	case c.For < 0 || c.For > maxCongestion:
		return config.Wrong("congestion.for", "%v: want more than 0s, at most %v", c.For, maxCongestion)
	}
	if c.For == 0 {
		c.For = 2 * time.Second
	}
	if c.Rate == 0 {
		c.Rate = 10e6
	}
	return nil
}

func (p *profile) checkPairs() error {
	for i, q := range p.Pairs {
		key := config.Index("pair", i)
		switch {
		case !q.Src.IsValid() || !q.Dst.IsValid() || q.Src.Is4() != q.Dst.Is4():
			return config.Wrong(key, "%v and %v: want src and dst of one family", q.Src, q.Dst)
		case q.DestQP > 0xFFFFFF || q.SrcQP > 0xFFFFFF:
			return config.Wrong(key, "%d and %d: want queue pairs up to %d", q.DestQP, q.SrcQP, 0xFFFFFF)
		}
	}
	return nil
}

// isUnicast reports whether an address can be that of a host in the network.
func isUnicast(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() && !a.IsLinkLocalUnicast() &&
		a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// hostOf returns the n-th address of a prefix, or the only one.
func hostOf(prefix netip.Prefix, n uint32) netip.Addr {
	b := prefix.Masked().Addr().AsSlice()
	if bits := prefix.Addr().BitLen() - prefix.Bits(); bits < 32 {
		n &= 1<<bits - 1
	}
	for i := range 4 {
		b[len(b)-1-i] |= uint8(n >> (8 * i))
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// has reports whether the device supports all of these.
func (p *profile) has(words ...string) bool { return p.lacking(words...) == "" }

// lacking returns the first of these words that the device does not support. A word after ! must not be supported.
func (p *profile) lacking(words ...string) string {
	for _, w := range words {
		no, negated := strings.CutPrefix(w, "!")
		if slices.Contains(*p.Device.Supports, no) == negated {
			return w
		}
	}
	return ""
}

// optionType returns the type of option 1 or 2.
func (c *codePoints) optionType(n int) uint8 { return c.OptionTypes[min(n, len(c.OptionTypes))-1] }
