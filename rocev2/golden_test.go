package rocev2

import (
	"encoding/hex"
	"fmt"
	"math/bits"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Every field of every packet in the soft-RoCE captures has the value that tshark prints (testdata/tshark/README.md).
func TestGolden(t *testing.T) {
	for _, name := range wiretest.Captures(t, "rxe-*.pcap") {
		t.Run(name, func(t *testing.T) {
			rows := wiretest.Golden(t, name)
			packets := wiretest.Capture(t, name)
			require.Len(t, rows, len(packets))
			var p Packet
			for i, c := range packets {
				row := rows[i]
				err := p.Decode(c.Data, DecodeOptions{AllowTruncated: len(c.Data) < c.OrigLen})
				if !row.Has("infiniband.bth") {
					require.ErrorIs(t, err, ErrNotRoCEv2, "frame %d", c.Number)
					continue
				}
				require.NoError(t, err, "frame %d", c.Number)
				require.Equal(t, tsharkIP(row), ourIP(&p), "frame %d", c.Number)
				require.Equal(t, tsharkTransport(row), ourTransport(&p), "frame %d", c.Number)
			}
		})
	}
}

type fields map[string]any

func tsharkIP(r wiretest.Row) fields {
	f := fields{
		"sport": r.Uint("udp.srcport"), "dport": r.Uint("udp.dstport"), "length": r.Uint("udp.length"),
		"checksum": r.Uint("udp.checksum"),
	}
	if r.Has("ipv6.src") {
		f["src"], f["dst"] = r.Get("ipv6.src"), r.Get("ipv6.dst")
		f["dscp"], f["ecn"] = r.Uint("ipv6.tclass.dscp"), r.Uint("ipv6.tclass.ecn")
		f["hops"], f["flow"], f["id"], f["flags"] = r.Uint("ipv6.hlim"), r.Uint("ipv6.flow"), uint64(0), uint64(0)
	} else {
		f["src"], f["dst"] = r.Get("ip.src"), r.Get("ip.dst")
		f["dscp"], f["ecn"] = r.Uint("ip.dsfield.dscp"), r.Uint("ip.dsfield.ecn")
		f["hops"], f["flow"], f["id"], f["flags"] = r.Uint("ip.ttl"), uint64(0), r.Uint("ip.id"), r.Uint("ip.flags")
	}
	return f
}

func ourIP(p *Packet) fields {
	return fields{
		"sport": uint64(p.SrcPort), "dport": uint64(p.DstPort), "length": uint64(p.Length),
		"checksum": uint64(p.Checksum),
		"src":      p.Src.String(), "dst": p.Dst.String(), "dscp": uint64(p.DSCP()), "ecn": uint64(p.ECN()),
		"hops": uint64(p.HopLimit), "flow": uint64(p.FlowLabel), "id": uint64(p.ID), "flags": uint64(p.Flags),
	}
}

// unknownToTshark reports whether tshark 4.0 decodes only the BTH of this operation.
func unknownToTshark(op bth.Opcode) bool { return op == bth.RCFlush || op == bth.RCAtomicWrite }

func tsharkTransport(r wiretest.Row) fields {
	f := fields{
		"opcode": r.Uint("infiniband.bth.opcode"), "se": r.Bool("infiniband.bth.se"),
		"migreq": r.Bool("infiniband.bth.m"),
		"pad":    r.Uint("infiniband.bth.padcnt"), "tver": r.Uint("infiniband.bth.tver"),
		"pkey":    r.Uint("infiniband.bth.p_key"),
		"octet 4": uint64(r.Octets("infiniband.reserved")[0]), "qp": r.Uint("infiniband.bth.destqp"),
		"ack":   r.Bool("infiniband.bth.a"),
		"resv7": r.Uint("infiniband.bth.reserved7"), "psn": r.Uint("infiniband.bth.psn"),
	}
	if unknownToTshark(bth.Opcode(r.Uint("infiniband.bth.opcode"))) {
		all := r.All("infiniband.vendor")
		f["after the BTH"] = all[len(all)-1]
		return f
	}
	f["icrc"] = r.Uint("infiniband.invariant.crc")
	f["payload"] = uint64(0)
	if r.Has("data.len") {
		f["payload"] = r.Uint("data.len")
	}
	if r.Has("infiniband.mad") {
		f["payload"] = uint64(256) // tshark does not print the length of a MAD, which is always 256
	}
	for _, name := range []string{
		"infiniband.deth.q_key", "infiniband.deth.srcqp",
		"infiniband.reth.va", "infiniband.reth.r_key", "infiniband.reth.dmalen",
		"infiniband.atomiceth.swapdt", "infiniband.atomiceth.cmpdt",
		"infiniband.aeth.syndrome", "infiniband.aeth.msn", "infiniband.atomicacketh.origremdt",
	} {
		if r.Has(name) {
			f[name] = r.Uint(name)
		}
	}
	for _, name := range []string{"infiniband.immdt", "infiniband.ieth"} {
		if r.Has(name) {
			f[name] = hex.EncodeToString(r.Octets(name))
		}
	}
	return f
}

func ourTransport(p *Packet) fields {
	h := &p.BTH
	f := fields{
		"opcode": uint64(h.Opcode), "se": h.Solicited, "migreq": h.MigReq, "pad": uint64(h.Pad), "tver": uint64(h.TVer),
		"pkey": uint64(h.PKey), "octet 4": uint64(h.Resv6), "qp": uint64(h.DestQP), "ack": h.AckReq,
		"resv7": uint64(h.Resv7),
		"psn":   uint64(h.PSN),
	}
	if h.FECN {
		f["octet 4"] = f["octet 4"].(uint64) | 0x80
	}
	if h.BECN {
		f["octet 4"] = f["octet 4"].(uint64) | 0x40
	}
	if unknownToTshark(h.Opcode) {
		b, err := h.AppendBinary(nil)
		if err != nil {
			panic(err)
		}
		b = append(append(b[bth.Size:], p.Payload...), p.Padding...)
		f["after the BTH"] = hex.EncodeToString(le.AppendUint32(b, p.ICRC))
		return f
	}
	f["icrc"] = uint64(bits.ReverseBytes32(p.ICRC))
	f["payload"] = uint64(p.PayloadLen() + len(p.Padding))
	for header := range h.Present.All() {
		switch header {
		case bth.HasDETH:
			f["infiniband.deth.q_key"], f["infiniband.deth.srcqp"] = uint64(h.DETH.QKey), uint64(h.DETH.SrcQP)
		case bth.HasRETH:
			f["infiniband.reth.va"], f["infiniband.reth.r_key"], f["infiniband.reth.dmalen"] = h.RETH.VirtualAddress,
				uint64(h.RETH.RKey), uint64(h.RETH.DMALength)
		case bth.HasAtomicETH:
			f["infiniband.reth.va"], f["infiniband.reth.r_key"] = h.AtomicETH.VirtualAddress, uint64(h.AtomicETH.RKey)
			f["infiniband.atomiceth.swapdt"], f["infiniband.atomiceth.cmpdt"] = h.AtomicETH.SwapAdd, h.AtomicETH.Compare
		case bth.HasAETH:
			f["infiniband.aeth.syndrome"], f["infiniband.aeth.msn"] = uint64(h.AETH.Syndrome), uint64(h.AETH.MSN)
		case bth.HasAtomicAckETH:
			f["infiniband.atomicacketh.origremdt"] = h.AtomicAckETH.Original
		case bth.HasImmDt:
			f["infiniband.immdt"] = fmt.Sprintf("%08x", h.ImmDt.Data)
		case bth.HasIETH:
			f["infiniband.ieth"] = fmt.Sprintf("%08x", h.IETH.RKey)
		default:
			f["unexpected"] = header
		}
	}
	return f
}
