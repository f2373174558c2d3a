package conform

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
)

// A tester between a host and its receiver, in networks of the kernel, finds the host, and forwards neighbour
// discovery, ARP and datagrams in both directions. F30.1 shows that its messages reach the host. F12.1 may be
// inconclusive, as the load of the machine changes rates.
func TestBridgeOnNetwork(t *testing.T) {
	t.Parallel()
	b := bench{wiretest.NewHost(t, "t"), wiretest.NewHost(t, "d")}
	receiver := wiretest.NewHost(t, "r")
	b.tester.Do(t, func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	})
	wiretest.Link(t, wiretest.End{Host: b.tester, Device: "t0"}, wiretest.End{Host: b.device, Device: "d0",
		Addresses: []string{"2001:db8:c::1/64", "2001:db8:d::1/64", "10.13.0.1/24"}})
	wiretest.Link(t, wiretest.End{Host: b.tester, Device: "t1"}, wiretest.End{Host: receiver, Device: "r0",
		Addresses: []string{"2001:db8:d::2/64", "10.13.0.2/24"}})
	wiretest.AwaitLinks(t, b.tester, b.device, receiver)
	m := newSenderModel(t, senderConfig)
	m.(*hostModel).kernel = true
	startSender(t, b.device, "d0", m)
	v6, v4 := echo(t, b.device, receiver, "[2001:db8:d::2]:7007"), echo(t, b.device, receiver, "10.13.0.2:7007")
	profile := strings.Replace(subjectProfile("sender"), hostPort, bridgePorts, 1)
	profile = strings.Replace(profile, "vlan = 7\n", "", 1)
	results, _ := b.conform(t, profile, "-case", "F02.1,F12.1,F30.1")
	require.Len(t, results, 3)
	require.NotEqual(t, fail, results["F12.1"].Verdict, results["F12.1"].Seen)
	delete(results, "F12.1")
	b.requirePass(t, profile, results, nil)
	require.True(t, <-v6)
	require.True(t, <-v4)
}

// withoutChecksum makes a socket send and accept datagrams without a checksum, which the kernel would leave to the
// network card: a bridge of packet sockets does not see it.
func withoutChecksum(network, _ string, c syscall.RawConn) (err error) {
	const noCheck6Tx, noCheck6Rx = 101, 102 // of linux/udp.h
	if e := c.Control(func(fd uintptr) {
		if network == "udp4" {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_NO_CHECK, 1)
			return
		}
		err = errors.Join(syscall.SetsockoptInt(int(fd), syscall.IPPROTO_UDP, noCheck6Tx, 1),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_UDP, noCheck6Rx, 1))
	}); e != nil {
		return e
	}
	return err
}

// echo exchanges a datagram between two hosts, with retransmissions until the test ends. It sends whether that worked.
func echo(t *testing.T, from, to *wiretest.Host, address string) <-chan bool {
	t.Helper()
	var near, far net.PacketConn
	network, any := "udp4", "0.0.0.0:0"
	if strings.HasPrefix(address, "[") {
		network, any = "udp6", "[::]:0"
	}
	c := net.ListenConfig{Control: withoutChecksum}
	to.Do(t, func() (err error) { far, err = c.ListenPacket(t.Context(), network, address); return err })
	from.Do(t, func() (err error) { near, err = c.ListenPacket(t.Context(), network, any); return err })
	t.Cleanup(func() {
		far.Close()
		near.Close()
	})
	go func() {
		b := make([]byte, 100)
		for {
			n, peer, err := far.ReadFrom(b)
			if err != nil {
				return
			}
			far.WriteTo(b[:n], peer)
		}
	}()
	result := make(chan bool, 1)
	go func() {
		peer, err := net.ResolveUDPAddr("udp", address)
		b := make([]byte, 100)
		for range 200 {
			if err != nil {
				break
			}
			near.WriteTo([]byte("hello"), peer)
			near.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			if n, _, err := near.ReadFrom(b); err == nil && string(b[:n]) == "hello" {
				result <- true
				return
			}
		}
		result <- false
	}()
	return result
}

// The time of a frame is that of its arrival, not that of reading it, and its port is that of its interface. The tester
// has the hardware addresses of its interfaces.
func TestTimeOfArrival(t *testing.T) {
	socket := wiretest.Cable(t)
	p := &profile{Ports: []port{{Interface: "near"}, {Interface: "far"}}}
	r := wiretest.Must(openNetwork(t.Context(), p))(t)
	defer r.close()
	for _, port := range p.Ports {
		device := wiretest.Must(net.InterfaceByName(port.Interface))(t)
		require.Equal(t, []byte(device.HardwareAddr), port.MAC.mac[:])
	}
	// first returns the time of the first frame that arrives at a port, after a frame with this number has arrived.
	first := func(port int, number byte) (at time.Time) {
		for arrived := false; !arrived; {
			for _, a := range wiretest.Must(r.receive(time.Now().Add(time.Minute)))(t) {
				require.Equal(t, port, a.port)
				if at.IsZero() {
					at = a.at
				}
				arrived = arrived || a.frame[14] == number
			}
		}
		return at
	}
	other := wiretest.Must(netio.OpenPackets(netio.PacketConfig{Interface: "far", Direction: netio.In}))(t)
	defer other.Close()
	poll := wiretest.Must(netio.NewPoll(t.Context(), other))(t)
	defer poll.Close()
	frame := appendEthernet(nil, mac{2}, mac{4}, 0, make([]byte, 46))
	early := false
	// The kernel may not set the times of the first frames.
	deadline := time.Now().Add(time.Minute)
	for number := byte(1); !early && time.Now().Before(deadline); number = number%255 + 1 {
		frame[14] = 0
		socket.Send(t, frame)
		frame[14] = number
		socket.Send(t, frame)
		for arrived := false; !arrived; { // after the second frame, the first one is in all sockets
			_, packets, err := poll.Next(time.Minute)
			require.NoError(t, err)
			for _, packet := range packets {
				arrived = arrived || packet.Data[14] == number
			}
		}
		before := time.Now()
		early = first(1, number).Before(before)
	}
	require.True(t, early)
	require.NoError(t, r.send(1, frame))
	first(0, frame[14])
}
