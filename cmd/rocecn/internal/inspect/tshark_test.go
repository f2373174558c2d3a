package inspect

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

// Our values of each packet between the two hosts with soft-RoCE are those of tshark. Each ICRC is right, except those
// of soft-RoCE's FLUSH.
func TestAgreesWithTshark(t *testing.T) {
	for _, capture := range wiretest.Captures(t, "rxe-*.pcap") {
		out, _, status := inspect(nil, "-json", wiretest.Path(t, capture))
		require.Zero(t, status)
		got, rows := lines(t, out), wiretest.Golden(t, capture)
		require.Len(t, got, len(rows), capture)
		for i, row := range rows {
			want := fromTshark(row)
			for key := range got[i] {
				if _, ok := want[key]; !ok && want["kind"] == "other" &&
					(strings.HasPrefix(key, "ip.") || strings.HasPrefix(key, "udp.")) {
					delete(got[i], key) // may stand there
				}
			}
			delete(got[i], "bth.name") // tshark has names of its own
			require.Equal(t, want, got[i], "%s, frame %d", capture, i+1)
		}
	}
}

// tshark decodes the headers before a notification: up to the BTH if there is one, otherwise up to the UDP header.
func TestNotificationsAgreeWithTshark(t *testing.T) {
	compared := map[string]int{}
	for _, capture := range []string{"fastcnp.pcap", "messages.pcap"} {
		out, _, _ := inspect(nil, "-json", wiretest.Path(t, capture))
		got, rows := lines(t, out), wiretest.Golden(t, capture)
		require.Len(t, got, len(rows), capture)
		for i, row := range rows {
			want := tsharkLine{flat{}, row}
			want.frame()
			want.datagram()
			if got[i]["bth.opcode"] != "" {
				want.bth()
			}
			for key, value := range want.flat {
				require.Equal(t, value, got[i][key], "%s, frame %d, %s", capture, i+1, key)
			}
			require.Contains(t, []string{"1", "3"}, row.Get("udp.checksum.status"))
			compared[got[i]["kind"]]++
		}
	}
	require.Equal(t, map[string]int{
		"data": 1, "ack": 1, "cnp": 2, "fastcnp": 22, "ppfc": 4, "fcn": 2, "proxy": 2, "other": 1, "error": 7,
	}, compared)
}

// A tsharkLine is the line that a row should give.
type tsharkLine struct {
	flat
	wiretest.Row
}

func (l tsharkLine) set(key, field string)    { l.flat[key] = l.Get(field) }
func (l tsharkLine) number(key, field string) { l.flat[key] = fmt.Sprint(l.Uint(field)) }
func (l tsharkLine) flag(key, field string)   { l.flat[key] = fmt.Sprint(l.Bool(field)) }
func (l tsharkLine) hexadecimal(key, field string, digits int) {
	l.flat[key] = fmt.Sprintf("0x%0*x", digits, l.Uint(field))
}

// fromTshark lays a row of a capture with data packets out as a whole line.
func fromTshark(r wiretest.Row) flat {
	f := flat{"kind": "other"}
	l := tsharkLine{f, r}
	l.frame()
	if !r.Has("infiniband.bth") {
		return f
	}
	l.datagram()
	l.bth()
	l.cm()
	opcode := r.Uint("infiniband.bth.opcode")
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
		l.hexadecimal("DETH.qkey", "infiniband.deth.q_key", 8)
		l.number("DETH.src_qp", "infiniband.deth.srcqp")
	}
	if header("RETH", r.Has("infiniband.reth")) {
		l.hexadecimal("RETH.va", "infiniband.reth.va", 16)
		l.hexadecimal("RETH.rkey", "infiniband.reth.r_key", 8)
		l.number("RETH.dma_len", "infiniband.reth.dmalen")
	}
	if header("AtomicETH", r.Has("infiniband.atomiceth")) {
		l.hexadecimal("AtomicETH.va", "infiniband.reth.va", 16)
		l.hexadecimal("AtomicETH.rkey", "infiniband.reth.r_key", 8)
		l.hexadecimal("AtomicETH.swap", "infiniband.atomiceth.swapdt", 16)
		l.hexadecimal("AtomicETH.compare", "infiniband.atomiceth.cmpdt", 16)
	}
	if header("AETH", r.Has("infiniband.aeth")) {
		l.number("AETH.syndrome", "infiniband.aeth.syndrome")
		l.number("AETH.msn", "infiniband.aeth.msn")
	}
	if header("AtomicAckETH", r.Has("infiniband.atomicacketh")) {
		l.hexadecimal("AtomicAckETH.original", "infiniband.atomicacketh.origremdt", 16)
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

func (l tsharkLine) frame() {
	l.set("frame", "frame.number")
	seconds, fraction, _ := strings.Cut(l.Get("frame.time_epoch"), ".")
	s, _ := strconv.ParseInt(seconds, 10, 64)
	l.flat["time"] = time.Unix(s, 0).UTC().Format("2006-01-02T15:04:05") + "." + fraction[:6] + "Z"
	if l.Has("eth.src") {
		l.set("src_mac", "eth.src")
		l.set("dst_mac", "eth.dst")
	}
	if l.Has("vlan.id") {
		l.number("vlan", "vlan.id")
		l.number("pcp", "vlan.priority")
	}
}

func (l tsharkLine) datagram() {
	l.set("ip.version", "ip.version")
	if l.Has("ipv6.version") {
		l.set("ip.src", "ipv6.src")
		l.set("ip.dst", "ipv6.dst")
		l.number("ip.dscp", "ipv6.tclass.dscp")
		l.number("ip.ecn", "ipv6.tclass.ecn")
		l.number("ip.hop_limit", "ipv6.hlim")
		l.number("ip.flow_label", "ipv6.flow")
	} else {
		l.set("ip.src", "ip.src")
		l.set("ip.dst", "ip.dst")
		l.number("ip.dscp", "ip.dsfield.dscp")
		l.number("ip.ecn", "ip.dsfield.ecn")
		l.number("ip.hop_limit", "ip.ttl")
	}
	l.set("udp.src", "udp.srcport")
	l.set("udp.dst", "udp.dstport")
	l.hexadecimal("udp.checksum", "udp.checksum", 4)
}

func (l tsharkLine) bth() {
	l.hexadecimal("bth.opcode", "infiniband.bth.opcode", 2)
	l.flag("bth.se", "infiniband.bth.se")
	l.flag("bth.migreq", "infiniband.bth.m")
	l.number("bth.pad", "infiniband.bth.padcnt")
	l.number("bth.tver", "infiniband.bth.tver")
	l.hexadecimal("bth.pkey", "infiniband.bth.p_key", 4)
	octet4 := l.Octets("infiniband.reserved")[0]
	l.flat["bth.fecn"] = fmt.Sprint(octet4&0x80 != 0)
	l.flat["bth.becn"] = fmt.Sprint(octet4&0x40 != 0)
	l.flat["bth.resv6"] = fmt.Sprint(octet4 & 0x3F)
	l.number("bth.dest_qp", "infiniband.bth.destqp")
	l.flag("bth.ackreq", "infiniband.bth.a")
	l.number("bth.resv7", "infiniband.bth.reserved7")
	l.number("bth.psn", "infiniband.bth.psn")
}

// unknownToTshark decodes FLUSH and ATOMIC WRITE from the octets after the BTH, as in annex A19, and returns the length
// of the payload.
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
