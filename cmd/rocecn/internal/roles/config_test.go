package roles

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/limit"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/stretchr/testify/require"
)

// decode sets a struct from JSON.
func decode(octets []byte, to any) error {
	tree, err := config.ReadJSON(octets)
	if err != nil {
		return err
	}
	return tree.Decode(to)
}

// rehearsal is a configuration with a field of every type.
type rehearsal struct {
	common
	Self     ownAddresses   `json:"self"`
	Interval time.Duration  `json:"interval"`
	Level    uint8          `json:"level"`
	Port     uint16         `json:"port"`
	Node     uint32         `json:"node"`
	Large    uint64         `json:"large"`
	Flows    int            `json:"flows"`
	Method   string         `json:"method"`
	Accept   []netip.Prefix `json:"accept"`
	Rate     *rate          `json:"rate"`
	Rules    []struct {
		Senders netip.Prefix `json:"senders"`
		Proxy   netip.Addr   `json:"proxy"`
	} `json:"rules"`
	unnamed int
}

func TestDecode(t *testing.T) {
	var c rehearsal
	require.NoError(t, decode([]byte(` { "enabled": true, "option_types": [158, "0x9f"], "fcn_port": 2000,
		"self": ["192.0.2.1", "2001:db8::1"], "interval": "50us", "level": 7, "port": 65535, "node": 4294967295,
		"large": 18446744073709551615, "flows": 1000000, "method": "fast\u0063np",
		"accept": ["2001:db8:1:2::3/48", "0.0.0.0/0"],
		"rate": {"per_second": 1e3, "burst": 2}, "rules": [{}, {"senders": "10.0.0.0/8", "proxy": "10.0.0.1"}] }
	`), &c))
	port := uint16(2000)
	want := rehearsal{
		common:   common{Enabled: true, OptionTypes: []optionType{158, 0x9F}, FCNPort: &port},
		Self:     ownAddresses{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")},
		Interval: 50 * time.Microsecond, Level: 7, Port: 65535, Node: 1<<32 - 1, Large: 1<<64 - 1, Flows: 1_000_000,
		Method: "fastcnp",
		Accept: []netip.Prefix{netip.MustParsePrefix("2001:db8:1::/48"), netip.MustParsePrefix("0.0.0.0/0")},
		Rate:   &rate{1000, 2}, Rules: c.Rules, unnamed: 0,
	}
	require.Equal(t, want, c)
	require.Len(t, c.Rules, 2)
	require.Equal(t, netip.MustParsePrefix("10.0.0.0/8"), c.Rules[1].Senders)
	require.Equal(t, netip.MustParseAddr("10.0.0.1"), c.Rules[1].Proxy)

	c = rehearsal{}
	require.NoError(t, decode([]byte(`{"interval": "0", "accept": [], "rate": {}}`), &c))
	require.Equal(t, rehearsal{Accept: []netip.Prefix{}, Rate: &rate{}}, c)
}

// Every error in a configuration names the key.
func TestMalformed(t *testing.T) {
	for _, c := range []struct{ octets, message string }{
		{``, `bad JSON: unexpected end of JSON input`},
		{`{`, `bad JSON: unexpected end of JSON input`},
		{`{"level": 1,}`, `bad JSON: invalid character '}'`},
		{`{"level" 1}`, `bad JSON: invalid character '1'`},
		{`{} {}`, `bad JSON: invalid character '{' after top-level value`},
		{strings.Repeat("[", 1_000_000), `exceeded max depth`},
		{`[]`, `want an object`},
		{`null`, `want an object`},
		{`true`, `want an object`},
		{`{"enabled": "true"}`, `enabled: "true": want true or false`},
		{`{"enabled": 1}`, `enabled: 1: want true or false`},
		{`{"enabled": null}`, `enabled: null: want true or false`},
		{`{"Enabled": true}`, `Enabled: unknown key; known are enabled, option_types, `},
		{`{"unnamed": 1}`, `unnamed: unknown key`},
		{`{"": 1}`, `unknown key`},
		{`{"common": {}}`, `common: unknown key`},
		{`{"level": 1, "level": 1}`, `level: is given twice`},
		{`{"rate": {"burst": 1, "burst": 1}}`, `rate.burst: is given twice`},
		{`{"level": 256}`, "level: 256: want a whole number from 0 to 255"},
		{`{"level": -1}`, "level: -1: want a whole number from 0 to 255"},
		{`{"level": 1.5}`, "level: 1.5: want a whole number from 0 to 255"},
		{`{"level": "1"}`, `level: "1": want a number`},
		{`{"port": 65536}`, "port: 65536: want a whole number from 0 to 65535"},
		{`{"node": 4294967296}`, "node: 4294967296: want a whole number from 0 to 4294967295"},
		{`{"large": 18446744073709551616}`,
			"large: 18446744073709551616: want a whole number from 0 to 18446744073709551615"},
		{`{"flows": -1}`, `flows: -1: want a whole number from 0 to 2147483647`},
		{`{"flows": 2147483648}`, `flows: 2147483648: want a whole number`},
		{`{"flows": []}`, `flows: a list: want a number`},
		{`{"method": 1}`, `method: 1: want text`},
		{`{"interval": 50}`, `interval: a duration is text, as in "50us"`},
		{`{"interval": "50"}`, `interval: "50" is not a duration, as in "50us"`},
		{`{"interval": ""}`, `interval: "" is not a duration`},
		{`{"interval": "-1s"}`, `interval: "-1s" is negative`},
		{`{"self": "192.0.2.1"}`, `self: "192.0.2.1": want a list`},
		{`{"self": [1]}`, `self[0]: an address is text`},
		{`{"self": ["192.0.2.1", "192.0.2"]}`, `self[1]: "192.0.2" is not an address`},
		{`{"self": ["::ffff:192.0.2.1"]}`,
			`self[0]: "::ffff:192.0.2.1" is not an address, or has a zone or is IPv4-mapped`},
		{`{"self": ["fe80::1%eth0"]}`, `self[0]: "fe80::1%eth0" is not an address, or has a zone`},
		{`{"accept": [""]}`, `accept[0]: "": want a prefix, as in "2001:db8::/32"`},
		{`{"accept": ["192.0.2.1"]}`, `accept[0]: "192.0.2.1": want a prefix`},
		{`{"accept": ["192.0.2.0/33"]}`, `accept[0]: "192.0.2.0/33": want a prefix`},
		{`{"accept": [1]}`, `accept[0]: 1: want a prefix as text`},
		{`{"rate": 5}`, `rate: 5: want an object`},
		{`{"rate": {"per_second": -1}}`, `rate.per_second: -1: want a number of 0 or more`},
		{`{"rate": {"per_second": 1e999}}`, `rate.per_second: 1e999: want a number of 0 or more`},
		{`{"rate": {"per_second": "1"}}`, `rate.per_second: "1": want a number`},
		{`{"rate": {"per second": 1}}`, `rate.per second: unknown key; known are per_second, burst`},
		{`{"rules": [{}, {"sender": "::/0"}]}`, `rules[1].sender: unknown key; known are senders, proxy`},
		{`{"rules": [{"senders": "::"}]}`, `rules[0].senders: "::": want a prefix`},
		{`{"option_types": [true]}`, `option_types[0]: true: want text`},
		{`{"option_types": [256]}`, `option_types[0]: "256" is not an option type, as in 158 or "0x9e"`},
	} {
		t.Run(c.octets, func(t *testing.T) {
			require.ErrorContains(t, decode([]byte(c.octets), new(rehearsal)), c.message)
		})
	}
}

func TestCommon(t *testing.T) {
	for _, c := range []struct{ octets, message string }{
		{`{}`, ``},
		{fmt.Sprintf(`{"option_types": [], "fcn_port": %d, "proxy_port": %d}`, proxymsg.Port, fcn.Port), ``},
		{`{"option_types": ["0x8a"]}`, ``},
		{`{"option_types": [128, 159]}`, ``},
		{`{"option_types": [30]}`, `option_types[0]: 0x1e: want act bits 10 and chg bit 0, which is 0x80 to 0x9f`},
		{`{"option_types": [158, 190]}`,
			`option_types[1]: 0xbe: want act bits 10 and chg bit 0, which is 0x80 to 0x9f`},
		{`{"option_types": [158, 158, 158]}`, `option_types: one type for both options, or two`},
		{`{"fcn_port": 0}`, `fcn_port: 1 to 65535 allowed`},
		{`{"proxy_port": 4791}`, `proxy_port: 4791 is the port of RoCEv2`},
		{`{"fcn_port": 4789}`, `fcn_port: 4789 is the port of a tunnel`},
		{fmt.Sprintf(`{"proxy_port": %d}`, fcn.Port), fmt.Sprintf(`proxy_port: %d: FCN and proxy`, fcn.Port)},
		{fmt.Sprintf(`{"fcn_port": %d}`, proxymsg.Port), fmt.Sprintf(`fcn_port: %d: FCN and proxy`, proxymsg.Port)},
	} {
		t.Run(c.octets, func(t *testing.T) {
			var got common
			require.NoError(t, decode([]byte(c.octets), &got))
			_, err := got.messageConfig()
			if c.message == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.message)
			}
		})
	}
}

func TestOwnAddresses(t *testing.T) {
	for _, c := range []struct{ octets, message string }{
		{`["192.0.2.1", "2001:db8::1"]`, ``},
		{`["2001:db8::1"]`, ``},
		{`[]`, `self: an enabled role needs its own address`},
		{`["192.0.2.1", "192.0.2.2"]`, `self[1]: 192.0.2.2 is the second of its family`},
		{`["::1"]`, `self[0]: ::1 is not a unicast address that others can reach`},
		{`["2001:db8::1", "127.0.0.1"]`, `self[1]: 127.0.0.1 is not a unicast address`},
		{`["0.0.0.0"]`, `self[0]: `},
		{`["::"]`, `self[0]: `},
		{`["ff02::1"]`, `self[0]: `},
		{`["224.0.0.1"]`, `self[0]: `},
		{`["255.255.255.255"]`, `self[0]: `},
		{`["fe80::1"]`, `self[0]: `},
	} {
		t.Run(c.octets, func(t *testing.T) {
			var got struct {
				Self ownAddresses `json:"self"`
			}
			require.NoError(t, decode([]byte(`{"self": `+c.octets+`}`), &got))
			_, _, err := got.Self.splitFamilies("self", true)
			if c.message == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.message)
			}
		})
	}
}

// An interval is the rate at which one passes exactly that much later, and not a nanosecond before.
func TestEvery(t *testing.T) {
	require.Zero(t, rateOfInterval(0))
	random := rand.New(rand.NewPCG(1, 2))
	for _, longest := range []int64{100, 1e6, 1e9, 3600e9} {
		for range 2000 {
			interval := time.Duration(1 + random.Int64N(longest))
			bucket := limit.NewBucket(limit.Rate(rateOfInterval(interval)))
			require.True(t, bucket.Ready(noon))
			bucket.Charge(noon)
			require.False(t, bucket.Ready(noon.Add(interval-1)), interval)
			require.True(t, bucket.Ready(noon.Add(interval)), interval)
		}
	}
}
