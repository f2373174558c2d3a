package incidents

import (
	"compress/gzip"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// The incidents in this file are captures of soft-RoCE hosts, changed by known operations.

// A real is a part of a changed capture: frames of Ethernet, IP, UDP and BTH without tags or extension headers.
type real struct {
	*editor
	frames   []frame
	src, dst netip.Addr // sender and receiver of most data, as text in the truth
}

// An edit makes an incident of captures.
type edit struct {
	cause triage.Cause
	make  func(e *editor, t truth) []frame
}

// An editor reads the captures and changes them.
type editor struct {
	*rand.Rand
	t      *testing.T
	hosts  int
	events map[string]int
	also   truth

	discards []discard
	pause    []byte        // frame that is repeated until the end of the capture
	paused   time.Duration // time of the first one
	pauses   []frame
}

// load returns the RoCEv2 frames of a capture, between new hosts: a is the sender in the name of the capture. IP
// addresses of all captures of soft-RoCE are a pair of hosts.
func (e *editor) load(name string) *real {
	e.t.Helper()
	file := wiretest.Path(e.t, strings.Split(name+".pcap", "/")...)
	if strings.HasPrefix(name, "real/") {
		file = wiretest.Path(e.t, strings.Split(name+".pcap.gz", "/")...)
	}
	f := wiretest.Must(os.Open(file))(e.t)
	defer f.Close()
	in := io.Reader(f)
	if strings.HasSuffix(file, ".gz") {
		in = wiretest.Must(gzip.NewReader(f))(e.t)
	}
	c := &real{editor: e}
	var record capture.Record
	r := wiretest.Must(capture.Open(in))(e.t)
	var begin time.Time
	count := map[[16]byte]int{}
	for r.Next(&record) == nil {
		b := record.Data
		if len(b) < 60 || record.OrigLen != uint32(len(b)) || !isRoCE(b) {
			continue
		}
		if begin.IsZero() {
			begin = record.Time
		}
		c.frames = append(c.frames, frame{record.Time.Sub(begin), slices.Clone(b)})
		count[sourceOf(b).As16()] += len(b)
		count[destOf(b).As16()]++
	}
	// The sender of most octets, and the other host.
	most := 0
	for a, n := range count {
		if n > most {
			most, c.src = n, netip.AddrFrom16(a).Unmap()
		}
	}
	for a := range count {
		if other := netip.AddrFrom16(a).Unmap(); other != c.src {
			c.dst = other
		}
	}
	c.rename(c.src, e.newHost(c.src.Is6()))
	c.rename(c.dst, e.newHost(c.dst.Is6()))
	return c
}

func (e *editor) newHost(v6 bool) netip.Addr {
	e.hosts++
	if v6 {
		return netip.AddrFrom16([16]byte{0xFD, 0xEE, 15: byte(e.hosts)})
	}
	return netip.AddrFrom4([4]byte{192, 168, 77, byte(e.hosts)})
}

func isRoCE(b []byte) bool {
	at := 14 + 20
	switch {
	case b[12] == 0x86 && b[13] == 0xDD && b[20] == 17:
		at = 14 + 40
	case b[12] == 0x08 && b[13] == 0 && b[14] == 0x45 && b[23] == 17:
	default:
		return false
	}
	return len(b) > at+20 && b[at+2] == 4791>>8 && b[at+3] == 4791&0xFF
}

func isV6(b []byte) bool { return b[12] == 0x86 }

// bthOf returns the offset of the BTH.
func bthOf(b []byte) int {
	if isV6(b) {
		return 14 + 40 + 8
	}
	return 14 + 20 + 8
}

func sourceOf(b []byte) netip.Addr { return addressAt(b, 26, 22) }
func destOf(b []byte) netip.Addr   { return addressAt(b, 30, 38) }

func addressAt(b []byte, v4, v6 int) netip.Addr {
	if isV6(b) {
		return netip.AddrFrom16([16]byte(b[v6:]))
	}
	return netip.AddrFrom4([4]byte(b[v4:]))
}

func realPSN(b []byte) uint32 { return be.Uint32(b[bthOf(b)+8:]) & 0xFFFFFF }
func realQP(b []byte) uint32  { return be.Uint32(b[bthOf(b)+4:]) & 0xFFFFFF }

// isData reports whether a frame is a request or a response of a queue pair other than that of management.
func isData(b []byte) bool {
	return b[bthOf(b)] <= 0x10 && realQP(b) > 1 || b[bthOf(b)]>>5 == 1 && realQP(b) > 1
}

// repair computes the checksums of a frame again.
func repair(b []byte) {
	at := 14 + 20
	if isV6(b) {
		at += 20
	} else {
		b[24], b[25] = 0, 0
		sum := uint32(0)
		for i := 14; i < 34; i += 2 {
			sum += uint32(be.Uint16(b[i:]))
		}
		sum = sum&0xFFFF + sum>>16
		be.PutUint16(b[24:], ^uint16(sum+sum>>16))
	}
	b[at+6], b[at+7] = 0, 0
	end := at + int(be.Uint16(b[at+4:])) // of the UDP datagram, without padding of Ethernet
	masked := slices.Clone(b[14 : end-4])
	if isV6(b) {
		masked[0] |= 0xF
		for _, i := range []int{1, 2, 3, 7} {
			masked[i] = 0xFF
		}
	} else {
		for _, i := range []int{1, 8, 10, 11} {
			masked[i] = 0xFF
		}
	}
	for _, i := range []int{at + 6, at + 7, at + 8 + 4} {
		masked[i-14] = 0xFF
	}
	all := crc32.ChecksumIEEE(append(slices.Repeat([]byte{0xFF}, 8), masked...))
	b[end-4], b[end-3], b[end-2], b[end-1] = byte(all), byte(all>>8), byte(all>>16), byte(all>>24)
}

// rename changes an address everywhere.
func (c *real) rename(from, to netip.Addr) {
	for i := range c.frames {
		b := c.frames[i].octets
		v4, v6 := 26, 22
		if destOf(b) == from {
			v4, v6 = 30, 38
		} else if sourceOf(b) != from {
			continue
		}
		if isV6(b) {
			copy(b[v6:], to.AsSlice())
		} else {
			copy(b[v4:], to.AsSlice())
		}
		repair(b)
	}
	if c.src == from {
		c.src = to
	}
	if c.dst == from {
		c.dst = to
	}
}

// each changes the frames that a function selects. The function returns false for frames that are removed.
func (c *real) each(do func(i int, b []byte) bool) *real {
	var kept []frame
	for i, f := range c.frames {
		if do(i, f.octets) {
			kept = append(kept, f)
		}
	}
	c.frames = kept
	return c
}

// add inserts a frame.
func (c *real) add(at time.Duration, b []byte) {
	c.frames = append(c.frames, frame{at, b})
}

// sorted returns the frames in order of time.
func (c *real) sorted() []frame { return merged(c.frames) }

// setECN sets the ECN field.
func setECN(b []byte, ecn byte) {
	if isV6(b) {
		b[15] = b[15]&^0x30 | ecn<<4
		return
	}
	b[15] = b[15]&^3 | ecn
	repair(b)
}

// setDSCP sets the DSCP.
func setDSCP(b []byte, dscp byte) {
	if isV6(b) {
		b[14], b[15] = 0x60|dscp>>2, b[15]&0x3F|dscp<<6
		return
	}
	b[15] = b[15]&3 | dscp<<2
	repair(b)
}

// ect makes all data ECN-capable.
func (c *real) ect() *real {
	return c.each(func(_ int, b []byte) bool {
		if isData(b) {
			setECN(b, 2)
		}
		return true
	})
}

// fromTo reports whether a frame is data from the sender to the receiver.
func (c *real) fromTo(b []byte) bool {
	return isData(b) && sourceOf(b) == c.src
}

// answerTo makes an answer to a frame of data by exchanging its addresses: an Acknowledge of this syndrome, or a CNP.
// The queue pair of the sender is learned from the frames.
func (c *real) answerTo(b []byte, qp uint32, opcode, syndrome byte) []byte {
	at := bthOf(b)
	out := slices.Clone(b[:at+12])
	copy(out[:6], b[6:12])
	copy(out[6:12], b[:6])
	if isV6(b) {
		copy(out[22:38], b[38:54])
		copy(out[38:54], b[22:38])
	} else {
		copy(out[26:30], b[30:34])
		copy(out[30:34], b[26:30])
	}
	out[at] = opcode
	out[at+4], out[at+5], out[at+6], out[at+7] = 0, byte(qp>>16), byte(qp>>8), byte(qp)
	out[at+8] = 0
	body := []byte{syndrome, 0, 0, 9}
	if opcode == 0x81 {
		body = make([]byte, 16)
		out[at+9], out[at+10], out[at+11] = 0, 0, 0
	}
	out = append(out, body...)
	out = append(out, 0, 0, 0, 0)
	udp := len(out) - (at - 8)
	be.PutUint16(out[at-8+4:], uint16(udp))
	if isV6(b) {
		be.PutUint16(out[18:], uint16(udp))
	} else {
		be.PutUint16(out[16:], uint16(udp+20))
	}
	if opcode == 0x81 {
		setDSCP(out, 48)
		setECN(out, 0)
	}
	repair(out)
	return out
}

// partners returns the sender's queue pair of each of the receiver's, from the truth of ACKs: the capture has one
// connection for each, and an answer has the PSN of a request.
func (c *real) partners() map[uint32]uint32 {
	type key struct{ psn uint32 }
	sent := map[key]map[uint32]bool{}
	votes := map[[2]uint32]int{}
	for _, f := range c.frames {
		b := f.octets
		switch {
		case c.fromTo(b):
			k := key{realPSN(b)}
			if sent[k] == nil {
				sent[k] = map[uint32]bool{}
			}
			sent[k][realQP(b)] = true
		case b[bthOf(b)] == 0x11 && destOf(b) == c.src:
			for qp := range sent[key{realPSN(b)}] {
				votes[[2]uint32{qp, realQP(b)}]++
			}
		}
	}
	out, best := map[uint32]uint32{}, map[uint32]int{}
	for k, n := range votes {
		if n > best[k[0]] || n == best[k[0]] && k[1] < out[k[0]] {
			best[k[0]], out[k[0]] = n, k[1]
		}
	}
	return out
}

var edits = []edit{
	{triage.CausePauseStorm, func(e *editor, t truth) []frame { return e.pauseLink(t, triage.CausePauseStorm) }},
	{triage.CauseEndlessPause, func(e *editor, t truth) []frame { return e.pauseLink(t, triage.CauseEndlessPause) }},
	{triage.CauseIncast, (*editor).marksOfMany},
	{triage.CauseOnePath, (*editor).marksOfPorts},
	{triage.CauseCNPMissing, (*editor).marks},
	{triage.CauseCNPUnheeded, (*editor).denseCNPs},
	{triage.CauseNotECNCapable, (*editor).clearECN},
	{triage.CauseOtherDSCP, (*editor).changeDSCP},
	{triage.CauseTooManyNotices, (*editor).closeCNPs},
	{triage.CauseNotReady, func(e *editor, t truth) []frame {
		c := e.load(pickName(e, "real/s4-rnr.eth0", "real/s4-rnr.eth1"))
		t.add(triage.CauseNotReady, c.dst.String())
		return c.frames
	}},
	{triage.CauseStorm, func(e *editor, t truth) []frame {
		c := e.load(pickName(e, "real/write4-loss1.eth0", "real/write4-loss1.eth1", "real/w4-reddrop-q4.eth0",
			"real/w4-reddrop-q4.eth1"))
		t.add(triage.CauseStorm)
		e.events["loss"]++
		return c.frames
	}},
	{triage.CauseTimedOut, func(e *editor, t truth) []frame {
		c := e.load(pickName(e, "real/w6-ackloss3.eth0", "real/w6-ackloss3.eth1"))
		t.add(triage.CauseTimedOut)
		e.events["loss"]++
		return c.frames
	}},
	{triage.CauseReordered, (*editor).delay},
	{triage.CauseDiscarded, func(e *editor, t truth) []frame { return e.lost(t, triage.CauseDiscarded) }},
	{triage.CauseTrimmed, func(e *editor, t truth) []frame { return e.lost(t, triage.CauseTrimmed) }},
	{triage.CauseWrongICRC, (*editor).breakAnswers},
	{triage.CauseMTU, (*editor).stopLong},
	{triage.CausePathDown, func(e *editor, t truth) []frame { return e.stop(t, triage.CausePathDown) }},
	{triage.CauseGaveUp, func(e *editor, t truth) []frame { return e.stop(t, triage.CauseGaveUp) }},
	{triage.CauseLost, func(e *editor, t truth) []frame {
		c := e.load(pickName(e, "real/r6-loss2.eth0", "real/r6-loss2.eth1", "real/w4-uc-loss2.eth1"))
		t.add(triage.CauseLost)
		return c.frames
	}},
	{triage.CauseRetransmitted, func(e *editor, t truth) []frame {
		c := e.load(pickName(e, "real/s4-rnr.eth0", "real/write4-loss1.eth0", "real/w4-reddrop-q4.eth0"))
		c.each(func(_ int, b []byte) bool { return sourceOf(b) == c.src })
		t.add(triage.CauseRetransmitted)
		return c.frames
	}},
	{triage.CauseCongested, (*editor).answeredMarks},
	{triage.CauseRefused, (*editor).refuse},
	{triage.CauseCorrupt, func(e *editor, t truth) []frame {
		c := e.load(pickName(e, "real/nvme4.eth1", "real/write4-dup.eth0", "real/sR4-redect-q4.eth0"))
		n, long := 2+e.IntN(12), 0
		c.each(func(_ int, b []byte) bool {
			if c.fromTo(b) && len(b) > 100 {
				if long++; long%n == 1 {
					b[len(b)-20] ^= 0x20
				}
			}
			return true
		})
		t.add(triage.CauseCorrupt)
		return c.frames
	}},
	{triage.CauseNotCaptured, func(e *editor, t truth) []frame {
		c := e.loadBusy()
		n := 20 + e.IntN(40)
		c.each(func(i int, b []byte) bool { return !c.fromTo(b) || i%n != n-1 })
		t.add(triage.CauseNotCaptured)
		return c.frames
	}},
}

func pickName(e *editor, names ...string) string { return names[e.IntN(len(names))] }

// loadClean returns a capture without any problem.
func (e *editor) loadClean() *real {
	return e.load(pickName(e, "real/nvme4.eth0", "real/nvme4.eth1", "real/atomic4.eth0", "real/rping6.eth1",
		"rxe-perf4",
		"real/sR4-redect-q4.eth0"))
}

// loadBusy returns a capture of a large transfer without any problem.
func (e *editor) loadBusy() *real {
	return e.load(pickName(e, "real/write4-dup.eth0", "real/sR4-redect-q4.eth0"))
}

func (e *editor) marks(t truth) []frame {
	c := e.loadBusy().ect()
	p := 0.05 + e.Float64()*0.5
	c.each(func(_ int, b []byte) bool {
		if c.fromTo(b) && e.Float64() < p {
			setECN(b, 3)
		}
		return true
	})
	t.add(triage.CauseCNPMissing, c.dst.String())
	return c.frames
}

// answeredMarks are marks with a CNP each.
func (e *editor) answeredMarks(t truth) []frame {
	c := e.loadBusy().ect()
	c.answerMarks(func(_ int, b []byte) bool { return e.Float64() < 0.03 }, 30*time.Microsecond)
	t.add(triage.CauseCongested)
	return c.frames
}

// answerMarks marks the data that a function selects, and adds a CNP for each.
func (c *real) answerMarks(selects func(i int, b []byte) bool, later time.Duration) {
	of := c.partners()
	for i, f := range slices.Clone(c.frames) {
		if b := f.octets; c.fromTo(b) && of[realQP(b)] != 0 && selects(i, b) {
			setECN(b, 3)
			c.events[triage.CauseCongested.String()]++
			c.add(f.at+later, c.answerTo(b, of[realQP(b)], 0x81, 0))
		}
	}
	c.frames = c.sorted()
}

func (e *editor) marksOfMany(t truth) []frame {
	first := e.load("real/write4-dup.eth0").ect()
	all := []*real{first}
	for range 3 + e.IntN(3) {
		c := e.load("real/write4-dup.eth0").ect()
		c.rename(c.dst, first.dst)
		all = append(all, c)
	}
	var out []frame
	for i, c := range all {
		c.shift(time.Duration(i) * 130 * time.Microsecond)
		c.answerMarks(func(_ int, b []byte) bool { return false }, 0)
		out = merged(out, c.frames)
	}
	var moments []time.Duration // in which packets are sent
	for range 8 {
		moments = append(moments, out[e.IntN(len(out))].at)
	}
	out = nil
	for _, c := range all {
		of := c.partners()
		for _, f := range slices.Clone(c.frames) {
			if b := f.octets; c.fromTo(b) && slices.ContainsFunc(moments, func(m time.Duration) bool {
				return f.at >= m && f.at < m+2*time.Millisecond
			}) {
				setECN(b, 3)
				if f.at-c.frames[0].at > 0 && of[realQP(b)] != 0 && e.IntN(4) == 0 {
					c.add(f.at+20*time.Microsecond, c.answerTo(b, of[realQP(b)], 0x81, 0))
				}
			}
		}
		out = merged(out, c.frames)
	}
	t.add(triage.CauseIncast, first.dst.String())
	return out
}

// shift moves all times.
func (c *real) shift(by time.Duration) {
	for i := range c.frames {
		c.frames[i].at += by
	}
}

func (e *editor) marksOfPorts(t truth) []frame {
	c := e.load("real/sR4-redect-q4.eth0").ect()
	ports := map[uint16]bool{}
	for _, f := range c.frames {
		if b := f.octets; c.fromTo(b) && realQP(b) != 0x53 {
			ports[be.Uint16(b[bthOf(b)-8:])] = true
		}
	}
	var slow uint16 // the lowest port
	for p := range ports {
		if slow == 0 || p < slow {
			slow = p
		}
	}
	c.answerMarks(func(_ int, b []byte) bool {
		return be.Uint16(b[bthOf(b)-8:]) == slow && e.IntN(3) == 0
	}, 30*time.Microsecond)
	t.add(triage.CauseOnePath)
	return c.frames
}

func (e *editor) denseCNPs(t truth) []frame {
	c := e.load("real/write4-dup.eth0")
	c.even(6 * time.Millisecond) // 800 Mbit/s
	of := c.partners()
	n := 0
	for _, f := range slices.Clone(c.frames) {
		b := f.octets
		if !c.fromTo(b) {
			continue
		}
		qp := of[realQP(b)]
		if qp == 0 {
			qp = 0x77
		}
		if n++; n > 20 && n%5 == 0 {
			e.events[triage.CauseCongested.String()]++
			c.add(f.at+2*time.Microsecond, c.answerTo(b, qp, 0x81, 0))
		}
	}
	t.add(triage.CauseCNPUnheeded, c.src.String())
	return c.sorted()
}

// even spreads the data evenly over a time, and the other frames between it.
func (c *real) even(over time.Duration) {
	total, n := 0, 0
	for _, f := range c.frames {
		if c.fromTo(f.octets) {
			total++
		}
	}
	for i := range c.frames {
		c.frames[i].at = over * time.Duration(n) / time.Duration(total)
		if c.fromTo(c.frames[i].octets) {
			n++
		}
	}
}

func (e *editor) clearECN(t truth) []frame {
	a, b := e.load("real/write4-dup.eth0").ect(), e.load("real/write4-dup.eth0").ect()
	b.rename(b.dst, a.dst)
	a.answerMarks(func(int, []byte) bool { return e.IntN(30) == 0 }, 30*time.Microsecond)
	b.each(func(_ int, f []byte) bool {
		setECN(f, 0)
		return true
	})
	t.add(triage.CauseNotECNCapable, b.src.String())
	return merged(a.frames, b.frames)
}

func (e *editor) changeDSCP(t truth) []frame {
	bad := e.load(pickName(e, "real/w4-reddrop-q4.eth0", "real/write4-loss1.eth1"))
	low := byte(e.IntN(8))
	bad.each(func(_ int, b []byte) bool {
		setDSCP(b, low)
		return true
	})
	out := bad.frames
	for range 2 {
		c := e.load("real/write4-dup.eth0")
		c.rename(c.dst, bad.dst)
		c.each(func(_ int, b []byte) bool {
			setDSCP(b, 26)
			return true
		})
		out = merged(out, c.frames)
	}
	t.add(triage.CauseOtherDSCP, bad.src.String())
	return out
}

func (e *editor) closeCNPs(t truth) []frame {
	c := e.loadBusy().ect()
	of := c.partners()
	n := 0
	for _, f := range slices.Clone(c.frames) {
		b := f.octets
		if !c.fromTo(b) || of[realQP(b)] == 0 {
			continue
		}
		if n++; n > 100 && n <= 110 {
			e.events[triage.CauseCongested.String()]++
			setECN(b, 3)
			for i := range 3 {
				c.add(f.at+time.Duration(10+i)*time.Microsecond, c.answerTo(b, of[realQP(b)], 0x81, 0))
			}
		}
	}
	t.add(triage.CauseTooManyNotices, c.dst.String())
	return c.sorted()
}

func (e *editor) delay(t truth) []frame {
	t.add(triage.CauseReordered)
	if e.IntN(4) == 0 {
		c := e.load("real/send4-reorder.eth1")
		e.events["loss"]++ // retransmissions
		return c.frames
	}
	c := e.load("real/write4-dup.eth0")
	n := 5 + e.IntN(30)
	for i := range c.frames {
		if c.fromTo(c.frames[i].octets) && i%n == n-1 && i+3 < len(c.frames) {
			c.frames[i].at = c.frames[min(i+2, len(c.frames)-1)].at + time.Microsecond
		}
	}
	return c.sorted()
}

// lost returns a capture after a queue, with the packets that the capture before it has as trimmed or discarded ones.
func (e *editor) lost(t truth, cause triage.Cause) []frame {
	before, after := e.load("real/w4-reddrop-q4.eth0"), e.load("real/w4-reddrop-q4.eth1")
	after.rename(after.src, before.src)
	after.rename(after.dst, before.dst)
	ids := map[uint16]bool{}
	for _, f := range after.frames {
		if b := f.octets; after.fromTo(b) {
			ids[be.Uint16(b[18:])] = true
		}
	}
	for _, f := range before.frames {
		b := f.octets
		if !before.fromTo(b) || ids[be.Uint16(b[18:])] {
			continue
		}
		if cause == triage.CauseDiscarded {
			e.discards = append(e.discards, discard{f, netip.MustParseAddr("192.168.99.9"), 12, 3})
			continue
		}
		b = slices.Clone(b[:min(len(b), 14+128)])
		be.PutUint16(b[16:], uint16(len(b)-14))
		after.add(f.at+200*time.Microsecond, b)
	}
	t.add(cause)
	if cause == triage.CauseDiscarded {
		t.add(cause, "192.168.99.9")
	}
	e.events["loss"]++
	e.also.add(triage.CauseStorm)
	return after.sorted()
}

func (e *editor) breakAnswers(t truth) []frame {
	c := e.loadBusy()
	n := 0
	c.each(func(_ int, b []byte) bool {
		if b[bthOf(b)] == 0x11 && sourceOf(b) == c.dst {
			b[len(b)-1] ^= 0x77
			n++
		}
		return true
	})
	t.add(triage.CauseWrongICRC, c.dst.String())
	return c.frames
}

// stop ends queue pairs: the last request before a time is repeated without an answer, and nothing more. With the
// cause path down, all queue pairs of the two hosts stop, and others go on.
func (e *editor) stop(t truth, cause triage.Cause) []frame {
	c := e.load("real/sR4-redect-q4.eth0")
	other := e.load("real/sR4-redect-q4.eth0")
	at := c.frames[len(c.frames)/2].at
	end := c.frames[len(c.frames)-1].at
	of := c.partners()
	stopped := map[uint32]uint32{} // of both ends
	for a, b := range of {
		if a == 0x54 || cause == triage.CausePathDown {
			stopped[a], stopped[b] = a, a
		}
	}
	last := map[uint32][]byte{}
	acked := map[uint32]uint32{}
	c.each(func(i int, b []byte) bool {
		key, isStopped := stopped[realQP(b)]
		if !isStopped && (cause != triage.CausePathDown || realQP(b) <= 1) {
			return true
		}
		if cause == triage.CausePathDown && !isStopped {
			return c.frames[i].at < at
		}
		if c.frames[i].at >= at {
			return false
		}
		if c.fromTo(b) {
			last[key] = b
		} else if b[bthOf(b)] == 0x11 {
			acked[key] = realPSN(b)
		}
		return true
	})
	timeout := min(time.Duration(20+e.IntN(60))*time.Millisecond, (end-at)/12)
	for key, b := range last {
		first := slices.Clone(b)
		at0 := bthOf(b)
		// all is acknowledged: one more
		if (realPSN(b)-acked[key])&0xFFFFFF == 0 || (realPSN(b)-acked[key])&0x800000 != 0 {
			be.PutUint32(first[at0+8:], 0x80<<24|(acked[key]+1)&0xFFFFFF)
			repair(first)
		}
		for i := range 8 {
			one := slices.Clone(first)
			if !isV6(one) {
				be.PutUint16(one[18:], uint16(0x4000+i*17)+uint16(key))
				repair(one)
			}
			c.add(at+time.Duration(key)*time.Microsecond+time.Duration(i)*timeout, one)
		}
	}
	t.add(cause)
	return merged(c.sorted(), other.frames)
}

func (e *editor) stopLong(t truth) []frame {
	c := e.load("real/nvme4.eth0") // short requests are answered
	long := e.load("real/write4-dup.eth0")
	long.rename(long.src, c.src)
	long.rename(long.dst, c.dst)
	// The first request, of 1084 octets, is repeated without an answer.
	var first []byte
	for _, f := range long.frames {
		if long.fromTo(f.octets) {
			first = f.octets
			break
		}
	}
	c.each(func(_ int, b []byte) bool { return len(b) < len(first) })
	for i := range 5 {
		one := slices.Clone(first)
		be.PutUint16(one[18:], uint16(0x100+i))
		repair(one)
		c.add(100*time.Millisecond+time.Duration(i)*50*time.Millisecond, one)
	}
	t.add(triage.CauseMTU)
	e.events["not captured"]++ // the long packets between the short ones
	e.events["loss"]++
	return c.sorted()
}

func (e *editor) refuse(t truth) []frame {
	c := e.load("real/write4-dup.eth0")
	of := c.partners()
	done := false
	at := 50 + e.IntN(300)
	syndrome := []byte{0x61, 0x62, 0x63}[e.IntN(3)]
	var nak frame
	c.each(func(i int, b []byte) bool {
		if done {
			return false
		}
		if done = i >= at && c.fromTo(b); done {
			nak = frame{c.frames[i].at + 20*time.Microsecond, c.answerTo(b, of[realQP(b)], 0x11, syndrome)}
		}
		return true
	})
	c.frames = append(c.frames, nak)
	t.add(triage.CauseRefused, c.dst.String())
	return c.sorted()
}

func (e *editor) pauseLink(t truth, cause triage.Cause) []frame {
	c := e.loadBusy()
	mac := [6]byte(c.frames[0].octets[6:12])
	for _, f := range c.frames {
		if sourceOf(f.octets) == c.dst {
			mac = [6]byte(f.octets[6:12])
		}
	}
	frame := append([]byte{1, 0x80, 0xC2, 0, 0, 1}, mac[:]...)
	frame = append(frame, 0x88, 0x08, 1, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF)
	frame = append(frame, make([]byte, 60-len(frame))...)
	end := c.frames[len(c.frames)-1].at
	at := end / time.Duration(3+e.IntN(4))
	t.add(cause, mac6(mac))
	if cause == triage.CauseEndlessPause {
		e.pause, e.paused = frame, at
		return c.frames
	}
	for gap := time.Duration(450+e.IntN(500)) * time.Microsecond; at < end; at += gap {
		c.add(at, frame)
	}
	return c.sorted()
}

// editReal makes the n-th incident of a total from captures of soft-RoCE.
func editReal(t *testing.T, n, total int, seed uint64) incident {
	r := rand.New(rand.NewPCG(seed, uint64(n)+1<<32))
	e := &editor{Rand: r, t: t, events: map[string]int{}, also: truth{}}
	in := incident{name: "healthy", truth: truth{}, also: e.also, events: e.events}
	var chosen []edit
	switch healthy, doubles := total/5, total/3; {
	case n < healthy:
	case n < healthy+doubles:
		for len(chosen) < 2 {
			x := edits[r.IntN(len(edits))]
			if len(chosen) == 0 || chosen[0].cause != x.cause {
				chosen = append(chosen, x)
			}
		}
	default:
		chosen = []edit{edits[(n-healthy-doubles)%len(edits)]}
	}
	var names []string
	for _, x := range chosen {
		in.frames = merged(in.frames, x.make(e, in.truth))
		names = append(names, x.cause.String())
	}
	for range 1 + r.IntN(2) {
		c := e.loadClean()
		c.shift(time.Duration(r.IntN(200)) * time.Millisecond)
		in.frames = merged(in.frames, c.frames)
	}
	in.discards = e.discards
	if e.pause != nil { // until the end of all captures
		for at := e.paused; at < in.frames[len(in.frames)-1].at; at += 300 * time.Microsecond {
			e.pauses = append(e.pauses, frame{at, e.pause})
		}
	}
	in.frames = merged(in.frames, e.pauses)
	if len(names) > 0 {
		in.name = strings.Join(names, " and ")
	}
	return in
}
