package run

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
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

// A source is a table [source.NAME] of one type: a struct with the keys of the type as json tags.
type source interface {
	check() error
	// requiredCapabilities returns the capabilities that opening the source needs.
	requiredCapabilities() []string
	// listInputs returns the inputs of the source, such as one per interface.
	listInputs() []input
}

// An input is a part of a source that is opened separately.
type input struct {
	label string // name within the source, such as an interface or address
	key   string // identity: inputs with equal keys are the same
	open  func() (netio.Source, error)
	watch []string // interfaces; if one is replaced, rewatch is called

	// rewatch watches the interfaces again. After an error other than ErrAway, which the source reports itself, the
	// source must be opened again.
	rewatch func(netio.Source) error
}

// sources creates a source by type.
var sources = map[string]func() source{
	"capture": func() source { return new(captureSource) },
	"packet":  func() source { return &packetSource{Direction: "both"} },
	"udp":     func() source { return new(udpSource) },
	"icmpv6":  func() source { return new(icmpSource) },
	"nflog":   func() source { return new(groupSource[uint16]) },
	"psample": func() source { return new(groupSource[uint32]) },
	"qdisc":   func() source { return new(qdiscSource) },
	"bmp":     func() source { return new(bmpSource) },
}

// sourceCommon has the keys of sources of every type.
type sourceCommon struct {
	Type     string   `json:"type"`
	Required *bool    `json:"required"` // whether the agent waits for it before it is ready; absent: yes
	Level    *uint8   `json:"level"`    // level of congestion if the depth of the queue is unknown
	Levels   []uint64 `json:"levels"`   // queue depths in bytes at which the level rises
	Down     []uint64 `json:"down"`     // depths at which it falls; absent: three quarters of Levels
}

func (c *sourceCommon) isRequired() bool { return c.Required == nil || *c.Required }

// isLive reports whether packets arrive in real time, and not from a file.
func (c *sourceCommon) isLive() bool { return c.Type != "capture" }

func (s *sourceEntry) check() error {
	c := &s.sourceCommon
	switch {
	case c.Level != nil && (*c.Level < 1 || *c.Level > level.Max):
		return config.Wrong("level", "%d: want 1 to %d", *c.Level, level.Max)
	case len(c.Levels) > level.Max:
		return config.Wrong("levels", "%d values: want at most %d", len(c.Levels), level.Max)
	case c.Down != nil && len(c.Down) != len(c.Levels):
		return config.Wrong("down", "%d values: want %d, one for each level", len(c.Down), len(c.Levels))
	}
	for i, up := range c.Levels {
		switch {
		case up == 0 || i > 0 && up <= c.Levels[i-1]:
			return config.Wrong(config.Index("levels", i), "%d: want rising depths", up)
		case c.Down != nil && c.Down[i] > up:
			return config.Wrong(config.Index("down", i),
				"%d: want at most the depth at which the level rises", c.Down[i])
		case c.Down != nil && i > 0 && c.Down[i] <= c.Down[i-1]:
			return config.Wrong(config.Index("down", i), "%d: want rising depths", c.Down[i])
		}
	}
	switch s.source.(type) {
	case *qdiscSource, *groupSource[uint32]: // the kernel samples packets with the depth
	default:
		if c.Levels != nil {
			return config.Wrong("levels", "type %s does not report queue depths", c.Type)
		}
	}
	if _, ok := s.source.(*bmpSource); ok && c.Level != nil {
		return config.Wrong("level", "type bmp gives no packets")
	}
	if q, ok := s.source.(*qdiscSource); ok {
		if len(c.Levels) == 0 {
			return config.Wrong("levels", "missing: want the depths at which the queue is congested")
		}
		if c.Level != nil {
			return config.Wrong("level", "the depth of the queue is known: use levels")
		}
		q.threshold = c.levelThresholds().Down[0] // no level changes below it
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

// captureSource is a capture file, for tests of a configuration.
type captureSource struct {
	File string `json:"file"`
}

func (s *captureSource) check() error                   { return requireText("file", s.File) }
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

// A captureFile closes its file with the source.
type captureFile struct {
	netio.FileSource
	file *os.File
}

func (f *captureFile) Close() error { return f.file.Close() }

// packetSource captures packets at interfaces.
type packetSource struct {
	Interfaces []string `json:"interfaces"`
	Filter     string   `json:"filter"`    // a selection of package filter, or "" for all packets
	Direction  string   `json:"direction"` // both (the default), in or out
	Snap       int      `json:"snap"`      // bytes of each packet; 0: all of them
	Blocks     bool     `json:"blocks"`    // optimize throughput instead of latency
}

var directions = map[string]netio.Direction{"both": netio.Both, "in": netio.In, "out": netio.Out}

func (s *packetSource) check() error {
	if err := checkInterfaces(s.Interfaces); err != nil {
		return err
	}
	if i := slices.Index(s.Interfaces, "any"); i >= 0 && len(s.Interfaces) > 1 {
		return config.Wrong(config.Index("interfaces", i),
			"any: want no other interface with it, as packets would come twice")
	}
	if _, ok := directions[s.Direction]; !ok {
		return config.Wrong("direction", "%q: want both, in or out", s.Direction)
	}
	if s.Snap > 0 && s.Snap < minSnap {
		return config.Wrong("snap", "%d: want 0 or at least %d bytes", s.Snap, minSnap)
	}
	_, err := s.kernelFilter()
	return err
}

// minSnap is the length of the headers that every RoCEv2 packet has: IPv4 20, UDP 8, BTH 12.
const minSnap = 40

// checkInterfaces rejects an empty list and repeated names.
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

// kernelFilter returns the filter that the kernel runs, or nil.
func (s *packetSource) kernelFilter() (netio.Filter, error) {
	var f filter.Capture
	if s.Filter == "" {
		return nil, nil
	}
	if err := f.Selection.UnmarshalText([]byte(s.Filter)); err != nil || f.Selection == filter.QueuePair {
		return nil, config.Wrong("filter", "%q: want rocev2, notifications, ce, ours or pairs", s.Filter)
	}
	return &f, nil
}

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
			return netio.OpenPackets(netio.PacketConfig{
				Interface: name, Filter: f, Direction: directions[s.Direction], SnapLength: s.Snap, Blocks: s.Blocks,
			})
		}
		if name != "any" {
			in.watch = one.Interfaces
		}
		all = append(all, in)
	}
	return all
}

var errRenamed = errors.New("the interface has another name")

// checkRenamed implements input.rewatch for packet sockets, which stay with their interface when it is renamed.
func checkRenamed(s netio.Source) error {
	if !s.(netio.InterfaceSource).IsUp() {
		return netio.ErrAway
	}
	return errRenamed
}

// udpSource receives FCN and proxy messages from UDP sockets.
type udpSource struct {
	Listen []netip.AddrPort `json:"listen"`
}

func (s *udpSource) check() error {
	if len(s.Listen) == 0 {
		return config.Wrong("listen", "missing")
	}
	for i, a := range s.Listen {
		if a.Port() == 0 {
			return config.Wrong(config.Index("listen", i), "port 0: want the port that messages are sent to")
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

// checkOwnAddress rejects multicast addresses, as messages are sent to one node, and link-local addresses without
// a zone.
func checkOwnAddress(key string, a netip.Addr) error {
	switch {
	case a.IsMulticast():
		return config.Wrong(key, "%v: want the address of one node, not of a group", a)
	case a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "":
		return config.Wrong(key, "%v is link-local: want a zone, as in fe80::1%%eth0", a)
	}
	return nil
}

func (s *udpSource) requiredCapabilities() []string {
	return listenCapabilities(s.Listen...)
}

// listenCapabilities returns the capabilities that listening at these addresses needs.
func listenCapabilities(at ...netip.AddrPort) []string {
	if slices.ContainsFunc(at, func(a netip.AddrPort) bool { return 0 < a.Port() && a.Port() < 1024 }) {
		return []string{"CAP_NET_BIND_SERVICE"}
	}
	return nil
}

func (s *udpSource) listInputs() (all []input) {
	for _, a := range s.Listen {
		all = append(all, input{label: a.String(), key: "udp " + a.String(), open: func() (netio.Source, error) {
			return netio.ListenUDP(a.String())
		}})
	}
	return all
}

// icmpSource receives ICMPv6 errors, by which hosts reject Fast CNPs.
type icmpSource struct {
	Listen []netip.Addr `json:"listen"`
}

func (s *icmpSource) check() error {
	for i, a := range s.Listen {
		if !a.Is6() {
			return config.Wrong(config.Index("listen", i), "%v: want an IPv6 address", a)
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

func (s *icmpSource) requiredCapabilities() []string { return []string{"CAP_NET_RAW"} }
func (s *icmpSource) listInputs() (all []input) {
	for _, a := range s.Listen {
		all = append(all, input{label: a.String(), key: "icmpv6 " + a.String(), open: func() (netio.Source, error) {
			return netio.ListenICMPv6(a, wire.ICMPv6ParameterProblem)
		}})
	}
	return all
}

// groupSource receives packets that nftables rules log to a group of 16 bits, or those that the kernel or switch
// hardware samples for a group of PSAMPLE, of 32 bits.
type groupSource[N uint16 | uint32] struct {
	Group *N `json:"group"`
}

func (s *groupSource[N]) check() error {
	if s.Group == nil {
		return config.Wrong("group", "missing")
	}
	return nil
}

func (s *groupSource[N]) requiredCapabilities() []string { return []string{"CAP_NET_ADMIN"} }
func (s *groupSource[N]) listInputs() []input {
	open := func() (netio.Source, error) {
		if group, ok := any(*s.Group).(uint16); ok {
			return nflog.Open(group)
		}
		return psample.Open(uint32(*s.Group))
	}
	return []input{{label: fmt.Sprint(*s.Group), key: fmt.Sprintf("group %T %d", *s.Group, *s.Group), open: open}}
}

// qdiscSource receives packets that wait in queues of interfaces.
type qdiscSource struct {
	Interfaces []string      `json:"interfaces"`
	PerFlow    time.Duration `json:"per_flow"` // shortest time between two packets of a flow; 0: no limit
	Tunnels    bool          `json:"tunnels"`  // include packets in tunnels

	threshold uint64 // queue depth in bytes from which packets are reported
	all       bool   // a role needs all tunnel packets, for fcn = "any"
}

func (s *qdiscSource) check() error {
	if i := slices.Index(s.Interfaces, "any"); i >= 0 {
		return config.Wrong(config.Index("interfaces", i), "any: want names of interfaces, which have the queues")
	}
	return checkInterfaces(s.Interfaces)
}

func (s *qdiscSource) requiredCapabilities() []string { return []string{"CAP_BPF", "CAP_PERFMON"} }
func (s *qdiscSource) listInputs() []input {
	c := qdisc.Config{PerFlow: s.PerFlow}
	switch {
	case s.all:
		c.Tunnels = qdisc.AllTunnels
	case s.Tunnels:
		c.Tunnels = qdisc.Readable
	}
	for _, name := range s.Interfaces {
		c.Interfaces = append(c.Interfaces, qdisc.Interface{Name: name, Threshold: s.threshold})
	}
	return []input{{
		label: strings.Join(s.Interfaces, ","), key: fmt.Sprintf("qdisc %+v", c), watch: s.Interfaces,
		open: func() (netio.Source, error) {
			s, err := qdisc.Open(c)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		rewatch: func(s netio.Source) error { return s.(*qdisc.Source).Watch(c.Interfaces) },
	}}
}

// requireText rejects an empty value.
func requireText(key, value string) error {
	if value == "" {
		return config.Wrong(key, "missing")
	}
	return nil
}

// checkDeviceName rejects invalid names of interfaces. It also rejects quotation marks and asterisks: nftables
// allows no quotation mark in a name and takes an asterisk for a wildcard.
func checkDeviceName(key, name string) error {
	never := func(r rune) bool { return r <= ' ' || strings.ContainsRune(`/:"*`, r) }
	switch {
	case len(name) > 15:
		return config.Wrong(key, "%q has %d characters: want at most 15", name, len(name))
	case name == "." || name == ".." || strings.ContainsFunc(name, never):
		return config.Wrong(key, "%q: want the name of an interface", name)
	}
	return nil
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// interfaceIndexes returns the indexes of interfaces, 0 for missing ones.
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
