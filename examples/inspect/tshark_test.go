package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Every packet between the two hosts with soft-RoCE: what tshark reads is what
// we print, and every ICRC is right but those of soft-RoCE's FLUSH.
func TestAgreesWithTshark(t *testing.T) {
	for _, capture := range wiretest.Captures(t, "rxe-*.pcap") {
		out, _, status := inspect(nil, "-json", wiretest.Path(t, capture))
		require.Zero(t, status)
		got, rows := lines(t, out), wiretest.Golden(t, capture)
		require.Len(t, got, len(rows), capture)
		for i, row := range rows {
			want := fromTshark(row)
			for key := range got[i] {
				if _, ok := want[key]; !ok && want["kind"] == "other" && (strings.HasPrefix(key, "ip.") || strings.HasPrefix(key, "udp.")) {
					delete(got[i], key) // may stand there
				}
			}
			delete(got[i], "bth.name") // tshark has names of its own
			require.Equal(t, want, got[i], "%s, frame %d", capture, i+1)
		}
	}
}

// fromTshark lays a row out as the line that it should give.
func fromTshark(r wiretest.Row) flat {
	f := flat{"frame": r.Get("frame.number"), "kind": "other"}
	seconds, fraction, _ := strings.Cut(r.Get("frame.time_epoch"), ".")
	s, _ := strconv.ParseInt(seconds, 10, 64)
	f["time"] = time.Unix(s, 0).UTC().Format("2006-01-02T15:04:05") + "." + fraction[:6] + "Z"
	if !r.Has("infiniband.bth") {
		return f
	}
	set := func(key, field string) { f[key] = r.Get(field) }
	number := func(key, field string) { f[key] = fmt.Sprint(r.Uint(field)) }
	flag := func(key, field string) { f[key] = fmt.Sprint(r.Bool(field)) }
	hexadecimal := func(key, field string, digits int) { f[key] = fmt.Sprintf("0x%0*x", digits, r.Uint(field)) }

	set("ip.version", "ip.version")
	if r.Has("ipv6.version") {
		set("ip.src", "ipv6.src")
		set("ip.dst", "ipv6.dst")
		number("ip.dscp", "ipv6.tclass.dscp")
		number("ip.ecn", "ipv6.tclass.ecn")
		number("ip.hop_limit", "ipv6.hlim")
		number("ip.flow_label", "ipv6.flow")
	} else {
		set("ip.src", "ip.src")
		set("ip.dst", "ip.dst")
		number("ip.dscp", "ip.dsfield.dscp")
		number("ip.ecn", "ip.dsfield.ecn")
		number("ip.hop_limit", "ip.ttl")
	}
	set("udp.src", "udp.srcport")
	set("udp.dst", "udp.dstport")
	hexadecimal("udp.checksum", "udp.checksum", 4)

	opcode := r.Uint("infiniband.bth.opcode")
	hexadecimal("bth.opcode", "infiniband.bth.opcode", 2)
	flag("bth.se", "infiniband.bth.se")
	flag("bth.migreq", "infiniband.bth.m")
	number("bth.pad", "infiniband.bth.padcnt")
	number("bth.tver", "infiniband.bth.tver")
	hexadecimal("bth.pkey", "infiniband.bth.p_key", 4)
	octet4 := r.Octets("infiniband.reserved")[0]
	f["bth.fecn"] = fmt.Sprint(octet4&0x80 != 0)
	f["bth.becn"] = fmt.Sprint(octet4&0x40 != 0)
	f["bth.resv6"] = fmt.Sprint(octet4 & 0x3F)
	number("bth.dest_qp", "infiniband.bth.destqp")
	flag("bth.ackreq", "infiniband.bth.a")
	number("bth.resv7", "infiniband.bth.reserved7")
	number("bth.psn", "infiniband.bth.psn")
	f["kind"] = "data"
	if opcode == 0x11 || opcode == 0x12 {
		f["kind"] = "ack"
	}

	header := func(name string, present bool) bool {
		if present {
			f[name+".type"] = name
		}
		return present
	}
	if header("DETH", r.Has("infiniband.deth")) {
		hexadecimal("DETH.qkey", "infiniband.deth.q_key", 8)
		number("DETH.src_qp", "infiniband.deth.srcqp")
	}
	if header("RETH", r.Has("infiniband.reth")) {
		hexadecimal("RETH.va", "infiniband.reth.va", 16)
		hexadecimal("RETH.rkey", "infiniband.reth.r_key", 8)
		number("RETH.dma_len", "infiniband.reth.dmalen")
	}
	if header("AtomicETH", r.Has("infiniband.atomiceth")) {
		hexadecimal("AtomicETH.va", "infiniband.reth.va", 16)
		hexadecimal("AtomicETH.rkey", "infiniband.reth.r_key", 8)
		hexadecimal("AtomicETH.swap", "infiniband.atomiceth.swapdt", 16)
		hexadecimal("AtomicETH.compare", "infiniband.atomiceth.cmpdt", 16)
	}
	if header("AETH", r.Has("infiniband.aeth")) {
		number("AETH.syndrome", "infiniband.aeth.syndrome")
		number("AETH.msn", "infiniband.aeth.msn")
	}
	if header("AtomicAckETH", r.Has("infiniband.atomicacketh")) {
		hexadecimal("AtomicAckETH.original", "infiniband.atomicacketh.origremdt", 16)
	}
	if header("ImmDt", r.Has("infiniband.immdt")) {
		f["ImmDt.data"] = "0x" + r.Get("infiniband.immdt")
	}
	if header("IETH", r.Has("infiniband.ieth")) {
		f["IETH.rkey"] = "0x" + r.Get("infiniband.ieth")
	}

	f["icrc.ok"], f["icrc.coverage"] = "true", "as-sent"
	payload := uint64(0)
	if opcode == 0x1C || opcode == 0x1D {
		payload = unknownToTshark(f, r, opcode)
	} else {
		f["icrc.value"] = fmt.Sprintf("0x%08x", bits.ReverseBytes32(uint32(r.Uint("infiniband.invariant.crc"))))
		switch {
		case r.Has("infiniband.mad"):
			payload = 256
		case r.Has("data.len"):
			payload = r.Uint("data.len") - r.Uint("infiniband.bth.padcnt")
		}
	}
	f["payload_len"] = fmt.Sprint(payload)
	return f
}

// unknownToTshark reads FLUSH and ATOMIC WRITE out of the octets behind the
// BTH, as annex A19 has them, and returns the length of the payload.
func unknownToTshark(f flat, r wiretest.Row, opcode uint64) (payload uint64) {
	all := r.All("infiniband.vendor")
	b, err := hex.DecodeString(all[len(all)-1])
	if err != nil {
		panic(err)
	}
	f["icrc.value"] = fmt.Sprintf("0x%08x", binary.LittleEndian.Uint32(b[len(b)-4:]))
	if opcode == 0x1C {
		f["FETH.type"] = "FETH"
		f["FETH.selectivity"] = fmt.Sprint(b[3] >> 4 & 3)
		f["FETH.placement"] = fmt.Sprint(b[3] & 15)
		b = b[4:]
		f["icrc.ok"] = "false"
		delete(f, "icrc.coverage")
	}
	f["RETH.type"] = "RETH"
	f["RETH.va"] = fmt.Sprintf("0x%x", b[:8])
	f["RETH.rkey"] = fmt.Sprintf("0x%x", b[8:12])
	f["RETH.dma_len"] = fmt.Sprint(binary.BigEndian.Uint32(b[12:]))
	return uint64(len(b) - 16 - 4)
}
