package ingress

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/internal/wiretest"
	kinds "github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/rocev2"
)

// A notice has the fields of a Decision about a CNP that the tests compare.
type notice struct {
	Flow   rocev2.FlowKey
	Domain uint32
	Label  uint32
	SrcQP  uint32
	Level  uint8
}

func noticeOf(d *node.Decision) (n notice, reason node.Reason) {
	if d.Reason != node.NoReason {
		if d.Action != node.ActionRefused || d.Message != kinds.KindOther || d.To.IsValid() {
			panic("a refusal has something to send")
		}
		return n, d.Reason
	}
	if d.Action != node.ActionSent || d.Message != kinds.KindCNP || d.To != d.Flow.Src || !d.KnownQP {
		panic("no CNP, and no reason")
	}
	return notice{d.Flow.FlowKey, d.Flow.Domain, d.Label, d.SrcQP, d.Level}, d.Reason
}

var frame rocev2.Frame

var packet []byte // of hear

// hear gives a PE an FCN as package netio does.
func (pe *Role) receiveFCN(out []byte, from netip.Addr, data []byte, now time.Time) ([]byte, notice, node.Reason) {
	to := pe.cfg.WAN
	if to.BitLen() != from.BitLen() {
		to = from
	}
	message := rocev2.Datagram{
		Src: from, Dst: to, SrcPort: 1000, DstPort: pe.cfg.Port, HopLimit: 64, Checksum: 1, Data: data,
	}
	var err error
	if packet, err = message.AppendBinary(packet[:0]); err != nil {
		panic(err)
	}
	frame.Decode(packet, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	out, d := pe.Receive(out, &frame, node.Event{Now: now})
	n, reason := noticeOf(&d)
	return out, n, reason
}

// see gives a PE a datagram out of a capture.
func (pe *Role) see(out []byte, d *rocev2.Datagram, now time.Time) ([]byte, notice, node.Reason) {
	frame.Decode(append(bytes.Clone(d.Outer), d.IP...), rocev2.DecodeOptions{Link: rocev2.LinkIP,
		AllowTruncated: d.Truncated})
	out, decision := pe.Receive(out, &frame, node.Event{Now: now})
	n, reason := noticeOf(&decision)
	return out, n, reason
}

// jam passes a packet that waits in a queue of the PE, in a tunnel if Outer is set.
func (pe *Role) receiveQueued(t testing.TB, out []byte, p *rocev2.Packet, domain uint32, now time.Time) ([]byte, notice,
	node.Reason) {
	frame.Decode(octetsOf(t, p), rocev2.DecodeOptions{Link: rocev2.LinkIP})
	out, d := pe.Receive(out, &frame, node.Event{Domain: domain, Level: 1, Now: now})
	n, reason := noticeOf(&d)
	return out, n, reason
}

// enter gives a PE a frame that enters the WAN in a tunnel.
func (pe *Role) enter(
	out []byte, f *rocev2.Frame, domain uint32, via encap.Tunnel, now time.Time,
) ([]byte, node.Decision) {
	pe.cfg.Tunnel = via
	return pe.Receive(out, f, node.Event{Domain: domain, Now: now})
}

// learnOnly gives a PE a frame of a tunnel, to learn from.
func (pe *Role) learnOnly(f *rocev2.Frame, domain uint32, now time.Time) node.Decision {
	_, d := pe.Receive(nil, f, node.Event{Domain: domain, Now: now})
	return d
}

// expired returns the number of flows that expire by a time.
func (pe *Role) expired(now time.Time) int {
	before := pe.Len()
	pe.Due(nil, now)
	return before - pe.Len()
}

// octetsOf returns the octets of a packet, in a tunnel if Outer is set.
func octetsOf(t testing.TB, p *rocev2.Packet) []byte {
	t.Helper()
	inner := *p
	inner.Outer = nil
	b := wiretest.Must(inner.AppendBinary(nil))(t)
	if len(p.Outer) > 0 {
		b = wiretest.Must(tunnel.Append(nil, b, 0))(t)
	}
	return b
}

// A forwarded has the fields of a Decision about a forwarded packet that the tests compare.
type forwarded struct {
	Label  uint32
	RoCEv2 bool
	Reason node.Reason
}

// send forwards an IP packet, or returns an error.
func (pe *Role) send(out, ip []byte, domain uint32, via encap.Tunnel, now time.Time) ([]byte, forwarded, error) {
	frame.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	before := len(out)
	out, d := pe.enter(out, &frame, domain, via, now)
	f := forwarded{d.Label, d.Packet != kinds.KindOther, d.Reason}
	switch {
	case d.Action == node.ActionRefused:
		return out, f, errors.New(d.Reason.String())
	case d.Action == node.ActionForwarded && !f.RoCEv2:
		panic("a Decision that contradicts itself")
	case len(out) == before:
		return out, f, errNotForwarded
	case f.RoCEv2 && d.Action != node.ActionForwarded:
		panic("RoCEv2 that was appended is not Forwarded")
	}
	return out, f, nil
}

var errNotForwarded = errors.New("not forwarded")

// give returns the label of a flow, by a packet without octets.
func (pe *Role) give(p *rocev2.Packet, domain uint32, now time.Time) (uint32, node.Reason) {
	d := node.Decision{Packet: role.KindOf(p.BTH.Opcode), Reason: node.ReasonDisabled}
	if pe.cfg.Enabled {
		d.Reason = node.NoReason
		d.Reason = pe.assignLabel(p, domain, &d, now)
	}
	pe.counters.Settle(&d)
	return d.Label, d.Reason
}

func (pe *Role) counted(a node.Action) uint64 { return pe.Counters().Load(node.Count{Action: a}) }
func (pe *Role) effect(e node.Effect) uint64  { return pe.Counters().Load(node.Count{Effect: e}) }
func (pe *Role) refused(r node.Reason) uint64 {
	return pe.Counters().Load(node.Count{Action: node.ActionRefused, Reason: r})
}
