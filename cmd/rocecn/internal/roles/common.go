package roles

import (
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strconv"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// common are the keys of every role. Every one is off unless it is enabled.
type common struct {
	Enabled     bool         `json:"enabled"`
	OptionTypes []optionType `json:"option_types"` // of Fast CNP: one for both options, or one for each
	FCNPort     *uint16      `json:"fcn_port"`
	ProxyPort   *uint16      `json:"proxy_port"`
	VXLANPorts  []uint16     `json:"vxlan_ports"` // besides 4789 and 8472
	FOUPorts    []uint16     `json:"fou_ports"`
	CSIGTPID    uint16       `json:"csig_tpid"` // 0: 0x9900

	seed uint64 // of the tables of learned pairs and of flow labels: see Rehearse
}

// Rehearse implements [Config].
func (c *common) Rehearse(seed uint64) { c.seed = seed }

// On implements [Config].
func (c *common) On() bool { return c.Enabled }

// Encapsulations implements [Config].
func (c *common) Encapsulations() *rocev2.Encapsulations {
	if len(c.VXLANPorts) == 0 && len(c.FOUPorts) == 0 && c.CSIGTPID == 0 {
		return nil
	}
	return &rocev2.Encapsulations{VXLANPorts: c.VXLANPorts, FOUPorts: c.FOUPorts, CSIGTPID: c.CSIGTPID}
}

// messageConfig returns the option types and ports that the deployment uses.
func (c *common) messageConfig() (m message.Config, err error) {
	if m.CodePoints, err = codePoints("option_types", c.OptionTypes); err != nil {
		return m, err
	}
	m.FCNPort, m.ProxyPort = fcn.Port, proxymsg.Port
	for _, p := range []struct {
		key  string
		from *uint16
		to   *uint16
	}{{"fcn_port", c.FCNPort, &m.FCNPort}, {"proxy_port", c.ProxyPort, &m.ProxyPort}} {
		if p.from != nil {
			*p.to = *p.from
		}
		if err := cli.CheckPort(*p.to); err != nil {
			return m, config.Wrong(p.key, "%v", err)
		}
	}
	if m.FCNPort == m.ProxyPort {
		key := "proxy_port"
		if c.ProxyPort == nil {
			key = "fcn_port"
		}
		return m, config.Wrong(key, "%d: FCN and proxy messages need two ports", m.FCNPort)
	}
	for _, p := range []struct {
		key   string
		ports []uint16
	}{{"vxlan_ports", c.VXLANPorts}, {"fou_ports", c.FOUPorts}} {
		for i, port := range p.ports {
			key := config.Index(p.key, i)
			if err := cli.CheckPort(port); err != nil {
				return m, config.Wrong(key, "%v", err)
			}
			if port == m.FCNPort || port == m.ProxyPort {
				return m, config.Wrong(key, "%d is the port of FCN or proxy messages", port)
			}
		}
	}
	if c.CSIGTPID != 0 && c.CSIGTPID < minEtherType {
		return m, config.Wrong("csig_tpid", "%d: want an EtherType from 1536 (0x600) to 65535", c.CSIGTPID)
	}
	return m, nil
}

// minEtherType is the smallest EtherType; smaller values are lengths (IEEE 802.3).
const minEtherType = 0x600

// codePoints returns the option types of Fast CNP. Their act bits must be 10 and
// their chg bit 0 (FAST section 4).
func codePoints(key string, types []optionType) (c fastcnp.CodePoints, err error) {
	for i, t := range types {
		if t>>5 != 0b100 {
			return c, config.Wrong(config.Index(key, i),
				"0x%02x: want act bits 10 and chg bit 0, which is 0x80 to 0x9f", uint8(t))
		}
	}
	switch len(types) {
	case 0:
	case 1:
		c.Option1, c.Option2 = ipv6opt.Type(types[0]), ipv6opt.Type(types[0])
	case 2:
		c.Option1, c.Option2 = ipv6opt.Type(types[0]), ipv6opt.Type(types[1])
	default:
		return c, config.Wrong(key, "one type for both options, or two")
	}
	return c, nil
}

// An optionType is a number, in JSON or as text: 158, "0x9e".
type optionType ipv6opt.Type

func (t *optionType) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 0, 8)
	if err != nil {
		return fmt.Errorf(`%q: want an option type, such as 158 or "0x9e"`, text)
	}
	*t = optionType(n)
	return nil
}

// ownAddresses are a node's own addresses, one a family.
type ownAddresses []netip.Addr

// splitFamilies returns the own addresses of a role that is on, by family; the address of a missing family is the
// zero Addr. There must be at least one, and all must be addresses that others can reach.
func (own ownAddresses) splitFamilies(key string, on bool) (v4, v6 netip.Addr, err error) {
	if !on {
		return v4, v6, nil
	}
	if len(own) == 0 {
		return v4, v6, config.Wrong(key, "an enabled role needs its own address")
	}
	for i, a := range own {
		p := &v6
		if a.Is4() {
			p = &v4
		}
		switch at := config.Index(key, i); {
		case p.IsValid():
			return v4, v6, config.Wrong(at, "%v: want at most one address of each family", a)
		case rocev2.CheckAnswerable(a) != nil:
			return v4, v6, config.Wrong(at, "%v: want a unicast address that others can reach", a)
		}
		*p = a
	}
	return v4, v6, nil
}

// A rate is a token bucket: a number of packets a second, and a burst.
type rate struct {
	PerSecond float64 `json:"per_second"`
	Burst     int     `json:"burst"` // 0: 1
}

// Check rejects a burst that would limit nothing.
func (r *rate) Check(key string) error {
	if r.Burst > 0 && r.PerSecond == 0 {
		return config.Wrong(config.Join(key, "per_second"), "missing: burst alone limits nothing")
	}
	return nil
}

// rateOfInterval returns the rate of one packet in an interval; none for 0.
func rateOfInterval(interval time.Duration) (r node.Rate) {
	if interval > 0 { // rounded up, so that one passes exactly an interval later
		r.PerSecond = math.Nextafter(float64(time.Second)/float64(interval), math.Inf(1))
	}
	return r
}

// A presentKey is a key, and whether it is there.
type presentKey struct {
	key     string
	present bool
}

// rejectKeys rejects the first key that is there.
func rejectKeys(reason string, keys []presentKey) error {
	for _, k := range keys {
		if k.present {
			return config.Wrong(k.key, "%s", reason)
		}
	}
	return nil
}

// checkWord rejects a value that is neither of two words, of which the usual one is meant
// where there is none.
func checkWord(key, value, usual, other string) error {
	if value != "" && value != usual && value != other {
		return config.Wrong(key, "%q: want %s or %s", value, usual, other)
	}
	return nil
}

// A configurer is a role of package node.
type configurer[C any] interface {
	comparable
	Configure(C) error
}

// oldOrNew returns the old role, or an empty one if there is none of its type.
func oldOrNew[R any](old node.Role) *R {
	if r, ok := any(old).(*R); ok {
		return r
	}
	return new(R)
}

// configureRole configures the role that there is, or makes one.
func configureRole[R configurer[C], C any](r *R, make func(C) (R, error), cfg C) (err error) {
	var none R
	if *r != none {
		return (*r).Configure(cfg)
	}
	*r, err = make(cfg)
	return err
}

// byPrefix returns the values of a list of rules by prefix. A rule is a struct of a prefix and a pointer to a value:
// neither may be missing, and no prefix be there twice.
func byPrefix[V any](list string, rules any) (entries []acl.Entry[V], err error) {
	all, seen := reflect.ValueOf(rules), map[netip.Prefix]bool{}
	for i := range all.Len() {
		rule := all.Index(i)
		key := func(field int) string {
			return config.Join(config.Index(list, i), rule.Type().Field(field).Tag.Get("json"))
		}
		prefix, value := rule.Field(0).Interface().(netip.Prefix).Masked(), rule.Field(1).Interface().(*V)
		switch {
		case !prefix.IsValid():
			return nil, config.Wrong(key(0), "missing")
		case seen[prefix]:
			return nil, config.Wrong(key(0), "%v has a rule already", prefix)
		case value == nil:
			return nil, config.Wrong(key(1), "missing")
		}
		seen[prefix] = true
		entries = append(entries, acl.Entry[V]{Prefix: prefix, Value: *value})
	}
	return entries, nil
}
