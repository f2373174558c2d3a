package run

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/nflog"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/psample"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/qdisc"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node/level"
)

// A source is what a table [source.NAME] of one type says: a struct with the keys
// of the type in its json tags.
type source interface {
	check() error
	// live reports whether packets come as they are on their way, and not from a file.
	isLive() bool
	// needs are the capabilities that opening it needs.
	requiredCapabilities() []string
	// inputs are what it consists of, such as interfaces.
	listInputs() []input
}

// An input is a part of a source, opened by itself.
type input struct {
	label string // the interface, address or whatever else tells it from others of the source
	key   string // two inputs are the same if theirs are
	open  func() (netio.Source, error)
	watch []string // interfaces: if one of them is another one by now, they must be watched again

	// again watches them again. With an error the source must be opened again, but for ErrAway: that it says itself.
	rewatch func(netio.Source) error
}

// sources are the types of sources.
var sources = map[string]func() source{
	"capture": func() source { return new(captureSource) },
	"packet":  func() source { return &packetSource{Direction: "both"} },
	"udp":     func() source { return new(udpSource) },
	"icmpv6":  func() source { return new(icmpSource) },
	"nflog":   func() source { return new(nflogSource) },
	"psample": func() source { return new(psampleSource) },
	"qdisc":   func() source { return new(qdiscSource) },
}

// sourceCommon are the keys of sources of every type.
type sourceCommon struct {
	Type     string   `json:"type"`
	Required *bool    `json:"required"` // absent: the agent is not ready without it
	Level    *uint8   `json:"level"`    // of congestion, where the depth of the queue is not known
	Levels   []uint64 `json:"levels"`   // depths in octets at which the level rises
	Down     []uint64 `json:"down"`     // and falls again; absent: at three quarters of those
}

func (c *sourceCommon) isRequired() bool { return c.Required == nil || *c.Required }

func (s *sourceEntry) check() error {
	c := &s.sourceCommon
	switch {
	case c.Level != nil && (*c.Level < 1 || *c.Level > level.Max):
		return config.Wrong("level", "%d: 1 to %d allowed", *c.Level, level.Max)
	case len(c.Levels) > level.Max:
		return config.Wrong("levels", "%d of them: %d at most", len(c.Levels), level.Max)
	case c.Down != nil && len(c.Down) != len(c.Levels):
		return config.Wrong("down", "%d of them, but %d levels", len(c.Down), len(c.Levels))
	}
	for i, up := range c.Levels {
		switch {
		case up == 0 || i > 0 && up <= c.Levels[i-1]:
			return config.Wrong(config.Index("levels", i), "%d: depths must rise", up)
		case c.Down != nil && c.Down[i] > up:
			return config.Wrong(config.Index("down", i), "%d is above the depth at which the level rises", c.Down[i])
		case c.Down != nil && i > 0 && c.Down[i] <= c.Down[i-1]:
			return config.Wrong(config.Index("down", i), "%d: depths must rise", c.Down[i])
		}
	}
	switch s.source.(type) {
	case *qdiscSource, *psampleSource:
	default:
		if c.Levels != nil {
			return config.Wrong("levels", "type %s does not know the depth of its queue", c.Type)
		}
	}
	if q, ok := s.source.(*qdiscSource); ok {
		if len(c.Levels) == 0 {
			return config.Wrong("levels", "missing: the depths at which the queue is congested")
		}
		if c.Level != nil {
			return config.Wrong("level", "the depth of the queue is known: levels say what it means")
		}
		q.threshold = c.levelThresholds().Down[0] // below it nothing is to be known
	}
	return s.source.check()
}

// levelThresholds returns the depths at which the level changes.
func (c *sourceCommon) levelThresholds() level.Thresholds {
	t := level.Thresholds{Up: c.Levels, Down: c.Down}
	if t.Down == nil {
		for _, up := range t.Up {
			t.Down = append(t.Down, up/4*3)
		}
	}
	return t
}

// captureSource is a file, for rehearsals.
type captureSource struct {
	File string `json:"file"`
}

func (s *captureSource) check() error                   { return requireText("file", s.File) }
func (s *captureSource) isLive() bool                   { return false }
func (s *captureSource) requiredCapabilities() []string { return nil }
func (s *captureSource) listInputs() []input {
	return []input{{label: s.File, key: "capture " + s.File, open: func() (netio.Source, error) {
		f, err := os.Open(s.File)
		if err != nil {
			return nil, err
		}
		in, err := netio.OpenFile(f)
		if err != nil {
			f.Close()
			return nil, err
		}
		return &captureFile{in, f}, nil
	}}}
}

// A captureFile is a file that is closed with the source.
type captureFile struct {
	*netio.File
	file *os.File
}

func (f *captureFile) Close() error { return f.file.Close() }

// packetSource is what interfaces carry.
type packetSource struct {
	Interfaces []string `json:"interfaces"`
	Filter     string   `json:"filter"`    // one of package filter; empty: all packets
	Direction  string   `json:"direction"` // both, the default, in or out
	Snap       int      `json:"snap"`      // octets of each packet; 0: all of them
	Blocks     bool     `json:"blocks"`    // throughput counts, and not latency
}

var directions = map[string]netio.Direction{"both": netio.Both, "in": netio.In, "out": netio.Out}

func (s *packetSource) check() error {
	if err := checkInterfaces(s.Interfaces); err != nil {
		return err
	}
	if i := slices.Index(s.Interfaces, "any"); i >= 0 && len(s.Interfaces) > 1 {
		return config.Wrong(config.Index("interfaces", i), "any has the other ones: their packets would come twice")
	}
	if _, ok := directions[s.Direction]; !ok {
		return config.Wrong("direction", "%q is not one of both, in, out", s.Direction)
	}
	if s.Snap > 0 && s.Snap < minSnap {
		return config.Wrong("snap", "%d: nothing is to be known of a packet of less than %d octets", s.Snap, minSnap)
	}
	_, err := s.kernelFilter()
	return err
}

// shortest are the headers that every RoCEv2 packet has: IPv4 20, UDP 8, BTH 12.
const minSnap = 40

// checkInterfaces refuses a list of none, or with a name twice.
func checkInterfaces(names []string) error {
	if len(names) == 0 {
		return config.Wrong("interfaces", "missing")
	}
	for i, name := range names {
		if name == "" {
			return config.Wrong(config.Index("interfaces", i), `"": want a name`)
		}
		if slices.Contains(names[:i], name) {
			return config.Wrong(config.Index("interfaces", i), "%s is named twice", name)
		}
		if err := checkDeviceName(config.Index("interfaces", i), name); err != nil {
			return err
		}
	}
	return nil
}

// kernelFilter returns the filter for the kernel, nil for none.
func (s *packetSource) kernelFilter() (netio.Filter, error) {
	var f filter.Capture
	if s.Filter == "" {
		return nil, nil
	}
	if err := f.Selection.UnmarshalText([]byte(s.Filter)); err != nil || f.Selection == filter.QueuePair {
		return nil, config.Wrong("filter", "%q is not one of rocev2, notifications, ce, ours, pairs", s.Filter)
	}
	return &f, nil
}

func (s *packetSource) isLive() bool                   { return true }
func (s *packetSource) requiredCapabilities() []string { return []string{"CAP_NET_RAW"} }
func (s *packetSource) listInputs() (all []input) {
	for _, name := range s.Interfaces {
		one := *s
		one.Interfaces = []string{name}
		in := input{label: name, key: fmt.Sprintf("packet %+v", one), rewatch: checkRenamed}
		in.open = func() (netio.Source, error) {
			f, err := s.kernelFilter()
			if err != nil {
				return nil, err
			}
			return toSource(netio.OpenPackets(netio.PacketConfig{
				Interface: name, Filter: f, Direction: directions[s.Direction], SnapLength: s.Snap, Blocks: s.Blocks,
			}))
		}
		if name != "any" {
			in.watch = one.Interfaces
		}
		all = append(all, in)
	}
	return all
}

var errRenamed = errors.New("the interface has another name")

// checkRenamed is for sockets of packets, which stay with their interface whatever its name is.
func checkRenamed(s netio.Source) error {
	if !s.(*netio.Packets).Up() {
		return netio.ErrAway
	}
	return errRenamed
}

// toSource returns no source with an error.
func toSource[S netio.Source](s S, err error) (netio.Source, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// udpSource are UDP sockets: of FCN and proxy messages.
type udpSource struct {
	Listen []netip.AddrPort `json:"listen"`
}

func (s *udpSource) check() error {
	if len(s.Listen) == 0 {
		return config.Wrong("listen", "missing")
	}
	for i, a := range s.Listen {
		if a.Port() == 0 {
			return config.Wrong(config.Index("listen", i), "port 0: nobody would know where to send to")
		}
		if slices.Contains(s.Listen[:i], a) {
			return config.Wrong(config.Index("listen", i), "%v is named twice", a)
		}
		if err := checkOwnAddress(config.Index("listen", i), a.Addr()); err != nil {
			return err
		}
	}
	return nil
}

// checkOwnAddress refuses what nobody sends messages to: they are for one node, and of a link that it is said which.
func checkOwnAddress(key string, a netip.Addr) error {
	switch {
	case a.IsMulticast():
		return config.Wrong(key, "%v is the address of a group: messages are sent to one node", a)
	case a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "":
		return config.Wrong(key, "%v is of a link, and it does not say which", a)
	}
	return nil
}

func (s *udpSource) isLive() bool { return true }
func (s *udpSource) requiredCapabilities() []string {
	return listenCapabilities(s.Listen...)
}

// listenCapabilities returns what listening at these addresses needs.
func listenCapabilities(at ...netip.AddrPort) []string {
	if slices.ContainsFunc(at, func(a netip.AddrPort) bool { return 0 < a.Port() && a.Port() < 1024 }) {
		return []string{"CAP_NET_BIND_SERVICE"}
	}
	return nil
}

func (s *udpSource) listInputs() (all []input) {
	for _, a := range s.Listen {
		all = append(all, input{label: a.String(), key: "udp " + a.String(), open: func() (netio.Source, error) {
			return toSource(netio.ListenUDP(a.String()))
		}})
	}
	return all
}

// icmpSource is ICMPv6: hosts that do not understand Fast CNPs say so.
type icmpSource struct {
	Listen []netip.Addr `json:"listen"`
}

func (s *icmpSource) check() error {
	for i, a := range s.Listen {
		if !a.Is6() {
			return config.Wrong(config.Index("listen", i), "%v is no IPv6 address", a)
		}
		if slices.Contains(s.Listen[:i], a) {
			return config.Wrong(config.Index("listen", i), "%v is named twice", a)
		}
		if err := checkOwnAddress(config.Index("listen", i), a); err != nil {
			return err
		}
	}
	if len(s.Listen) == 0 {
		return config.Wrong("listen", "missing")
	}
	return nil
}

func (s *icmpSource) isLive() bool                   { return true }
func (s *icmpSource) requiredCapabilities() []string { return []string{"CAP_NET_RAW"} }
func (s *icmpSource) listInputs() (all []input) {
	for _, a := range s.Listen {
		all = append(all, input{label: a.String(), key: "icmpv6 " + a.String(), open: func() (netio.Source, error) {
			return toSource(netio.ListenICMPv6(a, wire.ICMPv6ParameterProblem))
		}})
	}
	return all
}

// nflogSource is what rules of nftables log.
type nflogSource struct {
	Group *uint16 `json:"group"`
}

func (s *nflogSource) check() error {
	if s.Group == nil {
		return config.Wrong("group", "missing")
	}
	return nil
}

func (s *nflogSource) isLive() bool                   { return true }
func (s *nflogSource) requiredCapabilities() []string { return []string{"CAP_NET_ADMIN"} }
func (s *nflogSource) listInputs() []input {
	group := strconv.Itoa(int(*s.Group))
	return []input{{label: group, key: "nflog " + group, open: func() (netio.Source, error) {
		return toSource(nflog.Open(*s.Group))
	}}}
}

// psampleSource is what the kernel or switch hardware samples.
type psampleSource struct {
	Group *uint32 `json:"group"`
}

func (s *psampleSource) check() error {
	if s.Group == nil {
		return config.Wrong("group", "missing")
	}
	return nil
}

func (s *psampleSource) isLive() bool                   { return true }
func (s *psampleSource) requiredCapabilities() []string { return []string{"CAP_NET_ADMIN"} }
func (s *psampleSource) listInputs() []input {
	group := strconv.FormatUint(uint64(*s.Group), 10)
	return []input{{label: group, key: "psample " + group, open: func() (netio.Source, error) {
		return toSource(psample.Open(*s.Group))
	}}}
}

// qdiscSource is what waits in the queues of interfaces.
type qdiscSource struct {
	Interfaces []string      `json:"interfaces"`
	PerFlow    time.Duration `json:"per_flow"` // the shortest time between two packets of a flow; 0: all
	Tunnels    bool          `json:"tunnels"`  // those in tunnels, too

	threshold uint64 // octets in the queue from which on packets are given
}

func (s *qdiscSource) check() error {
	if i := slices.Index(s.Interfaces, "any"); i >= 0 {
		return config.Wrong(config.Index("interfaces", i), "a queue is that of one interface: any does not go here")
	}
	return checkInterfaces(s.Interfaces)
}

func (s *qdiscSource) isLive() bool                   { return true }
func (s *qdiscSource) requiredCapabilities() []string { return []string{"CAP_BPF", "CAP_PERFMON"} }
func (s *qdiscSource) listInputs() []input {
	c := qdisc.Config{PerFlow: s.PerFlow, Tunnels: s.Tunnels}
	for _, name := range s.Interfaces {
		c.Interfaces = append(c.Interfaces, qdisc.Interface{Name: name, Threshold: s.threshold})
	}
	return []input{{
		label: strings.Join(s.Interfaces, ","), key: fmt.Sprintf("qdisc %+v", c), watch: s.Interfaces,
		open:    func() (netio.Source, error) { return toSource(qdisc.Open(c)) },
		rewatch: func(s netio.Source) error { return s.(*qdisc.Source).Watch(c.Interfaces) },
	}}
}

// requireText refuses text that is missing.
func requireText(key, value string) error {
	if value == "" {
		return config.Wrong(key, "missing")
	}
	return nil
}

// checkDeviceName refuses what can be no name of an interface, and what is none to nftables: quotation marks, which its rules
// cannot have in a name, and asterisks, which stand for many names there.
func checkDeviceName(key, name string) error {
	never := func(r rune) bool { return r <= ' ' || strings.ContainsRune(`/:"*`, r) }
	switch {
	case len(name) > 15:
		return config.Wrong(key, "%q has %d letters: names of interfaces have 15 at most", name, len(name))
	case name == "." || name == ".." || strings.ContainsFunc(name, never):
		return config.Wrong(key, "%q is no name of an interface", name)
	}
	return nil
}

// sortedKeys returns the keys of a map.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// interfaceIndexes returns the numbers of interfaces, 0 of those that are not there.
func interfaceIndexes(names []string) (all []int) {
	for _, name := range names {
		n := 0
		if i, err := net.InterfaceByName(name); err == nil {
			n = i.Index
		}
		all = append(all, n)
	}
	return all
}
