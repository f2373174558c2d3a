package border_test

import (
	"maps"
	"testing"

	"github.com/rocecn/rocecn"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/border"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// The capture has four Fast CNPs and a broken one, two FCNs, two proxy messages
// and one broken each, four PPFC notifications and a broken one, two CNPs and a
// broken one, data, an acknowledgement and one broken each, and other UDP.
func TestReceive(t *testing.T) {
	type stats map[node.Count]uint64
	dropped := func(k message.Kind) node.Count { return node.Count{Action: node.ActionDropped, Message: k} }
	off := stats{{Action: node.ActionRefused, Reason: node.ReasonDisabled}: 23, {}: 1}
	passed := node.Count{Action: node.ActionPassed}
	for _, c := range []struct {
		cfg  border.Config
		want stats
	}{
		{border.Config{}, off},
		{border.Config{Border: filter.Border{CNP: true, PPFC: true}}, off},
		{border.Config{Enabled: true}, stats{
			dropped(message.KindFastCNP): 5, dropped(message.KindFCN): 3, dropped(message.KindProxy): 3, passed: 12,
			{}: 1,
		}},
		{border.Config{Enabled: true, Border: filter.Border{CNP: true}}, stats{
			dropped(message.KindFastCNP): 5, dropped(message.KindFCN): 3, dropped(message.KindProxy): 3,
			dropped(message.KindCNP): 3, passed: 9, {}: 1,
		}},
		{border.Config{Enabled: true, Border: filter.Border{PPFC: true}}, stats{
			dropped(message.KindFastCNP): 5, dropped(message.KindFCN): 3, dropped(message.KindProxy): 3,
			dropped(message.KindPPFC): 5, passed: 7, {}: 1,
		}},
	} {
		b := made(t, c.cfg)
		for _, p := range wiretest.Capture(t, "messages.pcap") {
			d := receive(b, p.Data, rocev2.DecodeOptions{})
			require.False(t, d.Action == node.ActionDropped && !c.cfg.Enabled)
			require.Equal(t, !c.cfg.Enabled && d.Packet != message.KindOther, d.Reason == node.ReasonDisabled)
		}
		require.Equal(t, c.want, stats(maps.Collect(b.Counters().All())), "%+v", c.cfg)
	}
}

func made(t testing.TB, cfg border.Config) *border.Role {
	t.Helper()
	return wiretest.Must(border.New(cfg))(t)
}

var frame rocev2.Frame

func receive(b *border.Role, octets []byte, o rocev2.DecodeOptions) node.Decision {
	frame.Decode(octets, o)
	_, d := b.Receive(nil, &frame, node.Event{})
	return d
}

// Of a message in two fragments, the first without its UDP header, the first is
// dropped, and counted, in a tunnel as well.
func TestFragments(t *testing.T) {
	const addresses = `20010db8000000000000000000000001 20010db8000000000000000000000002`
	first := `60000000 0010 2c40 ` + addresses + `2b00 0001 00000007 3c00 fd00 00000000`
	second := `60000000 001c 2c40 ` + addresses + `2b00 0008 00000007 1100 0104 00000000 c000 03fd 000c 0000 beef5400`
	tunnelled := `60000000 0038 2940 ` + addresses + first
	b := made(t, border.Config{Enabled: true})
	o := rocev2.DecodeOptions{Link: rocev2.LinkIP}
	require.Equal(t, node.Decision{Action: node.ActionDropped, Packet: message.KindError, Message: message.KindError},
		receive(b, wiretest.Hex(t, first), o))
	require.Equal(t, node.Decision{}, receive(b, wiretest.Hex(t, second), o))
	require.Equal(t, node.Decision{Action: node.ActionDropped, Packet: message.KindError, Message: message.KindError},
		receive(b, wiretest.Hex(t, tunnelled), o))
	require.Equal(t, map[node.Count]uint64{{Action: node.ActionDropped, Message: message.KindError}: 2, {}: 1},
		maps.Collect(b.Counters().All()))
	off := made(t, border.Config{})
	require.Equal(t, node.Decision{Action: node.ActionRefused, Packet: message.KindError, Reason: node.ReasonDisabled},
		receive(off, wiretest.Hex(t, first), o))
}

// With such ports no RoCEv2 could cross, or one kind of message would count as the other.
func TestConfigure(t *testing.T) {
	for _, ports := range []filter.Border{
		{FCNPort: rocev2.Port}, {ProxyPort: rocev2.Port}, {FCNPort: 7, ProxyPort: 7},
	} {
		_, err := border.New(border.Config{Border: ports})
		require.NoError(t, err, "a role that is off needs no other setting")
		b, err := border.New(border.Config{Enabled: true, Border: ports})
		require.ErrorIs(t, err, rocecn.ErrRange)
		require.Nil(t, b)
	}
}

func TestAllocs(t *testing.T) {
	b := made(t, border.Config{Enabled: true})
	packets := wiretest.Capture(t, "messages.pcap")
	wiretest.NoAllocs(t, "Receive", func() {
		for i := range packets {
			receive(b, packets[i].Data, rocev2.DecodeOptions{})
		}
	})
}

func BenchmarkReceive(b *testing.B) {
	border := made(b, border.Config{Enabled: true})
	packets := wiretest.Capture(b, "messages.pcap")
	for _, c := range []struct {
		name  string
		frame []byte
	}{{"data", packets[0].Data}, {"fastcnp", packets[4].Data}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				receive(border, c.frame, rocev2.DecodeOptions{})
			}
		})
	}
}

// Tunnels that a border cannot look into pass, unless DropTunnels is set.
func TestOpaqueTunnels(t *testing.T) {
	esp := wiretest.Hex(t, `6000000000103240 20010db8000000000000000000000001 20010db8000000000000000000000002`+
		`0000000100000001 0000000000000000`)
	for _, c := range []struct {
		name          string
		enabled, drop bool
		want          node.Action
	}{
		{"off", false, true, node.NoAction}, {"pass", true, false, node.NoAction},
		{"drop", true, true, node.ActionDropped},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := wiretest.Must(border.New(border.Config{Enabled: c.enabled,
				Border: filter.Border{DropTunnels: c.drop}}))(t)
			var f rocev2.Frame
			f.Decode(esp, rocev2.DecodeOptions{Link: rocev2.LinkIP})
			_, d := b.Receive(nil, &f, node.Event{})
			require.Equal(t, c.want, d.Action)
		})
	}
}
