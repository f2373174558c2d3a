package sflow

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// byHand is a datagram put together word by word from the specification (sFlow version 5, section 5): a sample of
// counters, a compact flow sample and an expanded one.
func byHand(t testing.TB) []byte {
	return wiretest.Hex(t, `
		00000005 00000002 20010db8 00000000 00000000 00000007 00000009 0000002a 000003e8 00000003
		00000002 00000008 11111111 22222222
		00000001 0000004c 00000064 02000011 00000400 00010000 00000003 00000011 00000012 00000002
			000003e9 00000004 33333333
			00000001 00000018 00000001 00000046 00000004 00000006 aabbccdd eeff0000
		00000003 00000048 00000065 00000001 00000102 00000800 00020000 00000000 00000000 00000007 00000000 00000008
			00000001 00000001 00000014 0000000b 00000002 00000000 00000002 45000000`)
}

func TestByHand(t *testing.T) {
	b := byHand(t)
	var d Datagram
	require.NoError(t, d.Decode(b))
	require.Equal(t, netip.MustParseAddr("2001:db8::7"), d.Agent)
	require.EqualValues(t, []uint32{9, 42, 1000}, []uint32{d.SubAgent, d.Sequence, d.Uptime})
	var s Sample
	ok := wiretest.Must(d.Next(&s))(t)
	require.True(t, ok)
	require.Equal(t, Sample{Format: 1, SourceType: 2, SourceIndex: 17, Sequence: 100, Rate: 1024, Drops: 3, Output: 18,
		Header: wiretest.Hex(t, "aabbccddeeff"), Options: rocev2.DecodeOptions{AllowTruncated: true}}, s)
	ok = wiretest.Must(d.Next(&s))(t)
	require.True(t, ok)
	require.Equal(t, Sample{Format: 3, SourceType: 1, SourceIndex: 258, Sequence: 101, Rate: 2048, Output: 8,
		Header: wiretest.Hex(t, "4500"), Options: rocev2.DecodeOptions{Link: rocev2.LinkIP}}, s)
	ok = wiretest.Must(d.Next(&s))(t)
	require.False(t, ok)
}

// all reads all samples.
func all(b []byte) (d Datagram, samples []Sample, err error) {
	if err = d.Decode(b); err != nil {
		return d, nil, err
	}
	for {
		var s Sample
		ok, err := d.Next(&s)
		if !ok {
			return d, samples, err
		}
		samples = append(samples, s)
	}
}

// A datagram that is truncated anywhere, or has a length beyond its end, is an error. The samples before are kept.
func TestBroken(t *testing.T) {
	b := byHand(t)
	for n := range b {
		_, samples, err := all(b[:n:n])
		require.ErrorIs(t, err, ErrLength, n)
		want := 0
		if n >= 40+16+8+76 {
			want = 1
		}
		require.Len(t, samples, want, n)
	}
	for _, row := range []struct {
		at   int
		want error
	}{{0, ErrVersion}, {4, ErrAgent}} {
		t.Run(fmt.Sprint(row.at), func(t *testing.T) {
			c := slices.Clone(b)
			c[row.at+3] = 9
			_, _, err := all(c)
			require.ErrorIs(t, err, row.want)
		})
	}
	lengths := []int{36, 44, 60, 92, 100, 112, 128} // counts and lengths of samples, records, headers
	for _, at := range lengths {
		for _, n := range []uint32{1<<32 - 1, 1<<32 - 4, 1 << 31, 0x7000} {
			c := slices.Clone(b)
			binary.BigEndian.PutUint32(c[at:], n)
			_, samples, err := all(c)
			require.ErrorIs(t, err, ErrLength, "%d at %d", n, at)
			require.LessOrEqual(t, len(samples), 2)
		}
	}
}

// Our values of the datagrams of Open vSwitch 3.1 are those of tshark.
func TestTshark(t *testing.T) {
	const sample = "sflow.flow_sample."
	var frames [][]byte
	for _, r := range wiretest.Capture(t, "sflow/ovs.pcap") {
		frames = append(frames, r.Data)
	}
	fields := []string{"sflow_245.agent", "sflow_245.sub_agent_id", "sflow_245.sequence_number", "sflow_245.sysuptime",
		sample + "sequence_number", sample + "source_id_class", sample + "index", sample + "sampling_rate",
		sample + "dropped_packets", "sflow_245.header"}
	rows := wiretest.TsharkAs(t, []string{"udp.port==6343,sflow"}, fields, frames...)
	samples := 0
	for i, frame := range frames {
		var u rocev2.Datagram
		require.NoError(t, u.Decode(frame, rocev2.DecodeOptions{}, Port))
		d, got, err := all(u.Data)
		require.NoError(t, err)
		row := rows[i]
		require.Equal(t, row.Get(fields[0]), d.Agent.String())
		require.EqualValues(t, []uint64{row.Uint(fields[1]), row.Uint(fields[2]), row.Uint(fields[3])},
			[]uint64{uint64(d.SubAgent), uint64(d.Sequence), uint64(d.Uptime)})
		var columns [5][]string
		var headers []string
		for _, s := range got {
			for j, n := range []uint32{s.Sequence, s.SourceType, s.SourceIndex, s.Rate, s.Drops} {
				columns[j] = append(columns[j], strconv.FormatUint(uint64(n), 10))
			}
			headers = append(headers, hex.EncodeToString(s.Header))
		}
		for j := range columns {
			require.Equal(t, strings.Join(row.All(fields[4+j]), ","), strings.Join(columns[j], ","), fields[4+j])
		}
		for j, with := range row.All("sflow_245.header") { // tshark shows the padding, too
			require.True(t, strings.HasPrefix(with, headers[j]), with)
			require.Equal(t, (len(headers[j])+7)/8*8, len(with))
		}
		require.Len(t, row.All("sflow_245.header"), len(headers))
		samples += len(got)
	}
	require.Equal(t, 62, samples)
}

func TestNoAllocations(t *testing.T) {
	b, discards := byHand(t), discardsByHand(t)
	wiretest.NoAllocs(t, "datagrams", func() {
		for _, octets := range [][]byte{b, b[:len(b)-3], discards, discards[:183]} {
			var d Datagram
			if d.Decode(octets) == nil {
				var s Sample
				for ok := true; ok; {
					ok, _ = d.Next(&s)
				}
			}
		}
	})
}

// For any input, no sample is longer than the datagram, and the number of samples is limited by its length.
func FuzzDatagram(f *testing.F) {
	f.Add(byHand(f))
	f.Add(discardsByHand(f))
	for _, r := range wiretest.Capture(f, "sflow/ovs.pcap") {
		f.Add(r.Data[42:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, samples, _ := all(b)
		octets := 0
		for _, s := range samples {
			octets += 8
			if !s.Unknown {
				octets += 32 + len(s.Header) + len(s.TrapGroup) + len(s.Trap) + len(s.LinuxReason)
			}
			for _, aliased := range [][]byte{s.Header, s.TrapGroup, s.Trap, s.LinuxReason} {
				require.Equal(t, len(aliased), cap(aliased))
			}
			require.NotEmpty(t, s.Reason.String())
		}
		require.LessOrEqual(t, octets, len(b))
	})
}
