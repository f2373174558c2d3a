package proxy

import (
	"bytes"
	"net/netip"
	"time"

	kinds "github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/rocev2"
)

// An answered has the fields of a Decision that the tests compare, unless it rejects the packet.
type answered struct {
	Method   Answer
	Flow     rocev2.FlowKey
	SrcQP    uint32
	Option   uint8
	Level    uint8
	Tuple    rocev2.FiveTuple
	Invoking []byte
}

func (p *Role) answerOf(d *node.Decision) (a answered, reason node.Reason) {
	if d.Reason != node.NoReason {
		if d.Action != node.ActionRefused || d.Message != kinds.KindOther || d.To.IsValid() {
			panic("a refusal has something to send")
		}
		return a, d.Reason
	}
	method := map[kinds.Kind]Answer{kinds.KindCNP: AnswerCNP, kinds.KindFastCNP: AnswerFastCNP,
		kinds.KindPPFC:  AnswerPPFC,
		kinds.KindProxy: AnswerOther}[d.Message]
	if sent := d.Action == node.ActionSent; sent == (method == AnswerOther) || sent && d.To != d.Flow.Src ||
		d.KnownQP != (d.SrcQP != 0) {
		panic("a Decision that contradicts itself")
	}
	var tuple rocev2.FiveTuple
	var invoking []byte
	if d.Action == node.ActionAccepted {
		tuple, invoking = p.Message().FiveTuple, p.Message().Invoking
	}
	return answered{method, d.Flow.FlowKey, d.SrcQP, d.Option, d.Level, tuple, invoking}, node.NoReason
}

var frame rocev2.Frame

// hear gives a proxy a message as package netio does.
func (p *Role) receiveMessage(out []byte, from netip.Addr, data []byte, now time.Time) ([]byte, answered, node.Reason) {
	to := p.self.Like(from)
	if to.BitLen() != from.BitLen() {
		to = from
	}
	p.decodeMessage(from, to, data)
	out, d := p.Receive(out, &frame, node.Event{Now: now})
	a, reason := p.answerOf(&d)
	return out, a, reason
}

// hears decodes a message to the proxy.
func (p *Role) decodeMessage(from, to netip.Addr, data []byte) {
	d := rocev2.Datagram{Src: from, Dst: to, SrcPort: 1000, DstPort: p.cfg.Port, HopLimit: 64, Checksum: 1, Data: data}
	var err error
	if packet, err = d.AppendBinary(packet[:0]); err != nil {
		panic(err)
	}
	frame.Decode(packet, rocev2.DecodeOptions{Link: rocev2.LinkIP})
}

var packet []byte // of hears

// see gives a proxy a datagram out of a capture.
func (p *Role) see(out []byte, d *rocev2.Datagram, now time.Time) ([]byte, answered, node.Reason) {
	out, decision := p.Receive(out, frameOf(d), node.Event{Now: now})
	a, reason := p.answerOf(&decision)
	return out, a, reason
}

func frameOf(d *rocev2.Datagram) *rocev2.Frame {
	f := new(rocev2.Frame)
	f.Decode(append(bytes.Clone(d.Outer), d.IP...),
		rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: d.Truncated})
	return f
}

// observe1 passes a packet to a proxy, and reports whether the proxy processed it.
func (p *Role) observe1(q *rocev2.Packet, now time.Time) bool {
	before := p.observed()
	p.Receive(nil, frameOf(&q.Datagram), node.Event{Now: now})
	return p.observed() > before
}

func (p *Role) observed() uint64 { return p.Counters().Load(node.Count{Effect: node.EffectObserved}) }
func (p *Role) sent() uint64     { return p.Counters().Load(node.Count{Action: node.ActionSent}) }
func (p *Role) refused(r node.Reason) uint64 {
	return p.Counters().Load(node.Count{Action: node.ActionRefused, Reason: r})
}
