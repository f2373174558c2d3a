package flows

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// connections are n connections between 256 pairs of hosts. Each of their messages has a packet that
// asks for an acknowledgement, one before it, and the acknowledgement.
type connections struct {
	psn    []uint32
	frame  uint64
	packet Packet
}

func newConnections(n int) *connections { return &connections{psn: make([]uint32, n)} }

// keyOf returns the key of a connection's requests, and the queue pair that sends them.
func (c *connections) keyOf(i int) (k key, srcQP uint32) {
	k = key{Src: mappedPrefix, Dst: mappedPrefix, QP: 0x200000 + uint32(i) | overIPv4}
	k.Src[12], k.Dst[12], k.Src[15], k.Dst[15] = 10, 11, byte(i), byte(i)
	return k, 0x100000 + uint32(i)
}

// send gives a message of a connection to tables.
func (c *connections) send(i int, tables ...*Table) {
	p := &c.packet
	k, srcQP := c.keyOf(i)
	for step := range 3 {
		*p = Packet{kind: requestKind}
		p.pkt.Flow, p.pkt.PSN, p.pkt.Opcode, p.pkt.SrcPort = k, c.psn[i], bth.RCSendOnly, 49152+uint16(i)
		switch step {
		case 0:
			c.psn[i] = bth.AddPSN(c.psn[i], 1)
		case 1:
			p.pkt.AckReq = true
		default:
			p.kind, p.pkt.Opcode, p.pkt.Flow = answerKind, bth.RCAcknowledge, k.Reversed(srcQP)
			c.psn[i] = bth.AddPSN(c.psn[i], 1)
		}
		c.frame++
		for _, t := range tables {
			t.Observe(p, c.frame, time.Unix(0, int64(c.frame)*60))
		}
	}
}

// All connections are paired, also if there are many, in any order, by a whole table and by shards.
func TestManyConnections(t *testing.T) {
	wiretest.Alone(t)
	const messages = 4
	for _, row := range []struct {
		name                    string
		n                       int
		randomOrder, randomPSNs bool
	}{
		{"3000 in turns from PSN 0", 3000, false, false},
		{"3000 in turns from random PSNs", 3000, false, true},
		{"3000 in random order from PSN 0", 3000, true, false},
		{"3000 in random order from random PSNs", 3000, true, true},
		{"20000 in turns from PSN 0", 20_000, false, false},
		{"20000 in random order from random PSNs", 20_000, true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(row.n), 1))
			c := newConnections(row.n)
			if row.randomPSNs {
				for i := range c.psn {
					c.psn[i] = r.Uint32N(1 << 24)
				}
			}
			whole, shards := New(Config{}), []*Table{New(Config{Shards: 2}), New(Config{Shards: 2, Shard: 1})}
			for range messages {
				turns := r.Perm(row.n)
				if !row.randomOrder {
					slices.Sort(turns)
				}
				for _, i := range turns {
					c.send(i, whole, shards[0], shards[1])
				}
			}
			require.Zero(t, whole.Stats().Unlearned)
			want := map[key]Flow{}
			for _, f := range whole.Snapshot().Flows {
				require.NotZero(t, f.SrcQPFrom, f.FlowKey)
				require.Equal(t, f.DestQP-0x100000, f.SrcQP)
				require.EqualValues(t, messages, f.ACKs)
				want[keyOf(f.FlowKey)] = f
			}
			require.Len(t, want, row.n)
			for _, shard := range shards {
				for _, f := range shard.Snapshot().Flows {
					require.Equal(t, want[keyOf(f.FlowKey)].SrcQP, f.SrcQP)
					require.Equal(t, want[keyOf(f.FlowKey)].Answers, f.Answers)
					delete(want, keyOf(f.FlowKey))
				}
			}
			require.Empty(t, want)
		})
	}
}

// Connections that take turns do not prevent one another from being paired when the tables for
// evidence are full, and the table reports that they were.
func TestFullTablesOfEvidence(t *testing.T) {
	wiretest.Alone(t)
	const n, size = 1000, 400
	table := New(Config{MaxFlows: size, Seed: 1})
	c := newConnections(n)
	for range 100 {
		for i := range n {
			c.send(i, table)
		}
	}
	require.NotZero(t, table.Stats().Unlearned)
	require.NotZero(t, table.pairs.Stats().Votes)
}
