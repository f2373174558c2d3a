package wiretest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGoldenRowsAreTheCapturesPackets(t *testing.T) {
	for _, name := range Captures(t, "*.pcap") {
		t.Run(name, func(t *testing.T) {
			packets, rows := Capture(t, name), Golden(t, name)
			require.Len(t, rows, len(packets))
			for i, p := range packets {
				require.EqualValues(t, p.Number, rows[i].Uint("frame.number"))
				require.EqualValues(t, len(p.Data), rows[i].Uint("frame.cap_len"))
				require.EqualValues(t, p.OrigLen, rows[i].Uint("frame.len"))
			}
		})
	}
}

func TestRow(t *testing.T) {
	atomic := Golden(t, "rxe-verbs6.pcap")[86] // a CmpSwap
	require.EqualValues(t, 0x13, atomic.Uint("infiniband.bth.opcode"))
	require.EqualValues(t, 0x13, atomic.Octets("infiniband.bth")[0])
	require.True(t, atomic.Bool("infiniband.bth.a"))
	require.True(t, atomic.Has("infiniband.atomiceth"))
	require.False(t, atomic.Has("infiniband.aeth"))
	require.Empty(t, atomic.All("infiniband.aeth"))

	hops := Golden(t, "ioam-linux618-hpcc.pcap")[0]
	require.Equal(t, []string{"0x0000d4", "0x0000c3", "0x0000b2"}, hops.All("ipv6.opt.ioam.trace.node.id"))
	require.EqualValues(t, 0xD4, hops.Uint("ipv6.opt.ioam.trace.node.id"))

	require.Panics(t, func() { hops.Get("no.such.field") })
	require.Panics(t, func() { hops.Uint("infiniband.aeth.msn") })
	require.Panics(t, func() { hops.Octets("infiniband.aeth") })
}

func TestTsharkReadsFramesAsItReadsTheCapture(t *testing.T) {
	const name = "ioam-linux618-overflow.pcap"
	var frames [][]byte
	for _, p := range Capture(t, name) {
		frames = append(frames, p.Data)
	}
	for i, row := range Tshark(t, frames...) {
		golden := Golden(t, name)[i]
		for field := range golden.columns {
			if field != "frame.time_epoch" {
				require.Equal(t, golden.value(field), row.value(field), field)
			}
		}
	}
}
