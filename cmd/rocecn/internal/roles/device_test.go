package roles

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

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

	h.device = newDevicePairs([]DevicePair{
		{34, 17, there}, {35, 17, other}, {36, 18, netip.Addr{}}, {37, 19, netip.Addr{}}, {38, 19, netip.Addr{}},
		{39, 20, other}, {40, 20, netip.Addr{}},
	})
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
