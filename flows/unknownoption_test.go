package flows

import (
	"testing"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A Fast CNP with an option type that is not configured is not a CNP: its DestQP is that of the
// receiver, and may belong to another flow here.
func TestUnknownOption(t *testing.T) {
	n := fastcnp.Notification{
		Src: pe1, Dst: hostA, CNP: cnp.New(18, 0xFFFF), OptionType: 0x8E,
		Option: fastcnp.Option{Number: 1, OriginalDst: hostB},
	}
	b := wiretest.Must(n.AppendPacket(nil, fastcnp.Config{}))(t)
	var d Decoder
	var p Packet
	require.True(t, d.Decode(&p, b, rocev2.DecodeOptions{Link: rocev2.LinkIP}))
	require.Equal(t, fastKind, p.kind)
	require.NotZero(t, p.about.QP&withoutQP, "its flow is unknown")
	d.Config = message.Config{CodePoints: fastcnp.CodePoints{Option1: 0x8E, Option2: 0x8E}}
	require.True(t, d.Decode(&p, b, rocev2.DecodeOptions{Link: rocev2.LinkIP}))
	require.Equal(t, keyOf(rocev2.FlowKey{Src: hostA, Dst: hostB, DestQP: 18}), p.about)
}
