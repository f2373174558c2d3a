package roles

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// lockstepQPs is the number of queue pairs of NCCL-like traffic: they all begin with PSN 0, send in turns, and use one
// UDP source port. Queue pair i of the sender has number 1100+i, that of the receiver 100+(i*7)%lockstepQPs.
const lockstepQPs = 64

// lockstepPairs are the queue pairs of one end, with the address of the other end or without.
func lockstepPairs(sends bool, remote netip.Addr) (all []DevicePair) {
	for i := range uint32(lockstepQPs) {
		pair := DevicePair{1100 + i, 100 + i*7%lockstepQPs, remote}
		if !sends {
			pair.QP, pair.RemoteQP = pair.RemoteQP, pair.QP
		}
		all = append(all, pair)
	}
	return all
}

// With the queue pairs of the RDMA device, receiver, proxy and sender answer the marks of queue pairs in lockstep, each
// with the right queue pair. Without them, at most a few can be learned.
func TestLockstepOfDevice(t *testing.T) {
	const rounds = 100
	switchAddr := netip.MustParseAddr("2001:db8:ffff::5")
	wants := map[uint32]uint32{} // sender's queue pair, by the receiver's
	for _, p := range lockstepPairs(true, netip.Addr{}) {
		wants[p.RemoteQP] = p.QP
	}
	about := map[string]func(data []byte) []byte{
		"receiver": func(data []byte) []byte { return data },
		"proxy": func(data []byte) []byte {
			var f rocev2.Frame
			f.Decode(data, rocev2.DecodeOptions{Link: rocev2.LinkIP})
			return wiretest.Must(proxymsg.AppendFor(nil, &f, switchAddr, netip.MustParseAddr("2001:db8:1::fe"), 3,
				proxymsg.Config{}))(t)
		},
		"sender": func(data []byte) []byte {
			var p rocev2.Packet
			require.NoError(t, p.DecodeIP(data))
			b, _, err := fastcnp.AppendFor(nil, &p, switchAddr, nil, fastcnp.Config{})
			require.NoError(t, err)
			return b
		},
	}
	keys := map[string]string{
		"receiver": `{"enabled": true, "self": ["2001:db8:2::b"], "learn": true}`,
		"proxy": `{"enabled": true, "self": ["2001:db8:1::fe"], "accept": ["2001:db8:ffff::/48"],
			"senders": [{"prefix": "2001:db8:1::/64", "send": "cnp"}]}`,
		"sender": `{"enabled": true, "self": ["2001:db8:1::a"], "accept": ["2001:db8:ffff::/48"], "learn": true,
			"as": "cnp"}`,
	}
	for _, c := range []struct {
		role, name string
		pairs      []DevicePair
		answered   bool
	}{
		{"receiver", "addresses", lockstepPairs(false, senderAddr), true},
		{"receiver", "no addresses", lockstepPairs(false, netip.Addr{}), true},
		{"receiver", "learned", nil, false},
		{"proxy", "addresses", lockstepPairs(true, receiverAddr), true},
		{"proxy", "no addresses", lockstepPairs(true, netip.Addr{}), true},
		{"proxy", "learned", nil, false},
		{"sender", "addresses", lockstepPairs(true, receiverAddr), true},
		{"sender", "no addresses", lockstepPairs(true, netip.Addr{}), true},
		{"sender", "learned", nil, false},
	} {
		t.Run(c.role+" "+c.name, func(t *testing.T) {
			r := wiretest.Must(configured(t, c.role, nil, keys[c.role]))(t)
			if c.pairs != nil {
				addrs := []netip.Addr{senderAddr}
				if c.role == "receiver" {
					addrs = nil
				}
				r.(DeviceUser).SetDevice(NewDevice(c.pairs, addrs))
			}
			answered := 0
			v := Driver{Role: r, Report: func(d *node.Decision, out []byte, _ bool) {
				if len(out) == 0 {
					return
				}
				var p rocev2.Packet
				require.NoError(t, p.DecodeIP(out))
				require.Equal(t, bth.CNP, p.BTH.Opcode)
				require.Equal(t, senderAddr, p.Dst)
				require.Equal(t, wants[d.Flow.DestQP], p.BTH.DestQP)
				answered++
			}}
			now := noon
			receive := func(ip []byte) {
				now = now.Add(time.Microsecond)
				r := capture.Record{Data: ip, OrigLen: uint32(len(ip)), Link: capture.Raw, Time: now}
				v.Receive(&r, node.Event{})
			}
			for psn := range uint32(rounds) {
				for i := range uint32(lockstepQPs) {
					data := packet(t, func(p *rocev2.Packet) {
						p.BTH.DestQP, p.BTH.PSN, p.TrafficClass = 100+i*7%lockstepQPs, psn, uint8(rocev2.CE)
					})
					if c.role != "receiver" {
						receive(data)
					}
					receive(about[c.role](data))
				}
				for i := range uint32(lockstepQPs) {
					receive(packet(t, func(p *rocev2.Packet) {
						p.Src, p.Dst = p.Dst, p.Src
						p.BTH.Opcode, p.BTH.DestQP, p.BTH.PSN, p.Payload = bth.RCAcknowledge, 1100+i, psn, nil
					}))
				}
			}
			if c.answered {
				require.Equal(t, rounds*lockstepQPs, answered)
			} else {
				require.Less(t, answered, rounds*lockstepQPs/10)
			}
		})
	}
}

// A device answers only for flows of its host: a flow of another host to the same queue pair number is unknown.
func TestDeviceOfOtherHosts(t *testing.T) {
	other := netip.MustParseAddr("2001:db8:3::c")
	for _, c := range []struct {
		name     string
		src, dst netip.Addr
		destQP   uint32
		remote   netip.Addr
		want     uint32
	}{
		{"received", senderAddr, receiverAddr, 100, senderAddr, 1100},
		{"received, from another host", other, receiverAddr, 100, senderAddr, 0},
		{"received, no address", senderAddr, receiverAddr, 100, netip.Addr{}, 1100},
		{"to another host", senderAddr, other, 100, senderAddr, 0},
		{"another queue pair", senderAddr, receiverAddr, 99, senderAddr, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := wiretest.Must(configured(t, "receiver", nil,
				`{"enabled": true, "self": ["2001:db8:2::b"], "learn": true}`))(t)
			r.(*Receiver).SetDevice(NewDevice(lockstepPairs(false, c.remote), nil))
			check := func(r *Receiver, want uint32) {
				var d node.Decision
				d.Flow.FlowKey = rocev2.FlowKey{Src: c.src, Dst: c.dst, DestQP: c.destQP}
				pair, err := r.pairs.SourceQP(d.Flow, noon)
				require.Equal(t, want, pair.SrcQP, fmt.Sprint(err))
				require.Equal(t, want == 0, r.pairs.Connects(d.Flow, noon) != nil)
			}
			check(r.(*Receiver), c.want)
			r = wiretest.Must(configured(t, "receiver", r, // a reload
				`{"enabled": true, "self": ["2001:db8:2::b"], "learn": true, "interval": "1ms"}`))(t)
			check(r.(*Receiver), c.want)
			r.(*Receiver).SetDevice(nil)
			check(r.(*Receiver), 0)
		})
	}
}
