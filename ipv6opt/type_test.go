package ipv6opt

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTypeBits(t *testing.T) {
	for _, c := range []struct {
		typ       Type
		action    Action
		mayChange bool
		text      string
		meaning   string
	}{
		{0x00, ActionSkip, false, "Pad1", "skip"},
		{0x01, ActionSkip, false, "PadN", "skip"},
		{0x11, ActionSkip, false, "0x11", "skip"},
		{0x31, ActionSkip, true, "0x31", "skip"},
		{0x5E, ActionDiscard, false, "0x5e", "discard"},
		{0x9E, ActionDiscardICMP, false, "0x9e", "discard, send ICMP"},
		{0xC2, ActionDiscardICMPUnlessMulticast, false, "0xc2", "discard, send ICMP unless multicast"},
		{0xFE, ActionDiscardICMPUnlessMulticast, true, "0xfe", "discard, send ICMP unless multicast"},
	} {
		require.Equal(t, c.action, c.typ.Action(), c.text)
		require.Equal(t, c.mayChange, c.typ.MayChange(), c.text)
		require.Equal(t, c.typ < 2, c.typ.IsPadding(), c.text)
		require.Equal(t, c.text, c.typ.String())
		require.Equal(t, c.meaning, c.typ.Action().String())
	}
	require.Equal(t, "Action(4)", Action(4).String())
}
