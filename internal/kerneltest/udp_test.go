//go:build linux

package kerneltest

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

var (
	peers  = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	judges = []netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::2")}
)

// A datagram that we send reaches an ordinary socket with exactly its data. It does not with any bit of the UDP or
// IPv4 header checksum flipped.
func TestLinuxTakesOurDatagrams(t *testing.T) {
	peer, judge := newHost(t, "peer"), newHost(t, "judge")
	connect(t, peer, "eth0", judge, "eth0")
	judge.address(t, "eth0", "192.0.2.2/24")
	judge.address(t, "eth0", "2001:db8::2/64")
	cable, end := peer.tap(t, "eth0"), judge.tap(t, "eth0")
	for _, c := range datagrams(t) {
		t.Run(c.name, func(t *testing.T) {
			var d rocev2.Datagram
			require.NoError(t, d.DecodeIP(c.packet))
			require.NotZero(t, d.Checksum)
			socket := judge.listen(t, d.Dst, d.DstPort)
			cable.sendIP(t, end, c.packet)
			requireDatagram(t, socket, &d)

			checksums := []int{len(c.packet) - int(d.Length) + 6}
			if d.Src.Is4() {
				checksums = append(checksums, 10)
			}
			for _, at := range checksums {
				for bit := range 16 {
					broken := slices.Clone(c.packet)
					broken[at+bit/8] ^= 0x80 >> (bit % 8)
					cable.sendIP(t, end, broken)
				}
			}
			// The next datagram is none of the changed ones.
			d.SrcPort ^= 1
			good := wiretest.Must(d.AppendBinary(nil))(t)
			cable.sendIP(t, end, good)
			requireDatagram(t, socket, &d)
		})
	}
}

// requireDatagram receives the next datagram, which must be d.
func requireDatagram(t *testing.T, socket *net.UDPConn, d *rocev2.Datagram) {
	t.Helper()
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(packetTimeout)))
	b := make([]byte, 1<<16)
	n, from, err := socket.ReadFromUDPAddrPort(b)
	require.NoError(t, err)
	require.Equal(t, netip.AddrPortFrom(d.Src, d.SrcPort), from)
	require.Equal(t, d.Data, b[:n])
}

type datagram struct {
	name   string
	packet []byte
}

// datagrams are complete packets of every kind that we build.
func datagrams(t *testing.T) (all []datagram) {
	for i, src := range peers {
		dst, family := judges[i], "IPv4"
		if src.Is6() {
			family = "IPv6"
		}
		add := func(name string, packet []byte, err error) {
			t.Helper()
			require.NoError(t, err)
			all = append(all, datagram{name + ", " + family, packet})
		}
		as := rocev2.Carriage{Checksum: true, ECN: 1, FlowLabel: 0xF00D5}

		b, err := fcn.Message{FlowLabel: 0xBEEF5, Level: 7}.AppendPacket(nil, src, dst, fcn.Config{CopyLabel: true})
		add("FCN", b, err)
		b, err = fcn.Message{FlowLabel: 1, Level: 1}.AppendPacket(nil, src, dst, fcn.Config{Carriage: as, Port: 4000})
		add("FCN to another port", b, err)

		c := cnp.New(0x123456, 0xFFFF)
		b, err = c.AppendPacket(nil, src, dst, cnp.Config{Carriage: as})
		add("CNP", b, err)
		for _, congested := range peers {
			n := ppfc.New(0x123456, 0xFFFF, ppfc.Extension{})
			n.Congested, n.Type, n.Port, n.Pause = congested, ppfc.Hold, 7, 1234*time.Microsecond
			b, err = n.AppendPacket(nil, src, dst, ppfc.Config{Carriage: as})
			add("PPFC about "+congested.String(), b, err)
		}

		data := rocev2.Packet{Datagram: rocev2.Datagram{Src: src, Dst: dst, HopLimit: 1, SrcPort: 0xC0DE,
			DstPort: rocev2.Port, Checksum: 1}}
		data.BTH.Header = bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF, DestQP: 7, PSN: 9}
		data.Payload = bytes.Repeat([]byte("rocecn.."), 170)
		b, err = data.AppendBinary(nil)
		add("SEND", b, err)

		var flow rocev2.Frame
		flow.Decode(b, rocev2.DecodeOptions{Link: rocev2.LinkIP})
		b, err = proxymsg.AppendFor(nil, &flow, src, dst, 7, proxymsg.Config{})
		require.Len(t, b, map[bool]int{true: 576, false: 1280}[src.Is4()])
		add("proxy message, full", b, err)
		m := wiretest.Must(proxymsg.For(&flow, 0))(t)
		m.Invoking = m.Invoking[:77]
		b, err = m.AppendPacket(nil, src, dst, proxymsg.Config{Carriage: as, Port: 4001})
		add("proxy message, odd, to another port", b, err)

		d := rocev2.Datagram{Src: src, Dst: dst, HopLimit: 64, SrcPort: 0xC0DE, DstPort: 9, Checksum: 1}
		for n := range 10 {
			d.Data = bytes.Repeat([]byte{0xFF}, n)
			b, err = d.AppendBinary(nil)
			add(fmt.Sprintf("%d octets", n), b, err)
		}
		// A sum of zero is sent as ones: Linux rejects zero over IPv6.
		d.Data = []byte{0, 0}
		b = wiretest.Must(d.AppendBinary(nil))(t)
		d.Data = b[len(b)-4 : len(b)-2]
		b, err = d.AppendBinary(nil)
		require.Equal(t, []byte{0xFF, 0xFF}, b[len(b)-4:len(b)-2])
		add("checksum zero", b, err)

		d.Ext = []byte{1, 1, 1, 0} // No Operation, three times, End of Options
		if src.Is6() {
			w := ipv6opt.Begin(nil, 17)
			require.NoError(t, w.Add(0x1E, 4, 2, []byte("to be skipped")))
			d.NextHeader, d.Ext = ipv6opt.DestinationOptions, w.Finish()
		}
		b, err = d.AppendBinary(nil)
		add("options", b, err)
	}
	return all
}
