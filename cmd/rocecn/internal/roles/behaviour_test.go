package roles

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A calledRole records the calls of a Driver.
type calledRole struct {
	node.Role
	due    []time.Time // times of the decisions that are due
	events []node.Event
}

func (r *calledRole) Receive(out []byte, _ *rocev2.Frame, e node.Event) ([]byte, node.Decision) {
	r.events = append(r.events, e)
	return append(out, 1), node.Decision{Action: node.ActionMarked}
}

func (r *calledRole) Due(out []byte, now time.Time) ([]byte, node.Decision) {
	if len(r.due) == 0 || r.due[0].After(now) {
		return out, node.Decision{}
	}
	r.due = r.due[1:]
	return append(out, 2), node.Decision{Action: node.ActionSent}
}

// A Driver reports the decisions that are due before that of the next frame, and gives the event to the role with the
// time of the frame.
func TestDriver(t *testing.T) {
	r := &calledRole{due: []time.Time{noon, noon.Add(time.Second), noon.Add(3 * time.Second)}}
	type report struct {
		action node.Action
		packet byte
		due    bool
	}
	var reports []report
	v := Driver{Role: r, Report: func(d *node.Decision, packet []byte, due bool) {
		require.Len(t, packet, 1)
		reports = append(reports, report{d.Action, packet[0], due})
	}}
	at := func(at time.Time) *capture.Record { return &capture.Record{Time: at, Link: capture.Raw} }
	first := report{node.ActionSent, 2, true}
	frame := report{node.ActionMarked, 1, false}
	v.Receive(at(noon.Add(time.Second)), node.Event{Level: 3, Observe: true})
	require.Equal(t, []report{first, first, frame}, reports)
	v.Receive(at(time.Time{}), node.Event{Level: 5})
	require.Equal(t, []report{first, first, frame, frame}, reports)
	v.Due(noon.Add(3 * time.Second))
	require.Equal(t, []report{first, first, frame, frame, first}, reports)
	require.Equal(t, []node.Event{{Level: 3, Observe: true, Now: noon.Add(time.Second)},
		{Level: 5, Now: noon.Add(time.Second)}}, r.events)
}

// A list keeps the latest four values, without repeating the latest one.
func TestPrependUnique(t *testing.T) {
	all := map[string][4]int{}
	for _, c := range []struct {
		x    int
		want [4]int
	}{{1, [4]int{1}}, {1, [4]int{1}}, {2, [4]int{2, 1}}, {3, [4]int{3, 2, 1}}, {3, [4]int{3, 2, 1}},
		{4, [4]int{4, 3, 2, 1}}, {5, [4]int{5, 4, 3, 2}}, {4, [4]int{4, 5, 4, 3}}} {
		prependUnique(all, "a", c.x)
		require.Equal(t, map[string][4]int{"a": c.want}, all)
	}
}

// The rule for a prefix is that of the longest prefix around it, and never that of a part of it.
func TestLookUpAround(t *testing.T) {
	entry := func(p string, value int) acl.Entry[int] {
		return acl.Entry[int]{Prefix: netip.MustParsePrefix(p), Value: value}
	}
	rules := []acl.Entry[int]{entry("2001:db8::/48", 3), entry("2001:db8::/32", 2), entry("::/0", 1),
		entry("2001:db8:1::/64", 4), entry("10.0.0.0/8", 5)}
	for _, c := range []struct {
		prefix string
		want   int
	}{{"2001:db8::/64", 3}, {"2001:db8::/48", 3}, {"2001:db8::/47", 2}, {"2001:db8:1::/63", 2}, {"2001:db8:1::/64", 4},
		{"2001:db8::/31", 1}, {"::/0", 1}, {"10.1.0.0/16", 5}, {"10.0.0.0/7", 0}} {
		require.Equal(t, c.want, lookUpAround(netip.MustParsePrefix(c.prefix), rules), c.prefix)
	}
}

// The queue pairs of a device count besides those of the table.
func TestSizesWithDevice(t *testing.T) {
	p := newPairs(nil, true, 0, qpmap.Config{})
	for qp := range uint32(2) {
		k := qpmap.Key{FlowKey: rocev2.FlowKey{Src: senderAddr, Dst: receiverAddr, DestQP: 7 + qp}}
		require.NoError(t, p.Add(k, qpmap.Pair{SrcQP: 8, From: qpmap.BasisCM, Seen: noon}))
	}
	require.Equal(t, Sizes{Pairs: 2}, p.sizes())
	p.device = &Device{remotes: map[uint32]netip.Addr{1: receiverAddr, 2: receiverAddr, 3: receiverAddr}}
	require.Equal(t, Sizes{Pairs: 5}, p.sizes())
}

// The tables of each role have their names.
func TestTablesOfRoles(t *testing.T) {
	const self = `{"enabled": true, "self": ["2001:db8:1::a"]`
	learned := []string{"pairs", "pending_pairs", "flows_without_pair"}
	for _, c := range []struct {
		role, keys string
		want       []string
	}{
		{"receiver", self + `, "learn": true}`, learned}, {"receiver", self + "}", []string{"pairs"}},
		{"sender", self + `, "learn": true, "reaction": {"line": 1000000000}}`,
			append([]string{"rates"}, learned...)},
		{"switch", self + "}", []string{"rejections", "paused"}},
		{"ingress", `{"enabled": true, "tunnel": {"type": "ipip", "src": "2001:db8::1", "dst": "2001:db8::2"}}`,
			append([]string{"flows"}, learned...)},
		{"proxy", self + "}", learned},
		{"pause", self + "}", []string{"targets"}},
	} {
		var names []string
		for _, table := range wiretest.Must(configured(t, c.role, nil, c.keys))(t).(Tabled).Tables() {
			require.Positive(t, table.Max, table.Name)
			names = append(names, table.Name)
		}
		require.Subset(t, names, c.want, c.role)
		require.Subset(t, c.want, names, c.role)
	}
}

// A stop is accepted until a reload turns the role off, and again after it is turned on.
func TestPauseOff(t *testing.T) {
	stop := ppfc.New(17, 0xFFFF, ppfc.Extension{Congested: receiverAddr, Type: ppfc.Stop, Pause: time.Millisecond})
	var f rocev2.Frame
	f.Decode(wiretest.Must(stop.AppendPacket(nil, receiverAddr, senderAddr, ppfc.Config{}))(t),
		rocev2.DecodeOptions{Link: rocev2.LinkIP})
	const keys = `"self": ["2001:db8:1::a"], "accept": ["::/0"],
		"qps": [{"dst": "2001:db8:2::b", "dest_qp": 18, "qp": 17}]}`
	var r node.Role
	for i, c := range []struct {
		enabled string
		want    node.Action
		reason  node.Reason
	}{{"true", node.ActionAccepted, node.NoReason}, {"false", node.ActionRefused, node.ReasonDisabled},
		{"true", node.ActionAccepted, node.NoReason}} {
		r = wiretest.Must(configured(t, "pause", r, `{"enabled": `+c.enabled+", "+keys))(t)
		_, d := r.Receive(nil, &f, node.Event{Now: noon.Add(time.Duration(i) * time.Second)})
		require.Equal(t, []any{c.want, c.reason}, []any{d.Action, d.Reason}, c.enabled)
	}
}

// An error names the key that it is about, also one of several lists or of several roles.
func TestKeysOfErrors(t *testing.T) {
	const self = `{"enabled": true, "self": ["2001:db8:1::a"], `
	for _, c := range []struct{ role, keys, want string }{
		{"border", `{"enabled": true, "fcn_port": 4791}`, "fcn_port: "},
		{"switch", self + `"methods": [{"senders": "::/0", "method": "mark"}, {"senders": "::/0", "method": "mark"}]}`,
			"methods[1].senders: ::/0 has a rule already"},
		{"switch", self + `"capable": [{"senders": "::/0", "capable": "yes"}, {"senders": "::/0", "capable": "no"}]}`,
			"capable[1].senders: ::/0 has a rule already"},
		{"switch", self + `"proxies": [{"senders": "::/0", "proxy": "::2"}, {"senders": "::/0", "proxy": "::3"}]}`,
			"proxies[1].senders: ::/0 has a rule already"},
		{"switch", self + `"levels": []}`, "levels: an empty list"},
		{"switch", self + `"levels": [{"level": 1}]}`, "levels[0].at: missing"},
		{"switch", self + `"levels": [{"at": "0s"}]}`, "levels[0].level: missing"},
		{"switch", self + `"levels": [{"at": "1s", "level": 1}, {"at": "1s", "level": 2}]}`, "levels[1].at: 1s: want"},
		{"switch", self + `"levels": [{"at": "1s", "level": 8}]}`, "levels[0].level: "},
		{"switch", self + `"level": 8}`, "level: "},
		{"switch", `{"enabled": true}`, "self: an enabled role needs its own address"},
		{"pause", `{"enabled": true}`, "self: an enabled role needs its own address"},
	} {
		_, err := configured(t, c.role, nil, c.keys)
		var wrong *config.Error
		require.ErrorAs(t, err, &wrong, c.keys)
		require.ErrorContains(t, err, c.want, c.keys)
	}
}

// Several roles of a kind have numbers from 0 on, in the order of the file.
func TestSeveralRoles(t *testing.T) {
	const file = "[[role.switch]]\nlevel = 1\n[[role.switch]]\nlevel = 2\n[role.pause]\n"
	for _, c := range []struct {
		name  string
		level uint8
	}{{"switch[0]", 1}, {"switch[1]", 2}} {
		i := wiretest.Must(Read([]byte(file), c.name))(t)
		require.Equal(t, []string{c.name, "switch"}, []string{i.Name, i.Role})
		require.Equal(t, c.level, *i.Config.(*SwitchConfig).Level)
	}
	require.Equal(t, "pause", wiretest.Must(Read([]byte(file), "pause"))(t).Name)
	_, err := Read([]byte(file), "switch")
	require.EqualError(t, err, "there are several [[role.switch]]: the first one is switch[0]")
	_, err = Read([]byte(file), "switch[2]")
	require.EqualError(t, err, `role "switch[2]": want a role with a table in the file`)
}

// A CNP slows down all flows of a queue pair. The rate is the lowest one, whichever flow has it.
func TestLowestRate(t *testing.T) {
	for _, slowed := range []uint32{17, 18} {
		t.Run(fmt.Sprint(slowed), func(t *testing.T) {
			r := wiretest.Must(configured(t, "sender", nil, `{"enabled": true, "self": ["2001:db8:1::a"], "qps": [
				{"qp": 5, "dst": "2001:db8:2::b", "dest_qp": 17}, {"qp": 5, "dst": "2001:db8:2::b", "dest_qp": 18}],
				"reaction": {"line": 1000000000}}`))(t).(*Sender)
			d := node.Decision{Action: node.ActionAccepted, Request: node.RequestSlowDown, KnownQP: true,
				Message: message.KindFastCNP}
			d.Flow.Dst, d.Flow.DestQP = receiverAddr, slowed
			r.updateRates(&d, nil, noon)
			d = node.Decision{Action: node.ActionAccepted, Request: node.RequestSlowDown, KnownQP: true,
				Message: message.KindCNP, SrcQP: 5, From: receiverAddr}
			r.updateRates(&d, nil, noon)
			rate, rated := r.Rate()
			require.True(t, rated)
			require.EqualValues(t, 250_000_000, rate) // cut by half twice; that of the other flow is cut once
			for order := range r.Rates().All() {
				require.EqualValues(t, map[bool]int{true: 250_000_000, false: 500_000_000}[order.Flow.DestQP == slowed],
					order.Rate)
			}
		})
	}
}

// The octets of data count with the Ethernet and IP headers: at the end of a stage of the byte counter, the rate rises
// halfway to the line rate.
func TestCountedOctets(t *testing.T) {
	const ipv4, ipv6 = 14 + 20 + 8 + 12 + 256 + 4, 14 + 40 + 8 + 12 + 256 + 4
	toIPv4 := func(p *rocev2.Packet) { p.Src, p.Dst = senderIPv4, receiverIPv4 }
	for _, c := range []struct {
		name   string
		dst    netip.Addr
		packet []byte
		stage  uint64
		rate   uint64
	}{
		{"IPv4, end of a stage", receiverIPv4, packet(t, toIPv4), ipv4, 750_000_000},
		{"IPv4, one octet is missing", receiverIPv4, packet(t, toIPv4), ipv4 + 1, 500_000_000},
		{"IPv6, end of a stage", receiverAddr, packet(t), ipv6, 750_000_000},
		{"IPv6, one octet is missing", receiverAddr, packet(t), ipv6 + 1, 500_000_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := wiretest.Must(configured(t, "sender", nil, `{"enabled": true, "self": ["192.0.2.1", "2001:db8:1::a"],
				"reaction": {"line": 1000000000}}`))(t).(*Sender)
			rates := reaction.TableConfig{Enabled: true, DCQCN: reaction.PaperDCQCN(1_000_000_000)}
			rates.DCQCN.ByteCounter = c.stage
			require.NoError(t, r.rates.Configure(rates))
			d := node.Decision{Action: node.ActionAccepted, Request: node.RequestSlowDown, KnownQP: true,
				Message: message.KindFastCNP}
			d.Flow.Dst, d.Flow.DestQP = c.dst, 17
			r.updateRates(&d, nil, noon)
			var f rocev2.Frame
			f.Decode(c.packet, rocev2.DecodeOptions{Link: rocev2.LinkIP})
			r.updateRates(&node.Decision{Packet: message.KindData}, &f, noon)
			require.Equal(t, c.rate, r.Rates().Now(reaction.FlowID{Dst: c.dst, DestQP: 17}, noon).Rate)
		})
	}
}
