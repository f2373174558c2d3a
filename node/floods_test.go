package node_test

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// allPairs knows queue pair 0x21 as the sender of each flow.
type allPairs struct{}

func (allPairs) SourceQP(qpmap.Key, time.Time) (qpmap.Pair, error) {
	return qpmap.Pair{SrcQP: 0x21, PKey: 0xFFFF}, nil
}

// A flooded is a role, and the packet that lets it send or accept a message about the packets of a source.
type flooded struct {
	name  string
	role  node.Role
	about func(t *testing.T, source netip.Addr) []byte
	level uint8
}

// congestedFrom returns a congested packet of a source.
func congestedFrom(t *testing.T, source, destination netip.Addr, op bth.Opcode) []byte {
	p := rocev2.Packet{Datagram: rocev2.Datagram{Src: source, Dst: destination, HopLimit: 64, SrcPort: 0xC123,
		DstPort: rocev2.Port, TrafficClass: uint8(rocev2.CE)}}
	p.BTH.Header = bth.Header{Opcode: op, PKey: 0xFFFF, DestQP: 0x31}
	p.BTH.Present, p.BTH.DETH.SrcQP = op.Headers(), 0x21
	return wiretest.Must(p.AppendBinary(nil))(t)
}

// floodedRoles returns the roles with a limit of a thousand messages a second.
func floodedRoles(t *testing.T) []flooded {
	all := netip.MustParsePrefix("::/0")
	limit, accept := node.Rate{PerSecond: 1000, Burst: 100}, acl.New(all)
	sent := func(t *testing.T, source netip.Addr) *rocev2.Frame {
		f := new(rocev2.Frame)
		f.Decode(congestedFrom(t, source, receiver6, bth.RCSendOnly), rocev2.DecodeOptions{Link: rocev2.LinkIP})
		return f
	}
	data := func(op bth.Opcode) func(*testing.T, netip.Addr) []byte {
		return func(t *testing.T, source netip.Addr) []byte { return congestedFrom(t, source, receiver6, op) }
	}
	pe1 := wiretest.Must(ingress.New(ingress.Config{Enabled: true, WAN: pe, Self6: pe, Accept: accept, Out: limit,
		QPs: allPairs{}, Seed: 1, Tunnel: &encap.IPInIPv6{Src: pe, Dst: egressWAN}}))(t)
	return []flooded{
		{name: "switch, Fast CNPs", about: data(bth.RCSendOnly), level: 7,
			role: wiretest.Must(congested.New(congested.Config{Enabled: true, Self6: switch6, Out: limit, Seed: 1,
				Methods: acl.NewMap(acl.Entry[congested.Method]{Prefix: all, Value: congested.MethodFastCNP})}))(t)},
		{name: "receiver, CNPs about connections", about: data(bth.RCSendOnly),
			role: wiretest.Must(receiver.New(receiver.Config{Enabled: true, Self6: receiver6, Out: limit, Seed: 1,
				QPs: allPairs{}}))(t)},
		{name: "receiver, CNPs about datagrams", about: data(bth.UDSendOnly),
			role: wiretest.Must(receiver.New(receiver.Config{Enabled: true, Self6: receiver6, Out: limit,
				Seed: 1}))(t)},
		{name: "sender, Fast CNPs of a switch",
			role: wiretest.Must(sender.New(sender.Config{Enabled: true, Self6: sender6, Accepted: limit,
				QPs: allPairs{}, Accept: accept, Seed: 1}))(t),
			about: func(t *testing.T, source netip.Addr) []byte {
				var p rocev2.Packet
				require.NoError(t, sent(t, sender6).Outer().Packet(&p))
				b, _, err := fastcnp.AppendFor(nil, &p, source, nil, fastcnp.Config{})
				require.NoError(t, err)
				return b
			}},
		{name: "proxy, CNPs",
			role: wiretest.Must(proxy.New(proxy.Config{Enabled: true, Self6: proxy6, Accept: accept, Out: limit,
				QPs: allPairs{}, Seed: 1,
				Senders: acl.NewMap(acl.Entry[proxy.Answer]{Prefix: all, Value: proxy.AnswerCNP})}))(t),
			about: func(t *testing.T, source netip.Addr) []byte {
				return wiretest.Must(proxymsg.AppendFor(nil, sent(t, source), switch6, proxy6, 3, proxymsg.Config{}))(t)
			}},
		{name: "ingress PE, CNPs", role: pe1,
			about: func(t *testing.T, source netip.Addr) []byte {
				f := sent(t, source)
				out, _ := pe1.Receive(nil, f, node.Event{Now: time.Unix(1e9, 0)})
				f.Decode(out, rocev2.DecodeOptions{Link: rocev2.LinkIP})
				return wiretest.Must(fcn.AppendFor(nil, f, switch6, 3, fcn.Config{}))(t)
			}},
		{name: "pause, PPFCs of a switch",
			role: wiretest.Must(pause.New(pause.Config{Enabled: true, Self6: sender6, In: limit, Accept: accept,
				Seed: 1}))(t),
			about: func(t *testing.T, source netip.Addr) []byte {
				n := ppfc.New(0x31, 0xFFFF, ppfc.Extension{Congested: source, Type: ppfc.Stop})
				return wiretest.Must(n.AppendPacket(nil, source, sender6, ppfc.Config{}))(t)
			}},
	}
}

// While one source floods a role with fifty times the limit on all messages, messages about four others, which need
// half of the limit, are not limited. SECURITY.md has the figure.
func TestFloodedLimits(t *testing.T) {
	doc := string(wiretest.Must(os.ReadFile("../SECURITY.md"))(t))
	for _, x := range floodedRoles(t) {
		t.Run(x.name, func(t *testing.T) {
			honest := make([]*rocev2.Frame, 4)
			frame := func(at string) *rocev2.Frame {
				f := new(rocev2.Frame)
				f.Decode(x.about(t, netip.MustParseAddr(at)), rocev2.DecodeOptions{Link: rocev2.LinkIP})
				return f
			}
			for i, at := range []string{"2001:db8:a1::1", "2001:db8:a2::1", "2001:db8:a3::1", "2001:db8:a4::1"} {
				honest[i] = frame(at)
			}
			flood := frame("2001:db8:bad::1")
			now, sent, passed, flooded := time.Unix(1e9, 0), 0, 0, 0
			receive := func(f *rocev2.Frame) bool {
				_, d := x.role.Receive(nil, f, node.Event{Now: now, Level: x.level})
				if d.Action != node.ActionSent && d.Action != node.ActionAccepted {
					require.Equal(t, node.ReasonLimited, d.Reason, "%v", d.Reason)
				}
				return d.Action == node.ActionSent || d.Action == node.ActionAccepted
			}
			for n := range 100_000 {
				if now = now.Add(20 * time.Microsecond); receive(flood) {
					flooded++
				}
				if n%100 == 0 {
					if sent++; receive(honest[sent%4]) {
						passed++
					}
				}
			}
			require.GreaterOrEqual(t, 100*passed, 99*sent)
			require.LessOrEqual(t, passed+flooded, 2000+100)
			row := fmt.Sprintf("| %s | %d | %d |", x.name, sent, passed)
			require.True(t, strings.Contains(doc, row+"\n"), "SECURITY.md: want the row\n%s", row)
		})
	}
}
