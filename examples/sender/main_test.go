package main

import (
	"bytes"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A datagram tells the host's queue pair; then a switch reports congestion with
// the hops of the way, the receiver reports the same again, and a stranger lies.
func TestSender(t *testing.T) {
	hops := wiretest.Hex(t, "1103 0100 311a 0000 007b 1002 82000000 00000000 00000000 40000007 00000009")
	p := rocev2.Packet{Payload: make([]byte, 64),
		BTH: bth.Headers{Header: bth.Header{Opcode: bth.UDSendOnly, DestQP: 0x11}, DETH: bth.DETH{SrcQP: 0x22}}}
	p.Src, p.Dst, p.SrcPort, p.DstPort = netip.MustParseAddr("2001:db8:1::a"), netip.MustParseAddr("2001:db8:4::e"),
		50000, rocev2.Port
	p.Ext = hops
	data := wiretest.Must(p.AppendBinary(nil))(t)
	require.NoError(t, p.DecodeIP(data))
	fast, _, err := fastcnp.AppendFor(nil, &p, netip.MustParseAddr("2001:db8:ffff::5"), nil, fastcnp.Config{})
	require.NoError(t, err)
	forged, _, err := fastcnp.AppendFor(nil, &p, netip.MustParseAddr("2001:db8:bad::5"), nil, fastcnp.Config{})
	require.NoError(t, err)
	plain := wiretest.Must(cnp.AppendFor(nil, &p, p.FinalDst(), 0x22, cnp.Config{}))(t)

	pause := func(asked ppfc.Type, pause time.Duration) []byte {
		n := ppfc.New(p.BTH.DestQP, 0xFFFF, ppfc.Extension{Congested: p.FinalDst(), Type: asked, Pause: pause})
		return wiretest.Must(n.AppendPacket(nil, netip.MustParseAddr("2001:db8:ffff::5"), p.Src, ppfc.Config{}))(t)
	}
	stop, resume := pause(ppfc.Stop, 100*time.Microsecond), pause(ppfc.Resume, 0) // accepted as well

	var file bytes.Buffer
	w := pcapgo.NewWriter(&file)
	require.NoError(t, w.WriteFileHeader(1<<16, layers.LinkTypeEthernet))
	for i, ip := range [][]byte{data, fast, plain, stop, resume, forged} {
		frame := append(wiretest.Hex(t, "020000000002 020000000001 86dd"), ip...)
		info := gopacket.CaptureInfo{Timestamp: time.Unix(1795254649, int64(i)*1000), CaptureLength: len(frame),
			Length: len(frame)}
		require.NoError(t, w.WritePacket(info, frame))
	}
	in := wiretest.Must(capture.Open(&file))(t)
	s := wiretest.Must(sender.New(sender.Config{
		Enabled: true, Self6: p.Src, QPs: qpmap.New(qpmap.Config{}), Window: 100 * time.Microsecond,
		Accept: acl.New(netip.MustParsePrefix("2001:db8:ffff::/48")),
	}))(t)
	var out strings.Builder
	require.NoError(t, printRequests(in, &out, s))
	require.Regexp(t, `^queue pair 0x22: slow down, by fastcnp from 2001:db8:ffff::5 \(network\)
  from now on: UDP source port \d+
  node 7: queue 9
queue pair 0x22: stop for 100µs, by 2001:db8:ffff::5
queue pair 0x22: resume, by 2001:db8:ffff::5
refused: denied
$`, out.String())
}

// The command of the documentation, on the capture that it names. The first notifications come before the queue pair is
// known, which names none in them.
func TestTour(t *testing.T) {
	file, err := os.Open(wiretest.Path(t, "tour.pcap"))
	require.NoError(t, err)
	defer file.Close()
	in, err := capture.Open(file)
	require.NoError(t, err)
	s, err := sender.New(sender.Config{Enabled: true, QPs: qpmap.New(qpmap.Config{}), Window: 100 * time.Microsecond,
		Self6: netip.MustParseAddr("2001:db8:1::1"), Accept: acl.New(netip.MustParsePrefix("2001:db8:ffff::/48"))})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, printRequests(in, &out, s))
	require.Equal(t, `refused: unknown_qp
refused: unknown_qp
refused: unknown_qp
queue pair 0x0: stop for 100µs, by 2001:db8:ffff::5
queue pair 0x0: resume, by 2001:db8:ffff::5
queue pair 0x11: slow down, by cnp from 2001:db8:ffff::1 (receiver)
refused: unknown_qp
`, out.String())
}
