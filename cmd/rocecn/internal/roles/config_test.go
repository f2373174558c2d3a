package roles

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/limit"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
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
	cases := append(wiretest.Cases(t, "malformed.txt", "(nothing)", ""),
		[]string{strings.Repeat("[", 1_000_000), `exceeded max depth`})
	for _, c := range cases {
		t.Run(c[1], func(t *testing.T) { require.ErrorContains(t, decode([]byte(c[0]), new(rehearsal)), c[1]) })
	}
}

func TestCommon(t *testing.T) {
	ports := []string{"$fcn", fmt.Sprint(fcn.Port), "$proxy", fmt.Sprint(proxymsg.Port)}
	for _, c := range wiretest.Cases(t, "common.txt", ports...) {
		t.Run(c[0], func(t *testing.T) {
			var got common
			require.NoError(t, decode([]byte(c[0]), &got))
			_, err := got.messageConfig()
			requireMessage(t, err, c[1])
		})
	}
}

// requireMessage requires an error with this message, or none if the message is "right".
func requireMessage(t *testing.T, err error, message string) {
	t.Helper()
	if message == "right" {
		require.NoError(t, err)
	} else {
		require.ErrorContains(t, err, message)
	}
}

func TestOwnAddresses(t *testing.T) {
	for _, c := range wiretest.Cases(t, "addresses.txt") {
		t.Run(c[0], func(t *testing.T) {
			var got struct {
				Self ownAddresses `json:"self"`
			}
			require.NoError(t, decode([]byte(`{"self": `+c[0]+`}`), &got))
			_, _, err := got.Self.splitFamilies("self", true)
			requireMessage(t, err, c[1])
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

// The documents list every key of every role, and no other ones: those of all roles in tool.md, the others on the page
// of the role.
func TestDocumentedKeys(t *testing.T) {
	docs := filepath.Join(wiretest.Root(t), "docs")
	read := func(name string) string {
		octets := wiretest.Must(os.ReadFile(filepath.Join(docs, filepath.FromSlash(name))))(t)
		return string(octets)
	}
	_, tool, ok := strings.Cut(read("tool.md"), "\n### Its configuration\n")
	require.True(t, ok)
	all := config.Keys(common{})
	require.ElementsMatch(t, all, documentedKeys(tool, "key"))

	for role, makeConfig := range All {
		own := config.Keys(makeConfig())[len(all):] // those of all roles come first
		if role == "ingress" {
			for _, key := range config.Keys(tunnel{}) {
				own = append(own, "tunnel."+key)
			}
		}
		if role == "sender" {
			for _, key := range config.Keys(reactionConfig{}) {
				own = append(own, "reaction."+key)
			}
		}
		require.ElementsMatch(t, own, documentedKeys(read("roles/"+role+".md"), "key of `play`"), role)
	}
	for _, key := range append(config.Keys(ownRecord{}), config.Keys(ownSnapshot{})...) {
		require.Contains(t, read("roles/switch.md"), "`"+key+"`")
	}
}

// documentedKeys returns the keys in the first table that has a head with these words.
func documentedKeys(text, head string) (all []string) {
	_, table, _ := strings.Cut(text, "\n| "+head+" | | default |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		all = append(all, m[1])
	}
	return all
}

// A seed is a whole number or a text. A fraction, or a number that is too large, is no text.
func TestSeed(t *testing.T) {
	for _, row := range []struct{ seed, err string }{
		{`0`, ""}, {`7`, ""}, {`18446744073709551615`, ""}, {`"words"`, ""}, {`"7 words"`, ""}, {`""`, ""},
		{`1.5`, "seed: 1.5: want a whole number from 0 to 18446744073709551615"}, {`1e3`, "seed: 1e3: want"},
		{`-1`, "seed: -1: want"}, {`18446744073709551616`, "seed: 18446744073709551616: want"},
		{`true`, "seed: true: want text"},
	} {
		t.Run(row.seed, func(t *testing.T) {
			_, err := Read([]byte(`{"seed": `+row.seed+`}`), "ingress")
			if row.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.err)
		})
	}
}

// Queue pairs that begin at PSN 0 and run in lockstep tie, and only learn_port resolves the tie by the UDP source
// port. A reload that changes learn_port discards the learned pairs; any other reload keeps them.
func TestLearnPort(t *testing.T) {
	for _, c := range []struct{ name, keys string }{
		{"receiver", `"self": ["2001:db8:2::b"], "learn": true`},
		{"sender", `"self": ["2001:db8:1::a"], "learn": true`},
		{"proxy", `"self": ["2001:db8:9::1"]`},
		{"ingress", `"tunnel": {"type": "ipip", "src": "2001:db8:e::1", "dst": "2001:db8:e::2"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			head := `{"enabled": true, ` + c.keys
			without, err := configured(t, c.name, nil, head+`}`)
			require.NoError(t, err)
			lockstep(t, without, c.name == "ingress")
			_, err = learned(without).SourceQP(firstFlow, noon)
			require.ErrorIs(t, err, qpmap.ErrAmbiguous)

			with := wiretest.Must(configured(t, c.name, without, head+`, "learn_port": true}`))(t)
			require.NotSame(t, learned(without), learned(with))
			lockstep(t, with, c.name == "ingress")
			pair := wiretest.Must(learned(with).SourceQP(firstFlow, noon))(t)
			require.Equal(t, qpmap.BasisPort, pair.From)
			require.EqualValues(t, 0x100, pair.SrcQP)

			again := wiretest.Must(configured(t, c.name, with, head+`, "learn_port": true}`))(t)
			require.Same(t, learned(with), learned(again))
		})
	}
}

var firstFlow = qpmap.Key{FlowKey: rocev2.FlowKey{Src: senderAddr, Dst: receiverAddr, DestQP: 0x200}}

// learned returns the learned pairs of a role.
func learned(r node.Role) *qpmap.Map {
	switch r := r.(type) {
	case *Receiver:
		return r.pairs.Map
	case *Sender:
		return r.pairs.Map
	case *Proxy:
		return r.pairs.Map
	case *Ingress:
		return r.pairs.Map
	}
	return nil
}

// lockstep shows a role the requests and answers of four connections, each with a UDP source port of its own.
// To an ingress PE the answers come in a tunnel.
func lockstep(t *testing.T, r node.Role, tunnelled bool) {
	t.Helper()
	p := Driver{Role: r, Report: func(*node.Decision, []byte, bool) {}}
	for psn := range uint32(10) {
		for _, answer := range []bool{false, true} {
			for i := range uint32(4) {
				octets := packet(t, func(p *rocev2.Packet) {
					p.SrcPort += uint16(i)
					p.BTH.PSN, p.BTH.DestQP, p.BTH.AckReq = psn, 0x200+i, true
					if answer {
						p.Src, p.Dst = receiverAddr, senderAddr
						p.BTH.Opcode, p.BTH.DestQP, p.BTH.AckReq, p.Payload = bth.RCAcknowledge, 0x100+i, false, nil
					}
				})
				if answer && tunnelled {
					octets = append(wiretest.Hex(t, fmt.Sprintf(`60000000 %04x 2940
						20010db8000e00000000000000000002 20010db8000e00000000000000000001`, len(octets))), octets...)
				}
				p.Receive(&capture.Record{Data: octets, OrigLen: 1, Link: capture.Raw, Time: noon}, node.Event{})
			}
		}
	}
}

// A device knows the host's queue pairs. With the address of the remote end the answer is certain; without it, the
// answer is certain only if a single queue pair is connected to a queue pair of that number. The device takes
// precedence over the configured pairs. For a queue pair that it does not know, the configured pairs count.
func TestDevicePairs(t *testing.T) {
	here, there, other := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"),
		netip.MustParseAddr("2001:db8::3")
	h := newHostPairs(newPairs(nil, false, 3, qpmap.Config{}), netip.Addr{}, here)
	now := time.Unix(1e9, 0)
	qp := func(n uint32) *uint32 { return &n }
	require.NoError(t, h.addConfigured([]hostPair{{there, qp(17), qp(99)}, {there, qp(30), qp(98)}}))
	require.NoError(t, h.applyGiven(func() error { return nil }))
	sent := func(src, dst netip.Addr, destQP uint32) (uint32, error) {
		p, err := h.SourceQP(qpmap.Key{FlowKey: rocev2.FlowKey{Src: src, Dst: dst, DestQP: destQP}}, now)
		return p.SrcQP, err
	}
	got := wiretest.Must(sent(here, there, 17))(t)
	require.EqualValues(t, 99, got)

	h.device = NewDevice([]DevicePair{
		{34, 17, there}, {35, 17, other}, {36, 18, netip.Addr{}}, {37, 19, netip.Addr{}}, {38, 19, netip.Addr{}},
		{39, 20, other}, {40, 20, netip.Addr{}},
	}, nil)
	for _, c := range []struct {
		src, dst netip.Addr
		destQP   uint32
		want     uint32
		err      error
	}{
		{here, there, 17, 34, nil}, {here, other, 17, 35, nil}, {here, here, 17, 0, qpmap.ErrUnknown},
		{here, there, 18, 36, nil}, {here, there, 19, 0, qpmap.ErrAmbiguous}, {here, other, 20, 39, nil},
		{here, there, 20, 40, nil}, {here, there, 21, 0, qpmap.ErrUnknown}, {here, there, 30, 98, nil},
		{other, there, 17, 0, qpmap.ErrUnknown}, // another host's
	} {
		got, err := sent(c.src, c.dst, c.destQP)
		require.Equal(t, []any{c.want, c.err}, []any{got, err}, "%+v", c)
	}
	for _, c := range []struct {
		qp           uint32
		dst          netip.Addr
		sends, known bool
	}{
		{34, there, true, true}, {34, other, false, true}, {36, there, false, true}, {41, there, false, false},
		{99, there, true, true}, {99, other, false, true},
	} {
		sends, known := h.Sends(c.qp, c.dst, now)
		require.Equal(t, []bool{c.sends, c.known}, []bool{sends, known}, "%+v", c)
	}

	// The kernel is told the same.
	own := map[rocev2.FlowKey]uint32{}
	for k, qp := range (&Sender{pairs: h}).OwnPairs() {
		own[k] = qp
	}
	require.Equal(t, map[rocev2.FlowKey]uint32{
		{Src: here, Dst: there, DestQP: 17}: 34, {Src: here, Dst: other, DestQP: 17}: 35,
		{Src: here, Dst: other, DestQP: 20}: 39, {Src: here, Dst: there, DestQP: 30}: 98,
	}, own)
}

// The keys of encapsulations, and the ports that they must not have.
func TestEncapsulations(t *testing.T) {
	for _, c := range []struct {
		name string
		keys common
		want *rocev2.Encapsulations
		err  string
	}{
		{"none", common{}, nil, ""},
		{"all", common{VXLANPorts: []uint16{8473}, FOUPorts: []uint16{5555}, CSIGTPID: 0x88B5},
			&rocev2.Encapsulations{VXLANPorts: []uint16{8473}, FOUPorts: []uint16{5555}, CSIGTPID: 0x88B5}, ""},
		{"port 0", common{VXLANPorts: []uint16{8473, 0}}, nil, "vxlan_ports[1]"},
		{"port of RoCEv2", common{FOUPorts: []uint16{4791}}, nil, "fou_ports[0]"},
		{"port of FCN", common{FOUPorts: []uint16{1021}}, nil, "fou_ports[0]"},
		{"length", common{CSIGTPID: 0x5FF}, nil, "csig_tpid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.keys.messageConfig()
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, c.keys.Encapsulations())
		})
	}
}

// The earlier name of the key cnp_from still counts, but not both.
func TestCNPFrom(t *testing.T) {
	const head = `{"enabled": true, "tunnel": {"type": "ipip", "src": "2001:db8:e::1", "dst": "2001:db8:e::2"}, `
	for _, c := range []struct{ name, keys, err string }{
		{"cnp_from", `"cnp_from": ["2001:db8:1::fe"]}`, ""},
		{"cnp", `"cnp": ["2001:db8:1::fe"]}`, ""},
		{"both", `"cnp": ["2001:db8:1::fe"], "cnp_from": ["2001:db8:1::fe"]}`, "cnp: given together with cnp_from"},
		{"wrong cnp_from", `"cnp_from": ["ff02::1"]}`, "cnp_from[0]: ff02::1: want a unicast address"},
		{"wrong cnp", `"cnp": ["ff02::1"]}`, "cnp[0]: ff02::1: want a unicast address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := configured(t, "ingress", nil, head+c.keys)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
		})
	}
}
