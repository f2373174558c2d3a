package fastcnp

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

func FuzzOption(f *testing.F) {
	a := receiver.As16()
	f.Add(a[:])
	f.Add(option2Data(0, 0, 0, 1, 1<<3, 0, 0x80, 0, 0, 0, 64, 0, 0, 9))
	f.Fuzz(func(t *testing.T, b []byte) {
		var o Option
		if err := o.Decode(b); err != nil {
			require.Equal(t, Option{}, o)
			return
		}
		for range o.Trace.Nodes() {
		}
		out, err := o.AppendBinary(nil)
		if len(b) > 255 { // no Opt Data Len can say so
			require.ErrorIs(t, err, ErrTooLong)
			return
		}
		require.NoError(t, err)
		require.Equal(t, b, out)
	})
}

// FuzzPacket takes any IP packet: a Fast CNP that decodes is built again from
// its fields and decodes to the same; any other RoCEv2 packet over IPv6 gets a
// Fast CNP, which decodes.
func FuzzPacket(f *testing.F) {
	f.Add(build(f, 60, wiretest.Hex(f, option1Header)))
	f.Add(congested(f, 0, hopByHop(f, trace(1, 4, 2))).IP)
	f.Add(congested(f, 0, nil).IP)
	f.Fuzz(func(t *testing.T, b []byte) {
		var p rocev2.Packet
		if p.DecodeIP(b) != nil {
			return
		}
		n, err := FromPacket(&p)
		if err == nil {
			_ = n.Validate()
			for range n.Option.Trace.Nodes() {
			}
		} else {
			require.Equal(t, Notification{}, n)
			out, err := AppendFor(nil, &p, Config{Source: loopback, Long: FallBack})
			if p.Src.Is4() {
				require.ErrorIs(t, err, ErrIPv4)
				return
			}
			require.NoError(t, err)
			require.NoError(t, p.DecodeIP(out))
			n, err = FromPacket(&p)
			require.NoError(t, err)
		}
		out, err := n.AppendPacket(nil, rocev2.Carriage{})
		require.NoError(t, err)
		var q rocev2.Packet
		require.NoError(t, q.DecodeIP(out))
		again, err := FromPacket(&q)
		require.NoError(t, err)
		n.Offset, again.Offset = 0, 0
		require.Equal(t, n, again)
	})
}

func FuzzFromICMP(f *testing.F) {
	f.Add(problem(2, 42, build(f, 60, wiretest.Hex(f, option1Header))))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := FromICMP(b)
		if err != nil {
			require.Equal(t, Notification{}, n)
			return
		}
		require.Equal(t, DefaultType, n.OptionType)
	})
}
