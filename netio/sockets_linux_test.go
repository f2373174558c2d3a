package netio

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// pair returns two hosts with two cables between them. Packets from a to b take the first one by default.
func pair(t *testing.T) (a, b *wiretest.Host) {
	t.Helper()
	a, b = wiretest.NewHost(t, "a"), wiretest.NewHost(t, "b")
	wiretest.Link(t, wiretest.End{Host: a, Device: "one", Addresses: []string{"192.0.2.1/24", "2001:db8:1::a/64"}},
		wiretest.End{Host: b, Device: "one", Addresses: []string{"192.0.2.2/24", "2001:db8:1::b/64"}})
	wiretest.Link(t, wiretest.End{Host: a, Device: "two"}, wiretest.End{Host: b, Device: "two"})
	a.Run(t, "", "ip", "route", "add", "192.0.2.0/24", "dev", "two", "metric", "999")
	a.Run(t, "", "ip", "route", "add", "2001:db8:1::/64", "dev", "two", "metric", "999")
	b.Run(t, "", "ip", "link", "set", "two", "address", "02:00:00:00:00:0b")
	for _, address := range []string{"192.0.2.2", "2001:db8:1::b"} {
		a.Run(t, "", "ip", "neigh", "add", address, "lladdr", "02:00:00:00:00:0b", "dev", "two")
	}
	return a, b
}

// datagram returns an IP packet with a UDP datagram from an address that no host has.
func datagram(t *testing.T, to string, port uint16, class, hops uint8, data string) []byte {
	t.Helper()
	d := rocev2.Datagram{
		Src: netip.MustParseAddr("2001:db8:1::77"), Dst: netip.MustParseAddr(to), SrcPort: 49152, DstPort: port,
		TrafficClass: class, HopLimit: hops, Flags: 2, Checksum: 1, Data: []byte(data),
	}
	if d.Dst.Is4() {
		d.Src = netip.MustParseAddr("192.0.2.77")
	}
	return wiretest.Must(d.AppendBinary(nil))(t)
}

// icmpv6 returns an IPv6 packet with an ICMPv6 message of a type.
func icmpv6(kind uint8) []byte {
	ip := make([]byte, 40+8+4)
	ip[0], ip[1], ip[5], ip[6], ip[7] = 0x6b, 0x80, 12, 58, 255
	src, dst := netip.MustParseAddr("2001:db8:1::77").As16(), netip.MustParseAddr("2001:db8:1::b").As16()
	copy(ip[8:], src[:])
	copy(ip[24:], dst[:])
	ip[40], ip[41], ip[51] = kind, 2, 0x9e
	sum := uint32(12 + 58)
	for i := 8; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	binary.BigEndian.PutUint16(ip[42:], ^uint16(sum))
	return ip
}

// A packet sent by a raw sink comes out of a UDP socket and of an ICMPv6 socket on another host with the same
// addresses, ports, DSCP, ECN, hop limit, checksum and data.
func TestSockets(t *testing.T) {
	a, b := pair(t)
	both := wiretest.Open(t, b, ListenUDP, ":0")
	four := wiretest.Open(t, b, ListenUDP, "192.0.2.2:0")
	six := wiretest.Open(t, b, ListenUDP, "[2001:db8:1::b]:0")
	icmp := wiretest.On(t, b, func() (SocketSource, error) { return ListenICMPv6(netip.IPv6Unspecified(), 4, 200) })
	all := wiretest.On(t, b, func() (SocketSource, error) { return ListenICMPv6(netip.MustParseAddr("2001:db8:1::b")) })
	require.Equal(t, "192.0.2.2", four.Local().Addr().String())
	raw := wiretest.Open(t, a, OpenRaw, "")
	p, stop := poll(t, both, four, six, icmp, all)

	sent := [][][]byte{
		{
			datagram(t, "192.0.2.2", both.Local().Port(), 48<<2|1, 64, "four"),
			datagram(t, "2001:db8:1::b", both.Local().Port(), 46<<2|3, 1, "six, at both"),
		},
		{datagram(t, "192.0.2.2", four.Local().Port(), 0, 255, "")},
		{datagram(t, "2001:db8:1::b", six.Local().Port(), 255, 17, string(make([]byte, 1400)))},
		{icmpv6(4), icmpv6(200)},
		{icmpv6(4), icmpv6(200), icmpv6(201)},
	}
	want := 0
	for i, packets := range sent {
		want += len(packets)
		for _, packet := range packets {
			if i != 3 { // the last one gets all of them
				require.NoError(t, raw.Send(packet))
			}
		}
	}
	require.NoError(t, raw.Flush())
	got := make([][][]byte, len(sent))
	for want > 0 {
		source, batch, err := p.Next(wiretest.Timeout)
		require.NoError(t, err)
		require.NotEmpty(t, batch)
		for i := range batch {
			if source == 4 && batch[i].Data[40] > 129 && batch[i].Data[40] < 200 {
				continue // of the neighbour
			}
			want--
			got[source] = append(got[source], append([]byte(nil), batch[i].Data...))
			require.EqualValues(t, len(batch[i].Data), batch[i].OrigLen)
			require.Equal(t, rocev2.DecodeOptions{Link: rocev2.LinkIP}, batch[i].Options())
			require.False(t, batch[i].Time.IsZero())
			require.Positive(t, batch[i].Interface)
		}
	}
	for i := range sent {
		require.ElementsMatch(t, sent[i], got[i], i)
	}
	stop()
	for err := error(nil); err != io.EOF; _, _, err = p.Next(-1) {
		require.NoError(t, err)
	}
	require.Zero(t, raw.Failed())
}

// A socket at 0.0.0.0 receives only IPv4: nothing listens at that port of ::1.
func TestListenIPv4(t *testing.T) {
	wiretest.Namespace(t, "link set lo up")
	in, err := ListenUDP("0.0.0.0:0")
	require.NoError(t, err)
	defer in.Close()
	require.Equal(t, netip.IPv4Unspecified(), in.Local().Addr())
	for _, c := range []struct {
		name string
		want error
	}{{"127.0.0.1", nil}, {"::1", unix.ECONNREFUSED}} {
		out, err := net.Dial("udp", netip.AddrPortFrom(netip.MustParseAddr(c.name), in.Local().Port()).String())
		require.NoError(t, err)
		defer out.Close()
		_, err = out.Write(nil)
		require.NoError(t, err)
		_, err = out.Write(nil) // which the one before has met
		require.ErrorIs(t, err, c.want)
	}
	p, _ := poll(t, in)
	takePackets(t, p, 2)
	for _, group := range []string{"224.0.0.5:1021", "224.0.0.5:domain", "[ff02::5]:1021", "[ff02::5%lo]:1021"} {
		_, err = ListenUDP(group)
		require.ErrorIs(t, err, errGroup)
	}
	named := wiretest.Must(ListenUDP("0.0.0.0:domain"))(t)
	defer named.Close()
	require.Equal(t, netip.AddrPortFrom(netip.IPv4Unspecified(), 53), named.Local())
}

// Datagrams lost after the last one that was read count too.
func TestLostBehind(t *testing.T) {
	wiretest.Namespace(t, "link set lo up")
	in := wiretest.Must(ListenUDP("127.0.0.1:0"))(t)
	defer in.Close()
	out, err := net.Dial("udp", in.Local().String())
	require.NoError(t, err)
	defer out.Close()
	const sent = 20_000
	for range sent {
		_, err = out.Write(make([]byte, 1400))
		require.NoError(t, err)
	}
	require.NoError(t, in.Stop())
	_, err = out.Write(nil) // not before Stop
	require.NoError(t, err)
	read := readAll(t, in)
	require.Less(t, read, sent)
	require.EqualValues(t, sent-read, in.Lost())
}

// A datagram to a port without a listener, or one that a firewall dropped, does not keep later ones back.
func TestDialRefused(t *testing.T) {
	nft := wiretest.Tool(t, "nft")
	wiretest.Namespace(t, "link set lo up")
	const address = "127.0.0.1:1021"
	out := wiretest.Must(DialUDP(address, 0, 1))(t)
	defer out.Close()
	require.NoError(t, out.Send([]byte("nobody")))
	in := wiretest.Must(ListenUDP(address))(t)
	defer in.Close()
	require.NoError(t, out.Send([]byte("somebody")))
	p, _ := poll(t, in)
	require.Equal(t, "somebody", string(takePackets(t, p, 1)[0].Data[28:]))

	const rule = "udp dport 1021 reject with icmpx admin-prohibited"
	require.NoError(t, exec.Command(nft, "table inet t { chain c { type filter hook input priority filter; "+
		rule+"; }; }").Run())
	require.NoError(t, out.Send([]byte("refused")))
	require.NoError(t, exec.Command(nft, "delete table inet t").Run())
	require.NoError(t, out.Send([]byte("allowed")))
	require.Equal(t, "allowed", string(takePackets(t, p, 1)[0].Data[28:]))
	require.Zero(t, out.Failed())
}

// ICMPv6 to a link-local address is that of the interface which its zone names.
func TestICMPv6Zone(t *testing.T) {
	_, b := pair(t)
	var number string
	var local netip.Addr
	b.Do(t, func() error {
		two, err := net.InterfaceByName("two")
		if err != nil {
			return err
		}
		number = strconv.Itoa(two.Index)
		addresses, err := two.Addrs()
		for _, a := range addresses {
			local, _ = netip.AddrFromSlice(a.(*net.IPNet).IP)
		}
		return err
	})
	require.True(t, local.IsLinkLocalUnicast(), local)
	wiretest.Await(t, "the link-local address can be bound", func() bool {
		return b.Run(t, "", "ip", "-6", "address", "show", "dev", "two", "tentative") == ""
	})
	for _, zone := range []string{"two", number} {
		at := local.WithZone(zone)
		s := wiretest.On(t, b, func() (SocketSource, error) { return ListenICMPv6(at, 4) })
		require.Equal(t, at, s.Local().Addr())
	}
	require.ErrorIs(t, b.Try(func() error {
		_, err := ListenICMPv6(local.WithZone("nowhere"))
		return err
	}), ErrNoInterface)
}

// A raw sink leaves a packet unchanged and sends it through the given device. A packet that cannot be sent does not
// keep others back.
func TestRaw(t *testing.T) {
	a, b := pair(t)
	one := wiretest.Open(t, b, OpenPackets, PacketConfig{Interface: "one"})
	two := wiretest.Open(t, b, OpenPackets, PacketConfig{Interface: "two"})
	routed := wiretest.Open(t, a, OpenRaw, "")
	bound := wiretest.Open(t, a, OpenRaw, "two")
	four, six := datagram(t, "192.0.2.2", 9, 1, 64, "four"), datagram(t, "2001:db8:1::b", 9, 1, 64, "six")
	nowhere4, nowhere6 := datagram(t, "198.51.100.1", 9, 1, 64, ""), datagram(t, "2001:db8:2::1", 9, 1, 64, "")
	long := append(append([]byte(nil), four...), make([]byte, maxMemory)...)
	var unsent [][]byte
	var causes []error
	routed.(UnsentReporter).OnUnsent(func(packet []byte, err error) {
		unsent, causes = append(unsent, slices.Clone(packet)), append(causes, err)
	})
	for _, packet := range [][]byte{nowhere4, four, nowhere4, nowhere6, six} {
		require.NoError(t, routed.Send(packet))
	}
	require.Equal(t, unix.ENETUNREACH, routed.Flush())
	require.NoError(t, routed.Flush())
	require.EqualValues(t, 3, routed.Failed())
	for _, packet := range [][]byte{{}, four[:19], six[:39], {0x50}} {
		require.Equal(t, errNotIP, routed.Send(packet))
	}
	require.Equal(t, unix.EMSGSIZE, routed.Send(long))
	require.EqualValues(t, 8, routed.Failed())
	require.Equal(t, [][]byte{nowhere4, nowhere4, nowhere6, {}, four[:19], six[:39], {0x50}, long}, unsent)
	lost, noIP := error(unix.ENETUNREACH), error(errNotIP)
	require.Equal(t, []error{lost, lost, lost, noIP, noIP, noIP, noIP, unix.EMSGSIZE}, causes)
	require.NoError(t, routed.Flush())

	mine := func(p *Poll) (found [][]byte) {
		for len(found) < 2 {
			_, batch, err := p.Next(wiretest.Timeout)
			require.NoError(t, err)
			require.NotEmpty(t, batch)
			for i := range batch {
				var d rocev2.Datagram
				if d.Decode(batch[i].Data, batch[i].Options(), 9) == nil {
					found = append(found, append([]byte(nil), d.IP...))
				}
			}
		}
		return found
	}
	p, _ := poll(t, one)
	require.ElementsMatch(t, [][]byte{four, six}, mine(p))

	p, _ = poll(t, two)
	require.NoError(t, bound.Send(four))
	require.NoError(t, bound.Send(six))
	require.NoError(t, bound.Flush())
	require.ElementsMatch(t, [][]byte{four, six}, mine(p))
	_, err := OpenRaw("nowhere")
	require.Equal(t, ErrNoInterface, err)
}

// A packet for which a queue of the host has no space counts as failed: the kernel reports it, though it accepted the
// packet.
func TestQueueFull(t *testing.T) {
	wiretest.Tool(t, "tc")
	a, b := pair(t)
	in := wiretest.Open(t, b, OpenPackets, PacketConfig{Interface: "two", Filter: port9{}})
	a.Run(t, "", "tc", "qdisc", "add", "dev", "two", "root", "tbf", "rate", "8bit", "burst", "2000", "limit", "5000")
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 0x0b}
	raw := wiretest.Open(t, a, OpenRaw, "two")
	port := wiretest.On(t, a, func() (Sink, error) { return OpenPort("two", mac) })
	unsent := map[string]int{}
	raw.(UnsentReporter).OnUnsent(func(packet []byte, err error) {
		unsent["raw "+string(packet[0]>>4+'0')+" "+err.Error()]++
	})
	port.(UnsentReporter).OnUnsent(func(_ []byte, err error) { unsent["port "+err.Error()]++ })
	four := datagram(t, "192.0.2.2", 9, 1, 64, string(make([]byte, 1000)))
	six := datagram(t, "2001:db8:1::b", 9, 1, 64, string(make([]byte, 1000)))
	for range 6 { // the first passes, and four wait
		require.NoError(t, raw.Send(four))
	}
	require.NoError(t, raw.Send(six))
	require.Equal(t, unix.ENOBUFS, raw.Flush())
	require.NoError(t, port.Send(six))
	require.Equal(t, unix.ENOBUFS, port.Flush())
	p, _ := poll(t, in)
	takePackets(t, p, 1)
	full := unix.ENOBUFS.Error()
	require.Equal(t, map[string]int{"raw 4 " + full: 1, "raw 6 " + full: 1, "port " + full: 1}, unsent)
}

// A port sink sends to the given neighbour, or complete frames, regardless of the routes.
func TestPort(t *testing.T) {
	a, b := pair(t)
	two := wiretest.Open(t, b, OpenPackets, PacketConfig{Interface: "two", Filter: port9{}})
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 0x0b}
	packets := wiretest.On(t, a, func() (Sink, error) { return OpenPort("two", mac) })
	frames := wiretest.On(t, a, func() (Sink, error) { return OpenPort("two", nil) })
	p, _ := poll(t, two)
	four, six := datagram(t, "192.0.2.2", 9, 1, 64, "four"), datagram(t, "2001:db8:1::b", 9, 1, 64, "six")
	for i, packet := range [][]byte{four, six} {
		require.NoError(t, packets.Send(packet))
		require.NoError(t, packets.Flush())
		got := takePackets(t, p, 1)[0].Data
		require.Equal(t, []byte(mac), got[:6])
		ether := [][]byte{{8, 0}, {0x86, 0xdd}}[i]
		require.Equal(t, ether, got[12:14])
		require.Equal(t, packet, got[14:])

		frame := slices.Concat(wiretest.Hex(t, "020000000077 020000000078 8100 6007"), ether, packet)
		require.NoError(t, frames.Send(frame))
		require.NoError(t, frames.Flush())
		require.Equal(t, frame, takePackets(t, p, 1)[0].Data)
	}
	require.Equal(t, errNotIP, packets.Send(nil))
	require.Equal(t, errNotIP, packets.Send([]byte{0x50}))
	require.EqualValues(t, 2, packets.Failed())
	a.Run(t, "", "ip", "link", "set", "two", "down")
	require.NoError(t, packets.Send(four))
	require.Equal(t, unix.ENETDOWN, packets.Flush())
	require.EqualValues(t, 3, packets.Failed())
	_, err := OpenPort("nowhere", nil)
	require.Equal(t, ErrNoInterface, err)
}

// More datagrams than a socket can hold: those read and those lost add up to those sent, according to the next
// datagram.
func TestDatagramsLost(t *testing.T) {
	wiretest.Namespace(t, "link set lo up")
	in := wiretest.Must(ListenUDP("127.0.0.1:0"))(t)
	defer in.Close()
	out := wiretest.Must(DialUDP(in.Local().String(), 0, 1))(t)
	defer out.Close()
	require.Equal(t, in.Local(), out.Remote())
	const sent = 20_000
	for range sent {
		require.NoError(t, out.Send(make([]byte, 1400)))
	}
	p, _ := poll(t, in)
	read := 0
	for _, batch, err := p.Next(0); len(batch) > 0; _, batch, err = p.Next(0) {
		require.NoError(t, err)
		read += len(batch)
	}
	require.NoError(t, out.Send(nil))
	takePackets(t, p, 1)
	require.NotZero(t, in.Lost())
	require.EqualValues(t, sent, uint64(read)+in.Lost())
}

// One goroutine reads several sources: each gets its turn, and one that fails or
// ends keeps no other from being read.
func TestPoll(t *testing.T) {
	wiretest.Namespace(t, "link set lo up")
	var sources []Source
	var sinks []SocketSink
	for range 3 {
		in := wiretest.Must(ListenUDP("127.0.0.1:0"))(t)
		t.Cleanup(func() { in.Close() })
		out := wiretest.Must(DialUDP(in.Local().String(), 0, 1))(t)
		t.Cleanup(func() { out.Close() })
		sources, sinks = append(sources, in), append(sinks, out)
	}
	p, stop := poll(t, sources...)
	source, batch, err := p.Next(0)
	require.Equal(t, -1, source)
	require.Empty(t, batch)
	require.NoError(t, err)
	for _, out := range sinks {
		for range 2*maxBatch + 1 {
			require.NoError(t, out.Send([]byte("data")))
		}
	}
	counts := map[int]int{}
	var order []int
	for range 9 {
		source, batch, err := p.Next(wiretest.Timeout)
		require.NoError(t, err)
		counts[source] += len(batch)
		order = append(order, source)
	}
	require.Equal(t, map[int]int{0: 2*maxBatch + 1, 1: 2*maxBatch + 1, 2: 2*maxBatch + 1}, counts)
	require.ElementsMatch(t, []int{0, 1, 2}, order[:3])
	require.ElementsMatch(t, []int{0, 1, 2}, order[3:6])

	require.NoError(t, sources[1].Stop()) // it ends alone
	for i := range sinks {
		require.NoError(t, sinks[i].Send([]byte("data")))
	}
	for _, want := range []int{0, 2} {
		source, batch, err := p.Next(wiretest.Timeout)
		require.NoError(t, err)
		require.Equal(t, want, source)
		require.Len(t, batch, 1)
	}
	ended := make(chan error)
	go func() {
		_, _, err := p.Next(-1)
		ended <- err
	}()
	stop()
	require.Equal(t, io.EOF, <-ended)
}

// A stubborn source does not end.
type stubborn struct{ Source }

func (stubborn) Stop() error { return nil }

// A stopped Poll ends also where a source does not.
func TestPollOfStubbornSource(t *testing.T) {
	wiretest.Namespace(t, "link set lo up")
	in := wiretest.Must(ListenUDP("127.0.0.1:0"))(t)
	t.Cleanup(func() { in.Close() })
	p, stop := poll(t, stubborn{in})
	stop()
	ended := make(chan error, 1)
	go func() {
		_, _, err := p.Next(-1)
		ended <- err
	}()
	select {
	case err := <-ended:
		require.Equal(t, io.EOF, err)
	case <-time.After(wiretest.Timeout):
		t.Fatal("Next has not returned")
	}
}

// Neither reading datagrams nor sending allocates.
func TestSocketsAllocateNothing(t *testing.T) {
	wiretest.Namespace(t, `link set lo up
		addr add 192.0.2.2/32 dev lo`)
	in := wiretest.Must(ListenUDP("192.0.2.2:0"))(t)
	defer in.Close()
	out := wiretest.Must(OpenRaw(""))(t)
	defer out.Close()
	p, _ := poll(t, in)
	packet := datagram(t, "192.0.2.2", in.Local().Port(), 0, 64, "data")
	nowhere := datagram(t, "198.51.100.1", 9, 0, 64, "")
	wiretest.NoAllocs(t, "Send, Flush and Next", func() {
		for range 3 {
			if out.Send(packet) != nil || out.Send(nowhere) != nil {
				panic("not sent")
			}
		}
		if out.Flush() != unix.ENETUNREACH {
			panic("sent")
		}
		for n := 0; n < 3; {
			_, batch, err := p.Next(wiretest.Timeout)
			if err != nil || len(batch) == 0 {
				panic(err)
			}
			n += len(batch)
		}
	})
}

// port9 selects datagrams to port 9 in Ethernet frames without a VLAN tag; the kernel has removed any.
type port9 struct{}

func (port9) Program(rocev2.LinkType) ([]bpf.RawInstruction, error) {
	return bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x0800, SkipFalse: 2},
		bpf.LoadAbsolute{Off: 36, Size: 2},
		bpf.Jump{Skip: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x86DD, SkipFalse: 3},
		bpf.LoadAbsolute{Off: 56, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 9, SkipFalse: 1},
		bpf.RetConstant{Val: 0xFFFFFFFF},
		bpf.RetConstant{Val: 0},
	})
}

// While all packets have one source, the kernel routes by it. Packets of other sources, also unusable ones, are sent as
// well, in their order.
func TestRawSources(t *testing.T) {
	a, b := pair(t)
	in := wiretest.Open(t, b, OpenPackets, PacketConfig{Interface: "one", Direction: In})
	from := func(source string) []byte {
		packet, src := datagram(t, "2001:db8:1::b", 9, 1, 64, "six"), netip.MustParseAddr(source).As16()
		copy(packet[8:], src[:])
		return packet
	}
	const one, two, linkLocal = "2001:db8:1::77", "2001:db8:1::a", "fe80::77"
	for _, c := range []struct {
		name    string
		sources []string
		want    binding
	}{
		{"one source", []string{one, one}, bound}, {"one source of the host", []string{two, two}, bound},
		{"two sources", []string{one, one, two, one, two}, unbound}, {"link-local", []string{linkLocal, one}, unbound},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := wiretest.Open(t, a, OpenRaw, "")
			for range 2 {
				for _, source := range c.sources {
					require.NoError(t, out.Send(from(source)))
				}
				require.NoError(t, out.Flush())
			}
			require.Equal(t, c.want, out.(*rawSink).binding)
			require.Zero(t, out.Failed())
			p, _ := poll(t, in)
			var got []string
			for len(got) < 2*len(c.sources) {
				_, batch, err := p.Next(wiretest.Timeout)
				require.NoError(t, err)
				require.NotEmpty(t, batch)
				for i := range batch {
					var d rocev2.Datagram
					if d.Decode(batch[i].Data, batch[i].Options(), 9) == nil {
						got = append(got, d.Src.String())
					}
				}
			}
			require.Equal(t, slices.Concat(c.sources, c.sources), got)
		})
	}

	// Routes of the source: only packets of this one have a route to another network.
	a.Run(t, "", "ip", "-6", "route", "add", "2001:db8:9::/64", "via", "2001:db8:1::b", "dev", "one", "table", "99")
	a.Run(t, "", "ip", "-6", "rule", "add", "from", one, "lookup", "99")
	out := wiretest.Open(t, a, OpenRaw, "")
	packet := datagram(t, "2001:db8:9::1", 9, 1, 64, "six")
	require.NoError(t, out.Send(packet))
	require.NoError(t, out.Flush())
}
