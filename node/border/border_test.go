package border_test

import (
	"testing"

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
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		cfg  border.Config
		want border.Stats
	}{
		{border.Config{}, border.Stats{Disabled: 23, Other: 1}},
		{border.Config{Border: filter.Border{CNP: true, PPFC: true}}, border.Stats{Disabled: 23, Other: 1}},
		{border.Config{Enabled: true}, border.Stats{FastCNP: 5, FCN: 3, Proxy: 3, Passed: 12, Other: 1}},
		{border.Config{Enabled: true, Border: filter.Border{CNP: true}}, border.Stats{FastCNP: 5, FCN: 3, Proxy: 3, CNP: 3, Passed: 9, Other: 1}},
		{border.Config{Enabled: true, Border: filter.Border{PPFC: true}}, border.Stats{FastCNP: 5, FCN: 3, Proxy: 3, PPFC: 5, Passed: 7, Other: 1}},
	} {
		b := border.New(c.cfg)
		for _, p := range wiretest.Capture(t, "messages.pcap") {
			v := b.Judge(p.Data, rocev2.DecodeOptions{})
			require.False(t, v.Drop && !c.cfg.Enabled)
			require.Equal(t, !c.cfg.Enabled && v.Kind != message.Other, v.Reason == node.Disabled)
		}
		require.Equal(t, c.want, b.Stats(), "%+v", c.cfg)
	}
}

// Of a message in two fragments, the first without its UDP header, the first is
// dropped, and counted, in a tunnel as well.
func TestJudgeFragments(t *testing.T) {
	const addresses = `20010db8000000000000000000000001 20010db8000000000000000000000002`
	first := `60000000 0010 2c40 ` + addresses + `2b00 0001 00000007 3c00 fd00 00000000`
	second := `60000000 001c 2c40 ` + addresses + `2b00 0008 00000007 1100 0104 00000000 c000 03fd 000c 0000 beef5400`
	tunnelled := `60000000 0038 2940 ` + addresses + first
	b := border.New(border.Config{Enabled: true})
	o := rocev2.DecodeOptions{Link: rocev2.LinkIP}
	require.Equal(t, border.Verdict{Kind: message.Broken, Drop: true}, b.Judge(wiretest.Hex(t, first), o))
	require.Equal(t, border.Verdict{}, b.Judge(wiretest.Hex(t, second), o))
	require.Equal(t, border.Verdict{Kind: message.Broken, Drop: true}, b.Judge(wiretest.Hex(t, tunnelled), o))
	require.Equal(t, border.Stats{Broken: 2, Other: 1}, b.Stats())
	off := border.New(border.Config{})
	require.Equal(t, border.Verdict{Kind: message.Broken, Reason: node.Disabled}, off.Judge(wiretest.Hex(t, first), o))
}

func TestAllocs(t *testing.T) {
	b := border.New(border.Config{Enabled: true})
	packets := wiretest.Capture(t, "messages.pcap")
	wiretest.NoAllocs(t, "Judge", func() {
		for i := range packets {
			b.Judge(packets[i].Data, rocev2.DecodeOptions{})
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	border := border.New(border.Config{Enabled: true})
	packets := wiretest.Capture(b, "messages.pcap")
	for _, c := range []struct {
		name  string
		frame []byte
	}{{"data", packets[0].Data}, {"fastcnp", packets[4].Data}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				border.Judge(c.frame, rocev2.DecodeOptions{})
			}
		})
	}
}
