package roles

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/rocev2"
)

// SwitchConfig is the configuration of the node where congestion occurs.
type SwitchConfig struct {
	common
	Self    ownAddresses `json:"self"`
	Methods []struct {
		Senders netip.Prefix      `json:"senders"`
		Method  *congested.Method `json:"method"`
	} `json:"methods"`
	Capable []struct {
		Senders netip.Prefix          `json:"senders"`
		Capable *congested.Capability `json:"capable"`
	} `json:"capable"`
	Proxies []struct {
		Senders netip.Prefix `json:"senders"`
		Proxy   *netip.Addr  `json:"proxy"`
	} `json:"proxies"`
	routing
	PE          []netip.Prefix   `json:"pe"`       // ingress PEs that FCNs and PPFCs may go to
	Level       *uint8           `json:"level"`    // of every congested frame; absent: 0
	Levels      []levelFrom      `json:"levels"`   // over the time, instead of level
	PauseUS     *uint16          `json:"pause_us"` // pause of a PPFC; absent: 100
	Port        uint16           `json:"port"`     // port that a PPFC names
	PPFC        *pauseFrom       `json:"ppfc"`
	PPFCAddress string           `json:"ppfc_address"` // destination, the default, or node (D15)
	PPFCTo      string           `json:"ppfc_to"`      // sender, the default, or ingress
	PerFlow     [8]time.Duration `json:"per_flow"`
	Rate        rate             `json:"rate"`
	Congested   string           `json:"congested"` // all data packets, the default, or those marked ce
	InnerSource bool             `json:"inner_source"`
	Marking     string           `json:"marking"` // self, the default, or elsewhere
	Fallback    congested.Method `json:"fallback"`
	OwnRecord   *ownRecord       `json:"own_record"`
	// Namespaces are the IOAM namespaces with traces that get own_record; absent: all.
	Namespaces  []uint16       `json:"ioam_namespaces"`
	FCN         string         `json:"fcn"`          // packets that FCNs are about: rocev2, the default, or any
	UDPChecksum *bool          `json:"udp_checksum"` // of FCN and proxy messages over IPv6; absent: true
	Probe       *time.Duration `json:"probe"`        // of hosts that have rejected Fast CNPs; absent: 1 s
	Seed        *seed          `json:"seed"`         // key of the flow labels of Fast CNPs; absent: random
}

// levelFrom is the level of the queue from a time on, counted from the first frame.
type levelFrom struct {
	At    *time.Duration `json:"at"`
	Level *uint8         `json:"level"`
}

// pauseFrom has, for each request, the lowest level at which a PPFC makes it. A request without a level is never
// made.
type pauseFrom struct {
	Alarm *uint8 `json:"alarm"`
	Hold  *uint8 `json:"hold"`
	Stop  *uint8 `json:"stop"`
}

// Apply implements [Config].
func (c *SwitchConfig) Apply(old node.Role) (node.Role, error) {
	messages, err := c.messageConfig()
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(c.checkWords(), c.routing.checkKeys(c.Enabled)); err != nil {
		return nil, err
	}
	next := *oldOrNew[Switch](old)
	s := &next
	s.port = c.Port
	if s.levels, err = c.parseLevels(); err != nil {
		return nil, err
	}
	cfg := congested.Config{
		Enabled: c.Enabled, Out: node.Rate(c.Rate), PerFlow: c.PerFlow,
		OnlyMarked: c.Congested == "ce", Pause: 100 * time.Microsecond,
		PEs:        acl.New(c.PE...),
		Seed:       c.seed,
		CannotMark: c.Marking == "elsewhere", Fallback: c.Fallback, PauseIngress: c.PPFCTo == "ingress",
	}
	if c.PauseUS != nil {
		cfg.Pause = time.Duration(*c.PauseUS) * time.Microsecond
	}
	if c.Probe != nil {
		if cfg.Probe = *c.Probe; cfg.Probe <= 0 || cfg.Probe > time.Hour {
			return nil, config.Wrong("probe", "%v: want a duration above 0, at most 1h", cfg.Probe)
		}
	}
	if c.Seed != nil {
		cfg.Seed = uint64(*c.Seed)
	}
	if c.OwnRecord != nil {
		if cfg.Own, err = c.OwnRecord.newNode(); err != nil {
			return nil, err
		}
	}
	if cfg.FastCNP.OwnNamespaces, err = c.ownNamespaces(); err != nil {
		return nil, err
	}
	if cfg.AnyTunnelled = c.FCN == "any"; cfg.AnyTunnelled && len(c.PE) == 0 {
		return nil, config.Wrong("pe", `missing: want the ingress PEs that fcn = "any" notifies`)
	}
	if c.UDPChecksum != nil {
		cfg.FCN.NoChecksum6, cfg.Proxy.NoChecksum6 = !*c.UDPChecksum, !*c.UDPChecksum
	}
	if cfg.PauseFrom, err = c.pauseFrom(); err != nil {
		return nil, err
	}
	cfg.FastCNP.InnerSource, cfg.PPFC.InnerSource = c.InnerSource, c.InnerSource
	cfg.PPFC.NodeAddress = c.PPFCAddress == "node"
	cfg.FastCNP.CodePoints, cfg.FastCNP.Long = messages.CodePoints, fastcnp.LongTraceFallBack
	cfg.FCN.Port, cfg.Proxy.Port = messages.FCNPort, messages.ProxyPort
	if c.Enabled {
		if err := c.setEnabled(&cfg); err != nil {
			return nil, err
		}
	}
	return s, configureRole(&s.Role, congested.New, cfg)
}

// Marks reports whether the node is to mark packets. The methods proxy, fcn and ppfc never do.
func (c *SwitchConfig) Marks() bool {
	for _, m := range c.Methods {
		if m.Method != nil && (*m.Method == congested.MethodFastCNP || *m.Method == congested.MethodMark) {
			return c.Marking != "elsewhere"
		}
	}
	return false
}

// Limited implements [Sending].
func (c *SwitchConfig) Limited() bool { return c.PerFlow != [8]time.Duration{} || c.Rate != rate{} }

// Lacks implements [Lacking].
func (c *SwitchConfig) Lacks() error {
	if len(c.Methods) == 0 && c.FCN != "any" {
		return config.Wrong("methods", "missing: without methods the switch sends and marks nothing")
	}
	return nil
}

// checkWords checks the keys that have one of a few words.
func (c *SwitchConfig) checkWords() error {
	err := cmp.Or(
		checkWord("congested", c.Congested, "all", "ce"), checkWord("ppfc_address", c.PPFCAddress, "destination",
			"node"),
		checkWord("ppfc_to", c.PPFCTo, "sender", "ingress"), checkWord("marking", c.Marking, "self", "elsewhere"),
		checkWord("fcn", c.FCN, "rocev2", "any"))
	if err != nil {
		return err
	}
	switch c.Fallback {
	case congested.NoMethod, congested.MethodProxy, congested.MethodFCN, congested.MethodPPFC:
	default:
		return config.Wrong("fallback", "%v: want none, proxy, fcn or ppfc", c.Fallback)
	}
	if c.Fallback != congested.NoMethod && c.Marking != "elsewhere" {
		return config.Wrong("fallback", `want marking = "elsewhere" as well`)
	}
	return nil
}

// ownNamespaces returns the namespaces with traces that get the own record; nil for all.
func (c *SwitchConfig) ownNamespaces() (*fastcnp.Namespaces, error) {
	switch {
	case c.Namespaces == nil:
		return nil, nil
	case c.OwnRecord == nil:
		return nil, config.Wrong("ioam_namespaces", "want also own_record, which is added to their traces")
	}
	all := new(fastcnp.Namespaces)
	for _, n := range c.Namespaces {
		all.Add(n)
	}
	return all, nil
}

// AllNamespaces reports whether the own record is added to traces of all namespaces.
func (c *SwitchConfig) AllNamespaces() bool { return c.OwnRecord != nil && c.Namespaces == nil }

// parseLevels returns the level of the queue over the time.
func (c *SwitchConfig) parseLevels() (levels levelsOverTime, err error) {
	if c.Levels == nil {
		if c.Level != nil {
			levels.fixed = *c.Level
		}
		return levels, levelFits("level", levels.fixed)
	}
	switch {
	case c.Level != nil:
		return levels, config.Wrong("levels", "given together with level: want one of them")
	case len(c.Levels) == 0:
		return levels, config.Wrong("levels", "an empty list: want one level or more")
	}
	for i, l := range c.Levels {
		key := config.Index("levels", i)
		switch {
		case l.At == nil:
			return levels, config.Wrong(config.Join(key, "at"), "missing")
		case l.Level == nil:
			return levels, config.Wrong(config.Join(key, "level"), "missing")
		case i > 0 && *l.At <= *c.Levels[i-1].At:
			return levels, config.Wrong(config.Join(key, "at"), "%v: want a later time than the one before", *l.At)
		}
		if err := levelFits(config.Join(key, "level"), *l.Level); err != nil {
			return levels, err
		}
		levels.steps = append(levels.steps, step{*l.At, *l.Level})
	}
	return levels, nil
}

func levelFits(key string, l uint8) error {
	if l > level.Max {
		return config.Wrong(key, "%d: want 0 to %d", l, level.Max)
	}
	return nil
}

// pauseFrom returns the lowest level of each request that a PPFC makes. Without the key, a PPFC asks to stop from
// level 1 on. If the level never changes, a PPFC asks to stop at that level.
func (c *SwitchConfig) pauseFrom() (from congested.PauseFrom, err error) {
	if c.PPFC == nil {
		if c.Levels != nil {
			from.Stop = 1
		}
		return from, nil
	}
	for _, k := range []struct {
		key  string
		from *uint8
		to   *uint8
	}{
		{"ppfc.alarm", c.PPFC.Alarm, &from.Alarm},
		{"ppfc.hold", c.PPFC.Hold, &from.Hold},
		{"ppfc.stop", c.PPFC.Stop, &from.Stop},
	} {
		if k.from == nil {
			continue
		}
		if *k.from < 1 || *k.from > level.Max {
			return from, config.Wrong(k.key, "%d: want 1 to %d", *k.from, level.Max)
		}
		*k.to = *k.from
	}
	if from == (congested.PauseFrom{}) {
		from.Stop = 1
	}
	return from, nil
}

// setEnabled sets the keys that a role may lack while it is off.
func (c *SwitchConfig) setEnabled(cfg *congested.Config) (err error) {
	if cfg.Self4, cfg.Self6, err = c.Self.splitFamilies("self", true); err != nil {
		return err
	}
	methods, err := byPrefix[congested.Method]("methods", c.Methods)
	if err != nil {
		return err
	}
	capable, err := byPrefix[congested.Capability]("capable", c.Capable)
	if err != nil {
		return err
	}
	proxies, err := byPrefix[netip.Addr]("proxies", c.Proxies)
	if err != nil {
		return err
	}
	for i, r := range proxies {
		if rocev2.CheckAnswerable(r.Value) != nil {
			return config.Wrong(config.Join(config.Index("proxies", i), "proxy"),
				"%v: want a unicast address that others can reach", r.Value)
		}
	}
	cfg.Methods, cfg.Capable = acl.NewMap(methods...), acl.NewMap(capable...)
	cfg.Proxies = c.routing.withList(acl.NewMap(proxies...))
	return nil
}

// levelsOverTime is the level of a queue over the time of a capture.
type levelsOverTime struct {
	fixed uint8  // without steps
	steps []step // by time
}

// A step is a level that the queue has from a time on, counted from the first
// frame. Before the first step it is 0.
type step struct {
	at    time.Duration
	level uint8
}

// levelAt returns the level at a time.
func (l *levelsOverTime) levelAt(t time.Duration) uint8 {
	level := l.fixed
	for _, s := range l.steps {
		if s.at > t {
			break
		}
		level = s.level
	}
	return level
}

// fellToZero reports whether the queue fell to level 0 after one time and up to another.
func (l *levelsOverTime) fellToZero(after, upTo time.Duration) bool {
	for _, s := range l.steps {
		if s.level == 0 && after < s.at && s.at <= upTo {
			return true
		}
	}
	return false
}

// A Switch is the node where congestion occurs. It knows the level of its queue over the time of a capture.
type Switch struct {
	*congested.Role
	Level   uint8          // of the last frame, or UnknownLevel if the role had no frame or only observed it
	port    uint16         // that a PPFC names
	levels  levelsOverTime // levels for frames of unknown level
	known   bool           // the level of the last frame was known
	start   time.Time      // of the first frame
	elapsed time.Duration  // from start to the latest frame
}

// Receive implements [node.Role]. Event.Level may be [UnknownLevel].
func (s *Switch) Receive(out []byte, f *rocev2.Frame, e node.Event) ([]byte, node.Decision) {
	if e.Port = s.port; f != nil {
		if s.known = e.Level != UnknownLevel; !s.known {
			e.Level = s.levels.levelAt(s.elapsed)
		}
		if s.Level = e.Level; e.Observe {
			s.Level = UnknownLevel
		}
	}
	return s.Role.Receive(out, f, e)
}

// Due implements [node.Role]. Flows that were stopped are due with the first frame after the queue has fallen.
func (s *Switch) Due(out []byte, now time.Time) ([]byte, node.Decision) {
	if s.start.IsZero() {
		s.start = now
	}
	before := s.elapsed
	if s.elapsed = now.Sub(s.start); !s.known && s.levels.fellToZero(before, s.elapsed) {
		s.Role.Receive(nil, nil, node.Event{Port: s.port, Now: now})
	}
	s.Level = UnknownLevel
	return s.Role.Due(out, now)
}

// Tables implements [Tabled].
func (s *Switch) Tables() []Table {
	rejected, paused := s.Fill()
	return []Table{{"rejections", rejected.Entries, rejected.Max}, {"paused", paused.Entries, paused.Max}}
}

// Data reports whether a frame holds RoCEv2 data, in its tunnels but not in a mirrored copy, and returns its sender and
// whether it is marked. It decodes into m.
func Data(f *rocev2.Frame, m *message.Message) (sender netip.Addr, marked, ok bool) {
	m.DecodeView(f.Inner(), message.Config{SkipVerify: true}) // only data matters
	if m.Kind != message.KindData || f.Inner().Mirrored() {
		return sender, false, false
	}
	return m.Packet.Src, f.Marked(), true
}
