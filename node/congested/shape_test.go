package congested_test

import (
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/rocev2"
)

// An event is a frame that meets congestion.
type event struct {
	Frame   []byte
	Options rocev2.DecodeOptions
	Level   uint8
	Port    uint16
}

// A decision has the fields of a Decision that the tests compare.
type decision struct {
	Packet  message.Kind
	Reason  node.Reason
	Kind    message.Kind
	To      netip.Addr
	Option  uint8
	MarkECN bool

	OwnRecord bool
}

var frame rocev2.Frame

// congest passes a frame that experienced congestion to a role. The reason is ReasonNotOurs also for frames that the
// role ignores.
func congest(a *congested.Role, b []byte, e *event, now time.Time) ([]byte, decision) {
	frame.Decode(e.Frame, e.Options)
	out, d := a.Receive(b, &frame, node.Event{Level: e.Level, Port: e.Port, Now: now})
	return out, decisionOf(&d)
}

// resume informs a role that the queue of a port has reached level 0, and returns the packet that is then due.
func resume(a *congested.Role, out []byte, port uint16, now time.Time) ([]byte, node.Decision) {
	if _, d := a.Receive(out, nil, node.Event{Port: port, Now: now}); d.Action != node.NoAction {
		return out, d
	}
	return a.Due(out, now)
}

func decisionOf(d *node.Decision) decision {
	want := node.NoAction
	switch {
	case d.Message != message.KindOther:
		want = node.ActionSent
	case d.MarkECN:
		want = node.ActionMarked
	case d.Reason != node.NoReason:
		want = node.ActionRefused
	}
	if d.Action != want {
		panic("a Decision that contradicts itself")
	}
	if d.Action == node.NoAction && d.Packet == message.KindOther {
		d.Reason = node.ReasonNotOurs
	}
	return decision{d.Packet, d.Reason, d.Message, d.To, d.Option, d.MarkECN, d.OwnRecord}
}

// icmp gives an agent an ICMPv6 message as package netio does, in an IPv6 packet.
func icmp(a *congested.Role, from netip.Addr, octets []byte, now time.Time) node.Reason {
	src, dst := from.As16(), self6.As16()
	packet = append(packet[:0], 0x60, 0, 0, 0, byte(len(octets)>>8), byte(len(octets)), 58, 64)
	packet = append(append(append(packet, src[:]...), dst[:]...), octets...)
	return icmpFrame(a, packet, rocev2.DecodeOptions{Link: rocev2.LinkIP}, now)
}

var packet []byte // of icmp

// icmpFrame gives it a frame.
func icmpFrame(a *congested.Role, octets []byte, o rocev2.DecodeOptions, now time.Time) node.Reason {
	frame.Decode(octets, o)
	return learned(a, now)
}

func learned(a *congested.Role, now time.Time) node.Reason {
	_, d := a.Receive(nil, &frame, node.Event{Observe: true, Now: now})
	switch {
	case d.Action == node.NoAction:
		return node.ReasonNotOurs
	case d.Action == node.ActionLearned != (d.Reason == node.NoReason):
		panic("a Decision that contradicts itself")
	}
	return d.Reason
}

func counted(a *congested.Role) map[node.Count]uint64 { return maps.Collect(a.Counters().All()) }

func refused(r node.Reason) node.Count { return node.Count{Action: node.ActionRefused, Reason: r} }
func sentKind(k message.Kind) node.Count {
	return node.Count{Action: node.ActionSent, Message: k}
}

var marked, taught = node.Count{Action: node.ActionMarked}, node.Count{Action: node.ActionLearned}

// A decision with the Fast CNP built, beside decoding and building alone. Each
// core has an agent of its own: run with -cpu 1,2.
func BenchmarkCongested(b *testing.B) {
	for _, c := range []struct {
		name  string
		frame []byte
	}{
		{"Option1", data(b)}, {"Option2", data(b, func(p *rocev2.Packet) { p.Ext = wiretest.Hex(b, hops) })},
	} {
		b.Run(c.name+"/DecodeAndBuild", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				var p rocev2.Packet
				cfg := fastcnp.Config{}
				buf := make([]byte, 0, 4096)
				for pb.Next() {
					if p.DecodeIP(c.frame) != nil {
						b.Fail()
					}
					if _, _, err := fastcnp.AppendFor(buf, &p, self6, nil, cfg); err != nil {
						b.Fail()
					}
				}
			})
		})
		b.Run(c.name+"/Decide", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				cfg := method(congested.MethodFastCNP)
				cfg.Out, cfg.PerFlow[0] = node.Rate{PerSecond: 1e9, Burst: 1}, time.Microsecond
				a := agent(b, cfg)
				var f rocev2.Frame
				buf := make([]byte, 0, 4096)
				now := now
				for pb.Next() {
					now = now.Add(time.Microsecond)
					f.Decode(c.frame, ip)
					if _, d := a.Receive(buf, &f, node.Event{Now: now}); d.Message != message.KindFastCNP {
						b.Fail()
					}
				}
			})
		})
	}
}

// BenchmarkLimited measures packets that a limit keeps from being answered, as most packets of a congested queue are.
func BenchmarkLimited(b *testing.B) {
	cfg := method(congested.MethodFastCNP)
	cfg.PerFlow[0] = time.Hour
	a := agent(b, cfg)
	packet := data(b)
	var f rocev2.Frame
	buf, _ := congest(a, nil, &event{Frame: packet, Options: ip}, now)
	b.ReportAllocs()
	for b.Loop() {
		f.Decode(packet, ip)
		a.Receive(buf[:0], &f, node.Event{Now: now})
	}
}
