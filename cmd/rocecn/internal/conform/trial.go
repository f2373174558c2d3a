package conform

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"net/netip"
	"slices"
	"time"
)

// A suite is a run of cases against a device.
type suite struct {
	ctx     context.Context
	profile *profile
	rig     rig
	ready   error     // reason for which no traffic crosses a device that forwards, or nil
	free    time.Time // from then on the tester may send without a burst
}

// A seen is a packet of a case, sent or received.
type seen struct {
	number int // in the capture of the case, from 1 on; 0 if it is not in it
	port   int
	at     time.Time
	sent   bool
	frame  []byte
	*packet
	kind kind
}

// Bounds of the frames that a case keeps. A device that sends more is flooding.
const (
	maxReceived = 30_000
	maxKeptSent = 2_000
)

// A trial is one run of a case.
type trial struct {
	*suite
	c        *testCase
	number   int // of the case in the suite
	begin    time.Time
	deadline time.Time

	frames    []*seen // those of the capture
	received  []*seen
	sent      []map[uint64]*stream // packets sent, by port and checksum, with their stream if they have one
	stream    *stream              // of the packet that is sent now, or nil
	reflected int                  // packets that came back to the port that sent them
	flooded   bool
	sentCount int
	data      map[uint64]bool // checksums of data frames of a device with traffic of its own
	doubles   int             // data frames that have arrived before
	lostBegin uint64          // frames that the tester had lost when the case began
	err       error

	onlyForwards bool // packets that arrive are not part of the case

	wrapBack func(ip []byte) []byte // puts packets of a receiver into the tunnel to the PE; nil: none

	rates []rateRow // for reports
}

// A rateRow is a rate before and after a message.
type rateRow struct {
	Message       string
	Before, After float64 // octets a second
}

func (s *suite) newTrial(c *testCase, number int) *trial {
	now := s.rig.now()
	x := &trial{suite: s, c: c, number: number, begin: now, deadline: now.Add(s.profile.Time.Case),
		lostBegin: s.rig.lost()}
	x.data = map[uint64]bool{}
	x.sent = make([]map[uint64]*stream, len(s.profile.Ports))
	for i := range x.sent {
		x.sent[i] = map[uint64]*stream{}
	}
	return x
}

// portOf returns the first port of a side, or -1. A profile without a control port has the receiver port in its place.
func (s *suite) portOf(side string) int {
	i := slices.IndexFunc(s.profile.Ports, func(p port) bool { return p.Side == side })
	if i < 0 && side == "control" {
		return s.portOf("receiver")
	}
	return i
}

// sideOf returns the side of the port at which a packet arrived.
func (s *suite) sideOf(n *seen) string { return s.profile.Ports[n.port].Side }

// transmit sends an IP packet out of a port, and keeps it for the capture.
func (x *trial) transmit(port int, ip []byte) {
	p := &x.profile.Ports[port]
	dst := p.NeighbourMAC.mac
	if a := readIP(ip, nil, 1); a != nil && a.dst.IsMulticast() {
		dst = multicastMAC(a.dst)
	}
	x.transmitFrame(port, appendEthernet(nil, dst, p.MAC.mac, p.VLAN, ip))
}

func multicastMAC(a netip.Addr) mac {
	b := a.AsSlice()
	if a.Is4() {
		return mac{1, 0, 0x5E, b[1] & 0x7F, b[2], b[3]}
	}
	return mac{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

// maxBurst is the time for which the tester may send faster than the rate of the profile.
const maxBurst = 10 * time.Millisecond

// awaitRate waits until a frame may be sent at the rate of the profile. It reports whether that is in the time of the
// case.
func (x *trial) awaitRate(octets int) bool {
	for {
		now := x.rig.now()
		if x.free.Before(now) {
			x.free = now
		}
		earliest := x.free.Add(-maxBurst)
		if !earliest.After(now) {
			break
		}
		if x.isOver() {
			return false
		}
		x.pump(earliest)
	}
	x.free = x.free.Add(time.Duration(float64(8*octets) / float64(x.profile.Congestion.Rate) * 1e9))
	return true
}

func (x *trial) transmitFrame(port int, frame []byte) {
	if !x.awaitRate(len(frame)) {
		return
	}
	x.sentCount++
	n := &seen{port: port, at: x.rig.now(), sent: true, frame: frame}
	n.packet, _ = readFrame(frame, x.profile.CodePoints.VXLANPorts)
	if n.packet != nil {
		x.sent[port][checksumOf(n.packet)] = x.stream
		x.sent[port][checksumOf(n.innermost())] = x.stream
	}
	if len(x.frames) < maxKeptSent {
		x.keep(n)
	}
	if err := x.rig.send(port, frame); err != nil && x.err == nil {
		x.err = fmt.Errorf("port[%d]: a frame could not be sent: %w", port, err)
	}
}

func (x *trial) keep(n *seen) {
	x.frames = append(x.frames, n)
	n.number = len(x.frames)
}

// isOver reports whether the case has no time left, or cannot go on.
func (x *trial) isOver() bool {
	return !x.rig.now().Before(x.deadline) || x.flooded || x.ctx.Err() != nil
}

// pump receives frames until a time.
func (x *trial) pump(until time.Time) {
	if until.After(x.deadline) {
		until = x.deadline
	}
	x.receiveUntil(until)
}

// receiveUntil receives frames until a time, also after the time of the case.
func (x *trial) receiveUntil(until time.Time) {
	arrivals, err := x.rig.receive(until)
	if err != nil && x.err == nil {
		x.err = err
	}
	if err != nil {
		x.deadline = x.rig.now()
	}
	for _, a := range arrivals {
		x.receiveFrame(a)
	}
}

// receiveFrame processes a frame that arrived.
func (x *trial) receiveFrame(a arrival) {
	if x.flooded {
		return
	}
	n := &seen{port: a.port, at: a.at, frame: a.frame}
	var vlans int
	n.packet, vlans = readFrame(a.frame, x.profile.CodePoints.VXLANPorts)
	if vlan := x.profile.Ports[a.port].VLAN; vlan != 0 && (vlans != 1 ||
		binary.BigEndian.Uint16(a.frame[ethernetSize:])&0xFFF != vlan) || vlan == 0 && vlans > 0 {
		return
	}
	if answer := x.answerNeighbour(n); answer != nil {
		x.rig.send(a.port, answer)
		return
	}
	x.forwardFrame(n)
	if n.packet == nil || isHousekeeping(n.packet) || x.onlyForwards {
		return
	}
	if _, own := x.sent[n.port][checksumOf(n.packet)]; own {
		x.reflected++
	}
	n.kind = n.packet.kind(&x.profile.CodePoints)
	x.keep(n)
	x.received = append(x.received, n)
	if n.kind == kindData && slices.Contains(x.profile.Device.Addresses, n.src) {
		sum := maphash.Bytes(seed, n.frame)
		if x.data[sum] {
			x.doubles++
		}
		x.data[sum] = true
	}
	x.flooded = x.isFlood()
}

// isFlood reports whether the device sends far more than a device would that forwards and notifies.
func (x *trial) isFlood() bool {
	n := len(x.received)
	return n >= maxReceived || x.doubles > 100 || len(x.data) == 0 && n > 64+3*x.sentCount
}

// isHousekeeping reports whether a packet belongs to the host of the tester or to the link: neighbour and router
// discovery, multicast listeners and routing protocols.
func isHousekeeping(p *packet) bool {
	icmp := p.protocol == protocolICMPv6 && len(p.upper) > 0 && p.upper[0] >= 128
	return icmp || p.dst.IsLinkLocalMulticast() || p.src.IsLinkLocalUnicast() && p.bth == nil
}

// wait receives until done returns true, the time has passed or the case is over. It reports whether done did.
func (x *trial) wait(d time.Duration, done func() bool) bool {
	end := x.rig.now().Add(d)
	for !done() {
		if x.isOver() || !x.rig.now().Before(end) {
			return false
		}
		x.pump(end)
	}
	return true
}

// hasTime reports whether the case has that much time left.
func (x *trial) hasTime(d time.Duration) bool {
	return !x.rig.now().Add(d).After(x.deadline) && !x.isOver()
}

// receiveFor receives for a time, to measure. The case is inconclusive if it has not that much time left.
func (x *trial) receiveFor(d time.Duration) {
	end := x.rig.now().Add(d)
	x.wait(d, func() bool { return false })
	if x.rig.now().Before(end) && !x.flooded {
		x.keepError("time.case", errors.New("it is over before the end of a measurement"))
	}
}

// settle receives for the time that the device may take for its last answers.
func (x *trial) settle() { x.wait(x.profile.Time.Settle, func() bool { return false }) }

// A stream is a sequence of packets of one flow from the tester.
type stream struct {
	flow
	port  int
	count uint32
	wrap  func(ip []byte) []byte // puts the packet into a tunnel; nil: none

	senderQP   uint32     // that the packets come from, which notifications may name; 0: unknown
	outerSrc   netip.Addr // of the tunnel
	outerLabel uint32
}

// next returns the next packet of the stream.
func (s *stream) next() []byte {
	f := s.flow
	f.psn += s.count
	s.count++
	ip := f.appendIP(nil)
	if s.wrap != nil {
		ip = s.wrap(ip)
	}
	return ip
}

// offer sends the streams in turn at a rate for a time, or until done returns true, which may be nil.
func (x *trial) offer(streams []*stream, bits float64, d time.Duration, done func() bool) bool {
	const tick = 2 * time.Millisecond
	begin := x.rig.now()
	end, sent := begin.Add(d), 0.
	for i := 0; ; {
		now := x.rig.now()
		switch {
		case done != nil && done():
			return true
		case x.isOver() || !now.Before(end):
			return false
		}
		due := min(bits*now.Sub(begin).Seconds(), sent+bits*0.05) // after a delay, at most 50 ms are made up for
		for ; sent <= due; i++ {
			s := streams[i%len(streams)]
			ip := s.next()
			x.stream = s
			x.transmit(s.port, ip)
			x.stream = nil
			sent += float64(8 * (len(ip) + ethernetSize))
		}
		next := now.Add(tick)
		for x.rig.now().Before(next) && !x.isOver() {
			x.pump(next)
		}
	}
}

// congest congests the device with the streams until done returns true, or the time of the profile has passed.
func (x *trial) congest(streams []*stream, done func() bool) bool {
	c := &x.profile.Congestion
	if c.By == "command" {
		stop, err := x.rig.start(c.Start)
		if err != nil {
			x.keepError("congestion.start", err)
			return false
		}
		defer func() {
			x.keepError("congestion.start", stop())
			x.runStop()
		}()
	}
	return x.offer(streams, float64(c.Rate), c.For, done)
}

// notifications returns the received packets of a kind.
func (x *trial) notifications(k kind) (all []*seen) {
	for _, n := range x.received {
		if n.kind == k {
			all = append(all, n)
		}
	}
	return all
}

// host returns an address of a host that the tester plays: that with this number of the prefix.
func host(prefix netip.Prefix, n uint32) netip.Addr { return hostOf(prefix, 0x10+n) }

// pick returns the first prefix of a family.
func pick(prefixes []netip.Prefix, v6 bool) (p netip.Prefix, ok bool) {
	i := slices.IndexFunc(prefixes, func(p netip.Prefix) bool { return p.Addr().Is6() == v6 })
	if i < 0 {
		return p, false
	}
	return prefixes[i], true
}

// queuePair returns a queue pair that only this case uses.
func (x *trial) queuePair(n int) uint32 { return uint32(0x10000 + x.number*256 + n) }

// checksumOf identifies a packet, also after it was forwarded. Its addresses count, as exchanging them does not change
// the checksum of UDP.
func checksumOf(p *packet) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	if p.v6 {
		h.Write(p.ip[8:ipv6Size])
	} else {
		h.Write(p.ip[12:ipv4Size])
	}
	h.Write(p.upper)
	return h.Sum64()
}

// seed is that of checksums. A CRC would be the same for all packets of a flow, as it cancels out with their ICRC.
var seed = maphash.MakeSeed()
