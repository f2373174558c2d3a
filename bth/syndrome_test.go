package bth_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
)

// The RNR NAK timers in units of 10 µs, by code (IBTA table 45).
var timers = [32]time.Duration{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// The credits of an ACK, by code; code 31 means no end-to-end flow control.
var credits = [31]int{
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
}

// Each of the 256 syndromes has one type, and only the values of that type.
func TestSyndrome(t *testing.T) {
	for i := range 256 {
		s := bth.Syndrome(i)
		kind := bth.SyndromeReserved
		var count int
		var counted, nak bool
		var timer time.Duration
		var code bth.NAKCode
		switch {
		case i < 0x1f:
			kind, count, counted = bth.SyndromeACK, credits[i], true
		case i == 0x1f:
			kind = bth.SyndromeACK
		case 0x20 <= i && i < 0x40:
			kind, timer = bth.SyndromeRNRNAK, timers[i-0x20]*10*time.Microsecond
		case 0x60 <= i && i < 0x80:
			kind, code, nak = bth.SyndromeNAK, bth.NAKCode(i-0x60), true
		}
		require.Equal(t, kind, s.Type(), "%#x", i)
		n, ok := s.Credits()
		require.Equal(t, count, n, "%#x", i)
		require.Equal(t, counted, ok, "%#x", i)
		require.Equal(t, timer, s.Timer(), "%#x", i)
		c, ok := s.Code()
		require.Equal(t, code, c, "%#x", i)
		require.Equal(t, nak, ok, "%#x", i)
	}
}

func TestSyndromeString(t *testing.T) {
	for _, c := range []struct {
		s    bth.Syndrome
		want string
	}{
		{0x00, "ACK credits 0"},
		{0x1e, "ACK credits 32768"},
		{0x1f, "ACK"},
		{0x20, "RNR NAK 655.36ms"},
		{0x21, "RNR NAK 10µs"},
		{0x3f, "RNR NAK 491.52ms"},
		{0x40, "reserved 0x40"},
		{0x60, "NAK PSN sequence"},
		{0x61, "NAK invalid request"},
		{0x62, "NAK remote access"},
		{0x63, "NAK remote operational"},
		{0x64, "NAK invalid RD request"},
		{0x65, "NAK NAKCode(5)"},
		{0x80, "reserved 0x80"},
		{0xe0, "reserved 0xe0"},
	} {
		t.Run(fmt.Sprint(c.s), func(t *testing.T) { require.Equal(t, c.want, c.s.String()) })
	}
	require.Equal(t, "NAK", bth.SyndromeNAK.String())
	require.Equal(t, "SyndromeType(4)", bth.SyndromeType(4).String())
}
