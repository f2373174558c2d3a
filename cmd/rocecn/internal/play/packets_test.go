package play

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	senderAddr   = netip.MustParseAddr("2001:db8:1::a")
	receiverAddr = netip.MustParseAddr("2001:db8:4::e")
	senderIPv4   = netip.MustParseAddr("198.51.100.1")
	receiverIPv4 = netip.MustParseAddr("198.51.100.2")
	switchAddr   = netip.MustParseAddr("2001:db8:ffff::5")

	noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

// packet returns a RoCEv2 data packet from sender to receiver, changed.
func packet(t testing.TB, change ...func(*rocev2.Packet)) []byte {
	t.Helper()
	p := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, DestQP: 17, PKey: 0xFFFF}},
		Payload: make([]byte, 64)}
	p.Src, p.Dst, p.SrcPort, p.DstPort, p.HopLimit, p.TrafficClass = senderAddr, receiverAddr, 49152, rocev2.Port, 64,
		uint8(rocev2.ECT0)
	for _, c := range change {
		c(&p)
	}
	return wiretest.Must(p.AppendBinary(nil))(t)
}

func ipv4(p *rocev2.Packet) { p.Src, p.Dst = senderIPv4, receiverIPv4 }

// every returns a capture of raw IP with these packets, a step of time apart.
func every(step time.Duration, packets ...[]byte) []byte {
	var all []capture.Record
	for i, p := range packets {
		all = append(all, capture.Record{Data: p, Time: noon.Add(time.Duration(i) * step)})
	}
	return captureOf(capture.Raw, time.Nanosecond, all...)
}
