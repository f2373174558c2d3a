package repo

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// Every builder rejects notifications and acknowledgements; the builders of messages to the source reject packets in a
// tunnel as well. The error is that of the first fault.
func TestBuildersRejectTheSame(t *testing.T) {
	self, pe := netip.MustParseAddr("2001:db8:ffff::5"), netip.MustParseAddr("2001:db8:e::1")
	packet := func(op bth.Opcode, ext string) []byte {
		p := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: op, DestQP: 17}}, Payload: make([]byte, 16)}
		p.Src, p.Dst = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
		p.DstPort, p.TrafficClass, p.Ext = rocev2.Port, uint8(rocev2.ECT0), wiretest.Hex(t, ext)
		return wiretest.Must(p.AppendBinary(nil))(t)
	}
	tunnelled := func(inner []byte) []byte {
		return wiretest.Must((&encap.IPInIPv6{Src: pe, Dst: self}).Append(nil, inner, 5))(t)
	}
	const options = "1100 0104 00000000"
	for _, c := range []struct {
		name   string
		packet []byte
		inner  bool  // the inner source may be answered
		err    error // of those that go to the source
		others error // of those that go to another node
	}{
		{"data", packet(bth.RCSendOnly, ""), false, nil, nil},
		{"CNP", packet(bth.CNP, ""), false, rocev2.ErrNotification, rocev2.ErrNotification},
		{"CNP, options", packet(bth.CNP, options), false, rocev2.ErrNotification, rocev2.ErrNotification},
		{"ack", packet(bth.RCAcknowledge, ""), false, rocev2.ErrAcknowledgement, rocev2.ErrAcknowledgement},
		{"atomic ack, options", packet(bth.TransportRD.Opcode(bth.OpAtomicAcknowledge), options), false,
			rocev2.ErrAcknowledgement, rocev2.ErrAcknowledgement},
		{"tunnelled", tunnelled(packet(bth.RCSendOnly, "")), false, rocev2.ErrTunnelled, nil},
		{"tunnelled, inner source", tunnelled(packet(bth.RCSendOnly, "")), true, nil, nil},
		{"tunnelled CNP", tunnelled(packet(bth.CNP, "")), false, rocev2.ErrNotification, rocev2.ErrNotification},
		{"tunnelled ack", tunnelled(packet(bth.TransportXRC.Opcode(bth.OpAcknowledge), "")), true,
			rocev2.ErrAcknowledgement, rocev2.ErrAcknowledgement},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p rocev2.Packet
			require.NoError(t, p.DecodeIP(c.packet))
			if err := p.MayAnswer(); !c.inner || err != rocev2.ErrTunnelled {
				require.Equal(t, c.err, err)
			}
			for _, build := range []func(b []byte) ([]byte, error){
				func(b []byte) ([]byte, error) {
					return cnp.AppendFor(b, &p, p.FinalDst(), 1, cnp.Config{InnerSource: c.inner})
				},
				func(b []byte) ([]byte, error) {
					return ppfc.AppendFor(b, &p, self, ppfc.Extension{}, ppfc.Config{InnerSource: c.inner})
				},
				func(b []byte) ([]byte, error) {
					out, _, err := fastcnp.AppendFor(b, &p, self, nil, fastcnp.Config{InnerSource: c.inner})
					return out, err
				},
			} {
				out, err := build([]byte{9})
				require.Equal(t, c.err, err)
				require.Equal(t, err != nil, len(out) == 1)
				wiretest.NoAllocs(t, c.name, func() { _ = p.MayAnswer() })
			}

			var f rocev2.Frame
			f.Decode(c.packet, rocev2.DecodeOptions{Link: rocev2.LinkIP})
			require.Equal(t, c.others, f.MayAnswer())
			wiretest.NoAllocs(t, c.name, func() { _ = f.MayAnswer() })
			_, err := proxymsg.AppendFor(nil, &f, self, pe, 0, proxymsg.Config{})
			require.Equal(t, c.others, err)
			if f.Tunnelled() {
				_, err = fcn.AppendFor(nil, &f, self, 1, fcn.Config{})
				require.Equal(t, c.others, err)
			}
		})
	}
}

// FCN and proxy messages are notifications too: no message to another node is about one, in a tunnel or not, to the
// experimental ports or to the configured one.
func TestBuildersRejectFCNAndProxyMessages(t *testing.T) {
	node, ingress := netip.MustParseAddr("2001:db8:ffff::5"), netip.MustParseAddr("2001:db8:e::1")
	for _, c := range []struct {
		name string
		port uint16
		err  error
	}{
		{"FCN", 1021, rocev2.ErrNotification},
		{"proxy message", 1022, rocev2.ErrNotification},
		{"configured port", 5000, rocev2.ErrNotification},
		{"other traffic", 5001, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := rocev2.Datagram{
				Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"),
				TrafficClass: uint8(rocev2.ECT0), HopLimit: 64, DstPort: c.port, Data: make([]byte, 40),
			}
			inner := wiretest.Must(d.AppendBinary(nil))(t)
			outer, err := (&encap.IPInIPv6{Src: ingress, Dst: node}).Append(nil, inner, 5)
			require.NoError(t, err)
			for _, packet := range [][]byte{inner, outer} {
				var f rocev2.Frame
				f.Decode(packet, rocev2.DecodeOptions{Link: rocev2.LinkIP})
				_, err = proxymsg.AppendFor(nil, &f, node, ingress, 1, proxymsg.Config{Port: 5000})
				require.Equal(t, c.err, err)
				if f.Tunnelled() {
					_, err = fcn.AppendFor(nil, &f, node, 1, fcn.Config{Port: 5000})
					require.Equal(t, c.err, err)
				}
			}
		})
	}
}

// A PPFC that is built without any choice stops the flow of the congested packet
// at its sender.
func TestPPFCStopsTheFlow(t *testing.T) {
	self := netip.MustParseAddr("2001:db8:ffff::5")
	var congested rocev2.Packet
	congested.Src, congested.Dst = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	congested.BTH.Header = bth.Header{Opcode: bth.RCSendOnly, DestQP: 17}
	now := time.Unix(1795254649, 0)
	stop := ppfc.Extension{Type: ppfc.Stop, Pause: time.Millisecond}
	for _, c := range []struct {
		cfg  ppfc.Config
		want pause.State
	}{
		{ppfc.Config{}, pause.StateStopped},
		{ppfc.Config{NodeAddress: true}, pause.StateRunning},
	} {
		packet := wiretest.Must(ppfc.AppendFor(nil, &congested, self, stop, c.cfg))(t)
		table := wiretest.Must(pause.New(pause.Config{
			Enabled: true, Self6: congested.Src, Accept: acl.New(netip.PrefixFrom(self, 128)),
		}))(t)
		var f rocev2.Frame
		f.Decode(packet, rocev2.DecodeOptions{Link: rocev2.LinkIP})
		_, d := table.Receive(nil, &f, node.Event{Now: now})
		require.Equal(t, node.ActionAccepted, d.Action)
		state, _ := table.State(pause.FlowTarget(congested.Dst, 17), now)
		require.Equal(t, c.want, state)
	}
}
