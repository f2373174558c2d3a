package rocev2_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// Packet.Outer of a message that Decode found in a tunnel of any kind is not empty, so that a host can ignore it, and
// no answer is allowed. Link, Outer and IP follow each other.
func TestMessagesInTunnels(t *testing.T) {
	rocev2.Flows(t, func(name string, frame []byte, roce, tunnelled bool) {
		t.Run(name, func(t *testing.T) {
			var m message.Message
			err := m.Decode(frame, rocev2.DecodeOptions{}, message.Config{SkipVerify: true})
			require.Equal(t, roce, err == nil)
			require.Equal(t, roce, m.Kind != message.KindOther)
			if !roce {
				return
			}
			p := &m.Packet
			require.Equal(t, tunnelled, len(p.Outer) > 0)
			require.Equal(t, frame, slices.Concat(p.Link, p.Outer, p.IP))
			if m.Kind == message.KindData {
				require.Equal(t, tunnelled, errors.Is(p.MayAnswer(), rocev2.ErrTunnelled))
			}
		})
	})
}
