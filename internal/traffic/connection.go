package traffic

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// A connection is two queue pairs, of which one sends requests.
type connection struct {
	*generator
	from, to  side
	transport bth.Transport
	mtu       int
	psn       uint32 // of the next request
	wraps     bool   // PSNs may wrap; of one connection between two hosts, as votes tie where PSNs are the same
	truth     *Truth
	frames    []*Frame
	trouble   *Frame // the first one that shows a gap or a repeat
	started   bool
	gap       bool // the next request will show a gap
}

// run lets the connection live, and live again.
func (c *connection) run() {
	connections := 1
	if !c.options.Clean {
		connections += c.IntN(3)
	}
	for number := range connections {
		named := !c.options.NoCM && !c.options.OneWay && c.options.SnapLen == 0
		if number > 0 && c.IntN(2) == 0 {
			named = false
		}
		for {
			psn := uint32(c.IntN(1 << 24))
			if c.wraps && c.IntN(3) == 0 {
				psn = 1<<24 - uint32(1+c.IntN(40))
			}
			if d := int32((psn-c.psn)<<8) >> 8; !c.started || d > 100_000 || d < -100_000 {
				c.psn = psn
				break
			}
		}
		if named {
			c.exchange()
		}
		c.truth.Connections++
		if !c.started {
			c.truth.First = c.psn
			c.started = true
		}
		if !named && number == 0 && c.transport == bth.TransportUC {
			c.truth.SrcQP = 0
		}
		c.sendMessages()
	}
	if c.options.OneWay || c.transport == bth.TransportUC && (c.options.NoCM || c.options.SnapLen > 0) {
		c.truth.SrcQP = 0
	}
	c.truth.Last = (c.psn - 1) & 0xFFFFFF
}

// sendMessages sends messages, one in three of which meets something.
func (c *connection) sendMessages() {
	c.send(message{kind: write, packets: 2 + c.IntN(3)}, nothing)
	for range 4 + c.IntN(8) {
		m := message{kind: send, packets: 1 + c.IntN(5)}
		if c.transport != bth.TransportUC {
			m.kind = kind(c.IntN(int(kinds)))
		} else if c.IntN(2) == 0 {
			m.kind = write
		}
		if m.kind == atomic {
			m.packets = 1
		}
		event := nothing
		if !c.options.Clean && c.IntN(3) == 0 {
			event = incident(c.IntN(int(incidents)))
		}
		c.send(m, event)
		if event != nothing { // so that two incidents are never one
			c.send(message{kind: send, packets: 2}, nothing)
		}
		if c.IntN(5) == 0 && c.options.SnapLen == 0 && !c.options.OneWay && !c.options.Clean {
			c.notify()
		}
	}
}

type kind int

const (
	send kind = iota
	write
	read
	atomic
	kinds
)

// A message is a work request: packets counts the PSNs that it takes.
type message struct {
	kind    kind
	packets int
}

// An incident is an event that affects a message.
type incident int

const (
	nothing    incident = iota
	hidden              // the capture loses requests that arrive
	swapped             // two requests change places
	duplicated          // a request is seen twice
	lostBefore          // a request is lost before the capture point: NAK, retransmission from there
	lostAfter           // a request is lost after the capture point: the same
	notReady            // RNR NAK, and again
	lostAnswer          // the answer is lost: again after a timeout
	rest                // some responses of a READ are lost: it asks for the others
	incidents
)

// send sends a message with an incident.
func (c *connection) send(m message, event incident) {
	t := c.truth
	uc := c.transport == bth.TransportUC
	if uc && event > duplicated || m.kind == read && event >= lostBefore && event <= lostAfter {
		event = nothing
	}
	first := c.psn
	requests := c.requests(m)
	n := len(requests)
	if n < 2 && (event == swapped || event == lostBefore) || event == rest && (m.kind != read || m.packets < 2) {
		event = nothing
	}
	c.psn = (c.psn + uint32(m.packets)) & 0xFFFFFF
	// The PSNs that the requests from a to b take.
	psnCount := func(a, b int) uint64 {
		if m.kind == read {
			return uint64(m.packets)
		}
		return uint64(b - a)
	}
	if !c.options.Clean && c.IntN(4) == 0 {
		r := &requests[c.IntN(n)]
		mark(r.frame)
		r.ce = true
	}
	refusal := func(psn uint32, syndrome bth.Syndrome) {
		if c.options.OneWay {
			return
		}
		c.answer(bth.OpAcknowledge, psn, syndrome, 0)
		if syndrome.Type() == bth.SyndromeRNRNAK {
			t.RNRNAKs++
		} else {
			t.SequenceNAKs++
		}
	}
	again := func(cause *uint64, requests []request) {
		if c.options.OneWay && cause != &t.Rest {
			cause = &t.Timeout
		}
		for _, r := range requests {
			c.emit(r)
			c.markTrouble()
			*cause++
		}
	}
	switch event {
	case hidden:
		a := c.IntN(n)
		b := a + 1 + c.IntN(n-a)
		t.Gaps++
		t.Missing += psnCount(a, b)
		if uc || c.options.OneWay {
			t.Unjudged += psnCount(a, b)
		} else {
			t.Unseen += psnCount(a, b)
		}
		c.seen(m, requests[:a])
		gap := len(c.frames)
		complete := t.Complete
		c.seen(m, requests[b:])
		if a == 0 || uc || c.options.OneWay { // its begin was not captured, or no answer shows that it arrived complete
			t.Complete = complete
		}
		if len(c.frames) > gap {
			c.markTroubleAt(gap)
		} else {
			c.gap = true
		}
		complete = t.Complete
		c.respond(m, first)
		if a == 0 && (m.kind == read || m.kind == atomic) { // the capture has responses to a request that it lost
			t.Complete = complete
		}
		return
	case swapped:
		a := c.IntN(n - 1)
		requests[a], requests[a+1] = requests[a+1], requests[a]
		t.Gaps++
		t.Missing++
		t.Late++
		c.seen(m, requests[:a+1])
		c.markTrouble()
		c.seen(m, requests[a+1:])
	case duplicated:
		a := c.IntN(n)
		c.seen(m, requests[:a+1])
		c.emit(requests[a])
		if !uc {
			c.markTrouble()
			t.Timeout++
		}
		c.seen(m, requests[a+1:])
	case lostBefore:
		a := c.IntN(n - 1)
		t.Gaps++
		t.Missing++
		t.Late++
		c.seen(m, requests[:a])
		gap := len(c.frames)
		c.seen(m, requests[a+1:])
		c.markTroubleAt(gap)
		refusal(requests[a].psn, 0x60)
		c.seen(m, requests[a:a+1])
		again(&t.NAKed, requests[a+1:])
	case lostAfter:
		a := c.IntN(n)
		c.seen(m, requests)
		refusal(requests[a].psn, 0x60)
		again(&t.NAKed, requests[a:])
	case notReady:
		c.seen(m, requests)
		for range 1 + c.IntN(3) {
			refusal(first, 0x2E)
			again(&t.RNR, requests)
		}
	case lostAnswer:
		c.seen(m, requests)
		again(&t.Timeout, requests[n-1:])
	case rest:
		c.seen(m, requests)
		had := 1 + c.IntN(m.packets-1)
		c.responses(first, m.packets, had)
		next, left := (first+uint32(had))&0xFFFFFF, m.packets-had
		again(&t.Rest, []request{c.readRequest(next, left)})
		c.responses(next, left, left)
		if !c.options.OneWay {
			t.Complete++
		}
		return
	default:
		c.seen(m, requests)
	}
	c.respond(m, first)
}

// A request is a packet that takes PSNs.
type request struct {
	frame       *Frame
	psn         uint32
	first, last bool // of its message
	ce          bool
}

// seen captures requests for the first time.
func (c *connection) seen(m message, requests []request) {
	for _, r := range requests {
		c.emit(r)
		if r.first {
			c.truth.Begun++
		}
		if r.last && m.kind != read && m.kind != atomic {
			c.truth.Complete++
		}
	}
}

// emit captures a request.
func (c *connection) emit(r request) {
	c.truth.Packets++
	c.truth.IPOctets += uint64(r.frame.Orig - 14)
	if r.ce {
		c.truth.CE++
	}
	f := *r.frame
	c.frames = append(c.frames, &f)
	if c.gap {
		c.gap = false
		c.markTrouble()
	}
}

// markTrouble says that the last frame shows a gap or a repeat.
func (c *connection) markTrouble() { c.markTroubleAt(len(c.frames) - 1) }

func (c *connection) markTroubleAt(i int) { c.trouble = cmp.Or(c.trouble, c.frames[i]) }

// node returns the address of a congested node.
func (c *connection) node() netip.Addr {
	if c.from.addr.Is4() {
		return netip.AddrFrom4([4]byte{198, 51, 100, 1})
	}
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0xff, 0xff, 15: 1})
}

// requests makes the packets of a message.
func (c *connection) requests(m message) (all []request) {
	switch m.kind {
	case read:
		return []request{c.readRequest(c.psn, m.packets)}
	case atomic:
		p := c.packet(c.from, c.to, bth.OpCmpSwap, c.psn)
		p.BTH.AckReq = true
		return []request{{frame: c.frame(p), psn: c.psn, first: true, last: true}}
	}
	ops := [...]bth.Operation{bth.OpSendFirst, bth.OpSendMiddle, bth.OpSendLast, bth.OpSendOnly}
	if m.kind == write {
		ops = [...]bth.Operation{bth.OpRDMAWriteFirst, bth.OpRDMAWriteMiddle, bth.OpRDMAWriteLast, bth.OpRDMAWriteOnly}
	}
	for i := range m.packets {
		op, size := ops[1], c.mtu
		last := i == m.packets-1
		switch {
		case m.packets == 1:
			op, size = ops[3], 1+c.IntN(c.mtu)
		case i == 0:
			op = ops[0]
		case last:
			op, size = ops[2], 1+c.IntN(c.mtu)
		}
		psn := (c.psn + uint32(i)) & 0xFFFFFF
		p := c.packet(c.from, c.to, op, psn)
		p.BTH.AckReq = last && c.transport != bth.TransportUC
		p.BTH.Pad = uint8(-size & 3)
		p.Payload = make([]byte, size)
		all = append(all, request{frame: c.frame(p), psn: psn, first: i == 0, last: last})
	}
	return all
}

func (c *connection) readRequest(psn uint32, packets int) request {
	p := c.packet(c.from, c.to, bth.OpRDMAReadRequest, psn)
	p.BTH.AckReq = true
	p.BTH.RETH.DMALength = uint32((packets-1)*c.mtu + 1 + c.IntN(c.mtu))
	return request{frame: c.frame(p), psn: psn, first: true, last: true}
}

// respond answers a message.
func (c *connection) respond(m message, first uint32) {
	if c.transport == bth.TransportUC || c.options.OneWay {
		return
	}
	switch m.kind {
	case read:
		c.responses(first, m.packets, m.packets)
		c.truth.Complete++
	case atomic:
		c.answer(bth.OpAtomicAcknowledge, first, 0x1F, 0)
		c.truth.Complete++
	default:
		c.answer(bth.OpAcknowledge, (first+uint32(m.packets)-1)&0xFFFFFF, 0x1F, 0)
		c.truth.ACKs++
	}
}

// responses captures the first responses, this many, of a READ of so many packets.
func (c *connection) responses(psn uint32, packets, first int) {
	for i := 0; i < first && !c.options.OneWay; i++ {
		op, size := bth.OpRDMAReadResponseMiddle, c.mtu
		switch {
		case packets == 1:
			op, size = bth.OpRDMAReadResponseOnly, 1
		case i == 0:
			op = bth.OpRDMAReadResponseFirst
		case i == packets-1:
			op, size = bth.OpRDMAReadResponseLast, 1
		}
		c.answer(op, (psn+uint32(i))&0xFFFFFF, 0x1F, size)
	}
}

// answer captures a packet that comes back.
func (c *connection) answer(op bth.Operation, psn uint32, syndrome bth.Syndrome, size int) {
	p := c.packet(c.to, c.from, op, psn)
	p.BTH.AETH.Syndrome = syndrome
	p.BTH.Pad = uint8(-size & 3)
	p.Payload = make([]byte, size)
	f := c.frame(p)
	if op != bth.OpAcknowledge {
		c.truth.Responses++
		c.truth.ResponseOctets += uint64(len(f.Data) - wire.EthernetSize)
	}
	c.frames = append(c.frames, f)
}

// notify captures notifications about the flow.
func (c *connection) notify() {
	data := c.packet(c.from, c.to, bth.OpSendOnly, c.psn)
	ip := c.frame(data).Data[14:]
	var b []byte
	var err error
	switch c.IntN(4) {
	case 0:
		if c.transport == bth.TransportUC && c.truth.SrcQP == 0 {
			return
		}
		b, err = cnp.AppendFor(nil, data, data.FinalDst(), c.from.qp, cnp.Config{})
		c.truth.CNPs++
	case 1:
		if c.from.addr.Is4() {
			return
		}
		b, _, err = fastcnp.AppendFor(nil, data, c.node(), nil, fastcnp.Config{})
		c.truth.Fast++
	case 2:
		b, err = ppfc.AppendFor(nil, data, c.node(), ppfc.Extension{}, ppfc.Config{})
		c.truth.PPFC++
	default:
		var f rocev2.Frame
		f.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP})
		b, err = proxymsg.AppendFor(nil, &f, c.node(), c.node(), 3, proxymsg.Config{})
		c.truth.Proxy++
	}
	if err != nil {
		panic(err)
	}
	c.frames = append(c.frames, framed(b))
}

// exchange captures how connection management names the connection.
func (c *connection) exchange() {
	c.commID += 2
	back := uint32(c.IntN(1 << 24))
	req := cm.REQ{LocalCommID: c.commID, LocalQPN: c.from.qp, StartingPSN: back, PKey: 0xFFFF,
		PathMTU: uint8(bits.Len(uint(c.mtu)) - 8)}
	switch c.transport {
	case bth.TransportUC:
		req.TransportType = cm.TransportTypeUC
	case bth.TransportXRC:
		req.TransportType, req.ExtendedTransport = cm.TransportTypeExtended, cm.ExtendedTransportXRC
	}
	rep := cm.REP{LocalCommID: c.commID + 1, RemoteCommID: c.commID, LocalQPN: c.to.qp, LocalEECN: c.to.qp,
		StartingPSN: c.psn}
	c.mad(c.from, c.to, cm.AttributeREQ, req.AppendBinary)
	if c.IntN(3) == 0 { // retransmitted
		c.mad(c.from, c.to, cm.AttributeREQ, req.AppendBinary)
	}
	c.mad(c.to, c.from, cm.AttributeREP, rep.AppendBinary)
	if c.IntN(3) == 0 {
		c.mad(c.to, c.from, cm.AttributeREP, rep.AppendBinary)
	}
}

func (c *connection) mad(from, to side, a cm.Attribute, body func([]byte) ([]byte, error)) {
	h := cm.NewHeader(a, uint64(c.commID))
	payload, _ := h.AppendBinary(nil)
	payload, err := body(payload)
	if err != nil {
		panic(err)
	}
	p := c.packet(side{from.addr, 1}, side{to.addr, 1}, 0, 0)
	p.BTH.Opcode = bth.UDSendOnly
	p.BTH.DETH = bth.DETH{QKey: 0x80010000, SrcQP: 1}
	p.Payload = payload
	c.frames = append(c.frames, c.frame(p))
}

// packet makes a packet of the connection's transport.
func (c *connection) packet(from, to side, op bth.Operation, psn uint32) *rocev2.Packet {
	p := &rocev2.Packet{Datagram: rocev2.Datagram{
		Src: from.addr, Dst: to.addr, TrafficClass: 26<<2 | uint8(rocev2.ECT0), HopLimit: 64, SrcPort: 50000,
		DstPort: rocev2.Port,
	}}
	p.BTH.Opcode = c.transport.Opcode(op)
	p.BTH.PKey, p.BTH.DestQP, p.BTH.PSN = 0xFFFF, to.qp, psn
	return p
}

func (c *connection) frame(p *rocev2.Packet) *Frame {
	b, err := p.AppendBinary(nil)
	if err != nil {
		panic(err)
	}
	return framed(b)
}

// framed puts an Ethernet header before an IP packet.
func framed(ip []byte) *Frame {
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	b = binary.BigEndian.AppendUint16(b, wire.VersionEther(wire.VersionField(ip)))
	b = append(b, ip...)
	return &Frame{Data: b, Orig: len(b)}
}

// mark sets CE.
func mark(f *Frame) {
	ip := f.Data[wire.EthernetSize:]
	wire.SetTrafficClass(ip, wire.TrafficClass(ip)|uint8(rocev2.CE))
}
