package bth_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// columns has, for each field of tshark, its value in Headers and the header that
// contains it.
var columns = []struct {
	name  string
	in    bth.HeaderSet
	value func(*bth.Headers) string
}{
	{"bth.opcode", 0, func(h *bth.Headers) string { return fmt.Sprint(uint8(h.Opcode)) }},
	{"bth.se", 0, func(h *bth.Headers) string { return flag(h.Solicited) }},
	{"bth.m", 0, func(h *bth.Headers) string { return flag(h.MigReq) }},
	{"bth.padcnt", 0, func(h *bth.Headers) string { return fmt.Sprint(h.Pad) }},
	{"bth.tver", 0, func(h *bth.Headers) string { return fmt.Sprint(h.TVer) }},
	{"bth.p_key", 0, func(h *bth.Headers) string { return fmt.Sprint(h.PKey) }},
	{"bth.destqp", 0, func(h *bth.Headers) string { return fmt.Sprintf("0x%06x", h.DestQP) }},
	{"bth.a", 0, func(h *bth.Headers) string { return flag(h.AckReq) }},
	{"bth.reserved7", 0, func(h *bth.Headers) string { return fmt.Sprint(h.Resv7) }},
	{"bth.psn", 0, func(h *bth.Headers) string { return fmt.Sprint(h.PSN) }},
	{"deth.q_key", bth.HasDETH, func(h *bth.Headers) string { return fmt.Sprintf("0x%016x", h.DETH.QKey) }},
	{"deth.srcqp", bth.HasDETH, func(h *bth.Headers) string { return fmt.Sprintf("0x%08x", h.DETH.SrcQP) }},
	{"reth.dmalen", bth.HasRETH, func(h *bth.Headers) string { return fmt.Sprint(h.RETH.DMALength) }},
	{"atomiceth.swapdt", bth.HasAtomicETH,
		func(h *bth.Headers) string { return fmt.Sprint(h.AtomicETH.SwapAdd) }},
	{"atomiceth.cmpdt", bth.HasAtomicETH,
		func(h *bth.Headers) string { return fmt.Sprint(h.AtomicETH.Compare) }},
	{"aeth.syndrome", bth.HasAETH, func(h *bth.Headers) string { return fmt.Sprint(uint8(h.AETH.Syndrome)) }},
	{"aeth.msn", bth.HasAETH, func(h *bth.Headers) string { return fmt.Sprint(h.AETH.MSN) }},
	{"atomicacketh.origremdt", bth.HasAtomicAckETH,
		func(h *bth.Headers) string { return fmt.Sprint(h.AtomicAckETH.Original) }},
	{"immdt", bth.HasImmDt, func(h *bth.Headers) string { return fmt.Sprintf("%08x", h.ImmDt.Data) }},
	{"ieth", bth.HasIETH, func(h *bth.Headers) string { return fmt.Sprintf("%08x", h.IETH.RKey) }},

	// tshark gives the first two fields of the AtomicETH these names as well.
	{"reth.va", bth.HasRETH | bth.HasAtomicETH, func(h *bth.Headers) string {
		return fmt.Sprintf("0x%016x", h.RETH.VirtualAddress|h.AtomicETH.VirtualAddress)
	}},
	{"reth.r_key", bth.HasRETH | bth.HasAtomicETH, func(h *bth.Headers) string {
		return fmt.Sprintf("0x%08x", h.RETH.RKey|h.AtomicETH.RKey)
	}},
}

func flag(v bool) string {
	if v {
		return "1"
	}
	return "0"
}

// Every RoCEv2 packet of a real capture, with every operation of Linux soft-RoCE,
// decodes to the values of tshark and is encoded to the same octets.
func TestCaptureAgreesWithTshark(t *testing.T) {
	rows := wiretest.Golden(t, "rxe-verbs6.pcap")
	var h bth.Headers
	for i, p := range wiretest.Capture(t, "rxe-verbs6.pcap") {
		const ip, udp, start = 14, 14 + 40, 14 + 40 + 8 // IPv6 without extension headers
		isRoCE := len(p.Data) >= start && string(p.Data[12:14]) == "\x86\xdd" && p.Data[ip+6] == 17 &&
			string(p.Data[udp+2:udp+4]) == "\x12\xb7" // UDP destination port 4791
		require.Equal(t, rows[i].Has("infiniband.bth"), isRoCE, "frame %d", p.Number)
		if !isRoCE {
			continue
		}
		rest := wiretest.Must(h.Decode(p.Data[start:]))(t)
		require.NoError(t, h.Validate())
		wiretest.Encodes(t, p.Data[start:len(p.Data)-len(rest)], h.AppendBinary)
		if op := h.Opcode.Operation(); op == bth.OpFlush || op == bth.OpAtomicWrite {
			h.Present = 0 // tshark 4.0 does not know their extended headers
		}
		for _, row := range columns {
			t.Run(row.name, func(t *testing.T) {
				got := ""
				if row.in == 0 || h.Present&row.in != 0 {
					got = row.value(&h)
				}
				require.Equal(t, rows[i].Get("infiniband."+row.name), got, "frame %d %s", p.Number, row.name)
			})
		}
	}
}
