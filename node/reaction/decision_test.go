package reaction

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// table is a host with the queue pair 0x11, which sends to 0x22 of another host.
type table struct{ far netip.Addr }

func (t table) SourceQP(k qpmap.Key, now time.Time) (qpmap.Pair, error) {
	if k.DestQP != 0x22 || k.Dst != t.far {
		return qpmap.Pair{}, qpmap.ErrUnknown
	}
	return qpmap.Pair{SrcQP: 0x11, PKey: 0xFFFF, Seen: now}, nil
}

func (t table) Sends(qp uint32, dst netip.Addr, _ time.Time) (sends, known bool) {
	return qp == 0x11 && dst == t.far, qp == 0x11
}

// The octets of a Fast CNP, of the CNP that follows it, and of a PPFC, through a sender: the
// first halves the rate, the CNP is the same news again, and the PPFC is no cut.
func TestReact(t *testing.T) {
	var (
		self  = netip.MustParseAddr("2001:db8::1")
		far   = netip.MustParseAddr("2001:db8::2")
		node6 = netip.MustParseAddr("2001:db8::ff")
	)
	s := wiretest.Must(sender.New(sender.Config{
		Enabled: true, Self6: self, Accept: acl.New(netip.PrefixFrom(node6, 128)), QPs: table{far},
		Window: 50 * µs,
	}))(t)
	data := rocev2.Packet{Datagram: rocev2.Datagram{Src: self, Dst: far, SrcPort: 0xC000, DstPort: rocev2.Port,
		TrafficClass: uint8(rocev2.ECT0)}}
	data.BTH.Header = bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF, DestQP: 0x22}
	fast, _, err := fastcnp.AppendFor(nil, &data, node6, nil, fastcnp.Config{})
	require.NoError(t, err)
	message := cnp.New(0x11, 0xFFFF)
	plain := wiretest.Must(message.AppendPacket(nil, far, self, cnp.Config{}))(t)
	stop := ppfc.New(0x22, 0xFFFF, ppfc.Extension{Congested: far, Type: ppfc.Stop, Pause: time.Millisecond})
	paused := wiretest.Must(stop.AppendPacket(nil, node6, self, ppfc.Config{}))(t)

	f := flow(t, PaperDCQCN(40e9))
	h := hpccFlow(t, func(*HPCCConfig) {})
	hear := func(octets []byte, at time.Duration) node.Reason {
		var frame rocev2.Frame
		frame.Decode(octets, rocev2.DecodeOptions{Link: rocev2.LinkIP})
		_, d := s.Receive(nil, &frame, node.Event{Now: start.Add(at)})
		f.React(&d, start.Add(at))
		h.React(&d, []Hop{{B: 100e9, QLen: 125_000}}, start.Add(at))
		return d.Reason
	}
	require.Equal(t, node.NoReason, hear(fast, 0))
	require.EqualValues(t, 20e9, f.Rate())
	require.Equal(t, node.NoReason, hear(plain, 10*µs))
	require.EqualValues(t, 20e9, f.Rate(), "the same congestion")
	require.Equal(t, node.NoReason, hear(paused, 20*µs))
	require.EqualValues(t, 20e9, f.Rate(), "a pause is no cut")
	require.Equal(t, node.NoReason, hear(plain, 50*µs))
	require.EqualValues(t, 10e9, f.Rate(), "news")
	require.EqualValues(t, 100e9, h.Rate(), "without a trace HPCC learns nothing")

	// A rejected notification does not change the rate; only time does.
	forged := wiretest.Must(message.AppendPacket(nil, netip.MustParseAddr("2001:db8::bad"), self, cnp.Config{}))(t)
	require.NotEqual(t, node.NoReason, hear(forged, 51*µs))
	require.EqualValues(t, 10e9, f.Rate())
}
