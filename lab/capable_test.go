package lab

import (
	"encoding/binary"
	"testing"

	"github.com/rocecn/rocecn/lab/sim"
	"github.com/stretchr/testify/require"
)

// half is an incast of eight hosts, of which the first four do not understand Fast CNPs.
func half(cfg Config, rejects bool) (*Network, *Port) {
	cfg.Incapable, cfg.Rejects = 4, rejects
	return incast(cfg, 8, 100*sim.Gbps, µs)
}

// Switches that know their senders send Fast CNPs to those that understand them, and mark the packets of the others,
// which receivers answer: every sender slows down, and none because of both.
func TestKnownSenders(t *testing.T) {
	n, out := half(dcqcn(FastCNP), true)
	n.Until(ms)
	require.NoError(t, n.Check())
	c := n.Counts()
	require.Positive(t, c.FastCNPs)
	require.Positive(t, c.Marked)
	require.Positive(t, c.CNPs)
	require.Zero(t, c.Ignored+c.Rejected)
	for i, f := range n.Flows() {
		require.NotEqual(t, sim.Never, f.FirstCut(), i)
		require.Equal(t, i >= 4, n.Hosts()[i].Capable())
		if i >= 4 { // a Fast CNP arrives before a CNP
			other := n.Flows()[i-4]
			require.Less(t, f.FirstCut()-f.Onset(), other.FirstCut()-other.Onset(), i)
		}
	}
	require.Less(t, out.Most(), int64(6_000_000))
}

// No sender can be told earlier than by the oracle, so it tells those as well that do not understand Fast CNPs.
func TestOracleTellsAll(t *testing.T) {
	n, _ := half(dcqcn(Oracle), false)
	n.Until(ms)
	require.NoError(t, n.Check())
	require.Zero(t, n.Counts().Marked+n.Counts().CNPs)
	for i, f := range n.Flows() {
		require.NotEqual(t, sim.Never, f.FirstCut(), i)
		require.Equal(t, f.Onset(), f.FirstCut(), i)
	}
}

// Switches that do not know their senders send Fast CNPs to all of them, and mark. A host that does not understand a
// Fast CNP may reject it: then a switch sends no second one after the rejection has arrived.
func TestUnknownSenders(t *testing.T) {
	n, _ := half(dcqcn(FastCNPMarks), false)
	n.Until(2 * ms)
	require.NoError(t, n.Check())
	silent := n.Counts()
	require.Greater(t, silent.Ignored, uint64(4))
	require.Zero(t, silent.Rejected)

	n, _ = half(dcqcn(FastCNPMarks), true)
	n.Until(2 * ms)
	require.NoError(t, n.Check())
	c := n.Counts()
	require.EqualValues(t, 4, c.Ignored, "one for each of them")
	require.EqualValues(t, 4, c.Rejected)
	require.Less(t, c.FastCNPs, silent.FastCNPs)
	for i, f := range n.Flows() {
		require.NotEqual(t, sim.Never, f.FirstCut(), i)
	}
}

// The message of a host that does not understand a Fast CNP has a right checksum, and quotes it whole.
func TestProblem(t *testing.T) {
	n, _ := half(dcqcn(FastCNPMarks), true)
	n.ready()
	from, to := n.Hosts()[0].role.addr, n.Switches()[0].role.addr
	for _, length := range []int{40, 41, 104, 1231, 1232, 2000} {
		quoted := make([]byte, length)
		for i := range quoted {
			quoted[i] = byte(i * 7)
		}
		b := n.problem(from, to, quoted, 40)
		require.LessOrEqual(t, len(b), 1280)
		require.Equal(t, quoted[:min(length, 1232)], b[48:])
		require.EqualValues(t, len(b)-40, binary.BigEndian.Uint16(b[4:]))
		require.Equal(t, []byte{4, 2}, b[40:42])
		require.Equal(t, []byte{0, 0, 0, 40}, b[44:48])
		// RFC 1071: the sum of all 16-bit words, pseudo-header and checksum included, is all ones.
		sum := uint64(len(b)-40) + 58
		padded := append(append([]byte{}, b[8:]...), make([]byte, len(b)%2)...)
		for i := 0; i < len(padded); i += 2 {
			sum += uint64(binary.BigEndian.Uint16(padded[i:]))
		}
		for sum > 0xFFFF {
			sum = sum>>16 + sum&0xFFFF
		}
		require.EqualValues(t, 0xFFFF, sum, length)
	}
}
