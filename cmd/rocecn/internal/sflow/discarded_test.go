package sflow

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// discardsByHand is a datagram put together word by word from sflow_drops.txt, section 2, and sflow_transit.txt: a
// discarded packet with all records of this package, one record of another kind, a flow sample with a delay, and a
// sample of an unknown format (enterprise 4413, format 1).
func discardsByHand(t testing.TB) []byte {
	return wiretest.Hex(t, `
		00000005 00000001 c00002fa 00000000 00000016 000055f0 00000003
		00000005 000000ac 00000007 00000000 0000000b 00000002 0000000b 0000000c 00000103 00000007
			00000001 00000018 00000001 00000046 00000004 00000006 aabbccdd eeff0000
			0000040c 00000004 00000003
			0000040f 00000004 ffffffff
			00000410 00000004 0007a120
			00000411 00000020 0000000c 62756666 65725f64 726f7073 00000009 7461696c 5f64726f 70000000
			00000412 0000000c 00000007 4e4f5f54 45535400
			0000040d 00000004 00000001
		00000001 0000002c 00000064 02000011 00000400 00010000 00000003 00000011 80000012 00000001
			0000040f 00000004 000003e8
		01 13d001 00000004 deadbeef`)
}

func TestDiscardsByHand(t *testing.T) {
	_, got, err := all(discardsByHand(t))
	require.NoError(t, err)
	require.Equal(t, []Sample{
		{Format: 5, SourceIndex: 11, Sequence: 7, Drops: 2, Output: 12, Discarded: true, Reason: 259,
			Header: wiretest.Hex(t, "aabbccddeeff"), Options: rocev2.DecodeOptions{AllowTruncated: true},
			Transit: Transit{Queue: 3, Delay: 1<<32 - 1, Depth: 500_000, HasQueue: true, HasDelay: true, HasDepth: true,
				TrapGroup: []byte("buffer_drops"), Trap: []byte("tail_drop"), LinuxReason: []byte("NO_TEST")}},
		{Format: 1, SourceType: 2, SourceIndex: 17, Sequence: 100, Rate: 1024, Drops: 3, // several egress ports
			Transit: Transit{Delay: 1000, HasDelay: true}},
		{Format: 4413<<12 | 1, Unknown: true},
	}, got)
}

// A record that is too short, and a name that exceeds its record, are errors.
func TestBrokenRecords(t *testing.T) {
	b := discardsByHand(t)
	for _, row := range []struct {
		name string
		at   int // of the length in the datagram
		n    uint32
	}{
		{"sample", 32, 0xa8}, {"header", 72, 0x1c}, {"queue", 104, 0}, {"delay", 116, 0}, {"depth", 128, 0},
		{"group", 144, 0x21}, {"trap", 160, 13}, {"reason", 184, 9},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := slices.Clone(b)
			binary.BigEndian.PutUint32(c[row.at:], row.n)
			_, samples, err := all(c)
			require.ErrorIs(t, err, ErrLength)
			require.Empty(t, samples)
		})
	}
	for n := range b {
		_, _, err := all(b[:n:n])
		require.ErrorIs(t, err, ErrLength, n)
	}
}

func TestVersion4(t *testing.T) {
	_, _, err := all(wiretest.Hex(t, "00000004 00000001 c0000201 00000001 000003e8 00000000"))
	require.ErrorIs(t, err, ErrVersion4)
}

// The names and numbers are those of drop_reason in sflow_drops.txt.
func TestDropReasons(t *testing.T) {
	for _, row := range []struct {
		reason DropReason
		want   string
	}{
		{0, "net_unreachable"}, {3, "port_unreachable"}, {13, "comm_admin_prohibited"}, {15, "precedence_cutoff"},
		{16, "reason_16"}, {255, "reason_255"}, {256, "unknown"}, {257, "ttl_exceeded"}, {258, "acl"},
		{259, "no_buffer_space"}, {260, "red"}, {261, "traffic_shaping"}, {262, "pkt_too_big"},
		{269, "blackhole_route"}, {279, "unresolved_neigh"}, {287, "unknown_buffer"}, {289, "unknown_l4"},
		{296, "mc_dmac_mismatch"}, {303, "split_horizon"}, {304, "reason_304"}, {1<<32 - 1, "reason_4294967295"},
	} {
		t.Run(row.want, func(t *testing.T) { require.Equal(t, row.want, row.reason.String()) })
	}
}

// Each name of a reason is padded to a multiple of four octets.
func TestPaddingOfNames(t *testing.T) {
	const head = "00000005 00000001 c00002fa 00000000 00000016 000055f0 00000001 "
	const sample = " 00000007 00000000 0000000b 00000002 0000000b 0000000c 00000103 00000001 "
	for _, row := range []struct {
		name        string
		octets      string // length of the sample, and the record after the fields in sample
		group, trap string
	}{
		{"1 and 2", "00000038" + sample + "00000411 00000010 00000001 61000000 00000002 62620000", "a", "bb"},
		{"3 and 4", "00000038" + sample + "00000411 00000010 00000003 61616100 00000004 62626262", "aaa", "bbbb"},
		{"4 and 5", "0000003c" + sample + "00000411 00000014 00000004 61616161 00000005 62626262 62000000", "aaaa",
			"bbbbb"},
		{"0 and 1", "00000034" + sample + "00000411 0000000c 00000000 00000001 62000000", "", "b"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, got, err := all(wiretest.Hex(t, head+"00000005 "+row.octets))
			require.NoError(t, err)
			require.Len(t, got, 1)
			require.Equal(t, row.group, string(got[0].TrapGroup))
			require.Equal(t, row.trap, string(got[0].Trap))
		})
	}
}
