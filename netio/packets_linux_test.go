package netio

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	packet   = " 86dd 6000000000003b40 00000000000000000000000000000000 00000000000000000000000000000000"
	macs     = "020000000001 020000000002"
	untagged = macs + packet
	tagged   = macs + " 8100 6007" + packet
	stacked  = macs + " 88a8 0009 8100 6007" + packet
)

// ip runs a command of ip.
func ip(t *testing.T, command string) {
	t.Helper()
	out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput()
	require.NoError(t, err, string(out))
}

// index returns the number of a device.
func index(t *testing.T, device string) int {
	t.Helper()
	i := wiretest.Must(net.InterfaceByName(device))(t)
	return i.Index
}

// eachBlockMode runs a test with and without blocks.
func eachBlockMode(t *testing.T, f func(t *testing.T, blocks bool)) {
	for _, blocks := range []bool{false, true} {
		t.Run(fmt.Sprint("blocks ", blocks), func(t *testing.T) { f(t, blocks) })
	}
}

func open(t *testing.T, c PacketConfig) InterfaceSource {
	t.Helper()
	p := wiretest.Must(OpenPackets(c))(t)
	t.Cleanup(func() { p.Close() })
	return p
}

// poll reads some sources until the test ends.
func poll(t *testing.T, sources ...Source) (p *Poll, stop func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	p = wiretest.Must(NewPoll(ctx, sources...))(t)
	t.Cleanup(func() {
		stop()
		p.Close()
	})
	return p, stop
}

// takePackets returns copies of the next n packets of all sources.
func takePackets(t *testing.T, p *Poll, n int) (packets []Packet) {
	t.Helper()
	for len(packets) < n {
		_, batch, err := p.Next(wiretest.Timeout)
		require.NoError(t, err)
		require.NotEmpty(t, batch, "%d of %d packets", len(packets), n)
		for _, b := range batch {
			b.Data = append([]byte(nil), b.Data...)
			packets = append(packets, b)
		}
	}
	require.Len(t, packets, n)
	return packets
}

// Frames sent into one end of the cable come out of the other with the same octets, order and VLAN tags; the kernel
// passes the outer tag in metadata. A capture on any interface has each frame twice, on its way out and on its way in.
func TestFrames(t *testing.T) {
	eachBlockMode(t, func(t *testing.T, blocks bool) {
		socket := wiretest.Cable(t)
		far, _ := poll(t, open(t, PacketConfig{Interface: "far", Blocks: blocks}))
		every, _ := poll(t, open(t, PacketConfig{Interface: "any", Blocks: blocks}))
		before := time.Now().Add(-time.Minute)
		for _, octets := range []string{untagged, tagged, stacked, untagged} {
			frame := wiretest.Hex(t, octets)
			socket.Send(t, frame)
			p := takePackets(t, far, 1)[0]
			require.Equal(t, frame, p.Data)
			require.EqualValues(t, len(frame), p.OrigLen)
			require.False(t, p.Truncated())
			require.Equal(t, capture.Ethernet, p.Link)
			require.True(t, p.Time.After(before))
			require.Equal(t, time.UTC, p.Time.Location())
			require.Equal(t, index(t, "far"), p.Interface)
			require.False(t, p.Outgoing)

			both := takePackets(t, every, 2)
			for i, name := range []string{"near", "far"} {
				require.Equal(t, frame, both[i].Data)
				require.Equal(t, index(t, name), both[i].Interface)
				require.Equal(t, name == "near", both[i].Outgoing)
			}
		}
	})
}

// At the end of the context a source ends after the packets that the kernel has by then. More than a batch is read in
// several.
func TestEnd(t *testing.T) {
	eachBlockMode(t, func(t *testing.T, blocks bool) {
		socket := wiretest.Cable(t)
		// Linux passes a frame to the sockets of a device one after the other, in reverse order of opening: every
		// packet of the witness has already reached the other socket.
		witness, _ := poll(t, open(t, PacketConfig{Interface: "far"}))
		in := open(t, PacketConfig{Interface: "far", Blocks: blocks})
		p, stop := poll(t, in)
		const sent = 3*maxBatch + 1
		for range sent {
			socket.Send(t, wiretest.Hex(t, tagged))
		}
		takePackets(t, witness, sent)
		stop()
		read := 0
		_, batch, err := p.Next(-1)
		for ; err == nil; _, batch, err = p.Next(-1) {
			require.NotEmpty(t, batch)
			require.LessOrEqual(t, len(batch), maxBatch)
			read += len(batch)
			socket.Send(t, wiretest.Hex(t, tagged)) // too late
		}
		require.Equal(t, io.EOF, err)
		require.Equal(t, sent, read)
		require.Zero(t, in.Lost())
		_, _, err = p.Next(-1)
		require.Equal(t, io.EOF, err)
	})
}

// Packets that another goroutine is about to count, in Lost, are not taken for the end.
func TestEndMeanwhileCounted(t *testing.T) {
	socket := wiretest.Cable(t)
	witness, _ := poll(t, open(t, PacketConfig{Interface: "far"}))
	in := open(t, PacketConfig{Interface: "far", Blocks: true}).(*packetSource)
	const sent = 5
	for range sent {
		socket.Send(t, wiretest.Hex(t, tagged))
	}
	takePackets(t, witness, sent)
	require.NoError(t, in.Stop())
	in.mu.Lock()
	s := wiretest.Must(unix.GetsockoptTpacketStats(in.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS))(t)
	time.AfterFunc(time.Millisecond, func() {
		in.seen.Add(uint64(s.Packets))
		in.mu.Unlock()
	})
	require.Equal(t, sent, readAll(t, in))
}

// readAll reads a source up to its end, and returns its number of packets.
func readAll(t *testing.T, in Source) (n int) {
	for {
		batch, err := in.Read()
		if n += len(batch); err != nil {
			require.Equal(t, io.EOF, err)
			return n
		}
	}
}

// A packet of the loopback device comes by twice: by default it is shown once.
func TestDirection(t *testing.T) {
	eachBlockMode(t, func(t *testing.T, blocks bool) {
		socket := wiretest.Cable(t)
		lo := wiretest.NewSocket(t, index(t, "lo"))
		atLo, _ := poll(t, open(t, PacketConfig{Interface: "lo"})) // opened first, so that they get a frame last
		atFar, _ := poll(t, open(t, PacketConfig{Interface: "far"}))
		for _, c := range []struct {
			iface string
			d     Direction
			want  string
		}{
			{"lo", Both, "lo in"}, {"lo", In, "lo in"}, {"lo", Out, "lo out"},
			{"near", Both, "near out"}, {"near", In, ""}, {"near", Out, "near out"},
			{"far", Both, "far in"}, {"far", In, "far in"}, {"far", Out, ""},
			{"any", Both, "lo in, near out, far in"}, {"any", In, "lo in, far in"}, {"any", Out, "lo out, near out"},
		} {
			in := open(t, PacketConfig{Interface: c.iface, Direction: c.d, Blocks: blocks})
			p, stop := poll(t, in)
			lo.Send(t, wiretest.Hex(t, untagged))
			socket.Send(t, wiretest.Hex(t, untagged))
			takePackets(t, atLo, 1)
			takePackets(t, atFar, 1)
			stop()
			var got []string
			_, batch, err := p.Next(-1)
			for ; err == nil; _, batch, err = p.Next(-1) {
				for _, packet := range batch {
					name := wiretest.Must(net.InterfaceByIndex(packet.Interface))(t)
					got = append(got, name.Name+map[bool]string{false: " in", true: " out"}[packet.Outgoing])
				}
			}
			require.Equal(t, io.EOF, err)
			require.Equal(t, c.want, strings.Join(got, ", "), "%v %v", c.iface, c.d)
			in.Close()
		}
	})
}

// tunnel makes a device that carries IP. Packets written to the file arrive at the device.
func tunnel(t *testing.T, name string) *os.File {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		wiretest.NotInKernel(t, "CONFIG_TUN", "/dev/net/tun: "+err.Error())
	}
	file := os.NewFile(uintptr(fd), name)
	t.Cleanup(func() { file.Close() })
	request := wiretest.Must(unix.NewIfreq(name))(t)
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	require.NoError(t, unix.IoctlIfreq(fd, unix.TUNSETIFF, request))
	ip(t, "link set "+name+" up")
	return file
}

// The kernel runs the filter, of the right link layer, and cuts.
func TestFilterAndSnap(t *testing.T) {
	eachBlockMode(t, func(t *testing.T, blocks bool) {
		near := wiretest.Cable(t)
		bare := tunnel(t, "bare")
		frame := wiretest.Capture(t, "messages.pcap")[0].Data
		roce := &filter.Capture{Selection: filter.RoCEv2}
		far, _ := poll(t, open(t, PacketConfig{Interface: "far", Filter: roce, Blocks: blocks}))
		cut, _ := poll(t, open(t, PacketConfig{Interface: "far", Filter: roce, SnapLength: 60, Blocks: blocks}))
		every, _ := poll(t, open(t, PacketConfig{Interface: "any", Direction: In, Filter: roce, Blocks: blocks}))
		other := wiretest.Hex(t, untagged)
		withTag := append(append(append([]byte(nil), frame[:12]...), wiretest.Hex(t, "81006007")...), frame[12:]...)
		near.Send(t, other)
		near.Send(t, withTag)
		for _, packet := range [][]byte{other[14:], frame[14:]} {
			_, err := bare.Write(packet)
			require.NoError(t, err)
		}

		require.Equal(t, withTag, takePackets(t, far, 1)[0].Data)
		p := takePackets(t, cut, 1)[0]
		require.Equal(t, withTag[:64], p.Data) // the tag comes on top
		require.EqualValues(t, len(withTag), p.OrigLen)
		require.True(t, p.Truncated())
		both := takePackets(t, every, 2)
		require.Equal(t, withTag, both[0].Data)
		require.Equal(t, frame[14:], both[1].Data)
		require.Equal(t, capture.Raw, both[1].Link)
	})
}

// More packets than the buffer can hold arrive before anything is read: the kernel drops some and counts them. The
// packets read and lost add up to the packets sent.
func TestLost(t *testing.T) {
	eachBlockMode(t, func(t *testing.T, blocks bool) {
		socket := wiretest.Cable(t)
		in := open(t, PacketConfig{Interface: "near", Blocks: blocks}) // sent frames are counted here immediately
		p, stop := poll(t, in)
		frame := append(wiretest.Hex(t, untagged), make([]byte, 1400)...)
		const sent = 40_000 // four times as many as there is room for
		for range sent {
			socket.Send(t, frame)
		}
		stop()
		read := 0
		for _, batch, err := p.Next(-1); err == nil; _, batch, err = p.Next(-1) {
			read += len(batch)
		}
		require.NotZero(t, in.Lost())
		require.EqualValues(t, sent, uint64(read)+in.Lost())
	})
}

// The error about an interface that goes down comes after its earlier packets; when it is up again packets come again.
// An interface that was deleted stays away.
func TestAway(t *testing.T) {
	eachBlockMode(t, func(t *testing.T, blocks bool) {
		socket := wiretest.Cable(t)
		in := open(t, PacketConfig{Interface: "far", Blocks: blocks})
		p, _ := poll(t, in)
		witness, _ := poll(t, open(t, PacketConfig{Interface: "far"}))
		frame := wiretest.Hex(t, untagged)
		for _, end := range []string{"link set far down", "link del far"} {
			require.True(t, in.IsUp())
			socket.Send(t, frame)
			takePackets(t, witness, 1)
			ip(t, end)
			takePackets(t, p, 1)
			_, _, err := p.Next(wiretest.Timeout)
			require.Equal(t, ErrAway, err)
			require.False(t, in.IsUp())
			if end == "link set far down" {
				_, _, err = witness.Next(wiretest.Timeout)
				require.Equal(t, ErrAway, err)
				ip(t, "link set far up")
				wiretest.AwaitCarriers(t)
			}
		}
	})
}

// Run goes on when the interface has gone down and come up again, and ticks meanwhile.
func TestRunSurvivesFlap(t *testing.T) {
	eachBlockMode(t, func(t *testing.T, blocks bool) {
		socket := wiretest.Cable(t)
		in := open(t, PacketConfig{Interface: "far", Blocks: blocks})
		frame := wiretest.Hex(t, untagged)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		received := 0
		flap := func() {
			ip(t, "link set far down")
			ip(t, "link set far up")
			wiretest.AwaitCarriers(t)
		}
		socket.Send(t, frame)
		l := &Loop{
			Receive: func(b []byte, _ int, p *Packet) []byte {
				if bytes.Equal(frame, p.Data) {
					received++
				}
				return b
			},
			Every: time.Millisecond,
		}
		flapped := false
		l.Tick = func(time.Time) {
			switch {
			case received == 1 && !flapped:
				flapped = true
				flap()
				socket.Send(t, frame)
			case received == 2:
				stop()
			}
		}
		require.NoError(t, l.Run(ctx, in))
		require.Equal(t, 2, received)
	})
}

func TestOpenErrors(t *testing.T) {
	wiretest.Namespace(t, `link set lo up
		link add lower type veth peer name lowerpeer`)
	for _, c := range []struct {
		name string
		want error
	}{{"nowhere", ErrNoInterface}, {"", ErrNoInterface}, {"lower", ErrDown}} {
		_, err := OpenPackets(PacketConfig{Interface: c.name})
		require.Equal(t, c.want, err, c.name)
	}
	_, err := OpenPackets(PacketConfig{Interface: "lo", Direction: Out + 1})
	require.Equal(t, errDirection, err)
	_, err = linkType(unix.ARPHRD_INFINIBAND)
	require.ErrorIs(t, err, errLinkType)
	_, err = OpenPackets(PacketConfig{Interface: "lo", Filter: &filter.Capture{Selection: 99}})
	require.ErrorContains(t, err, "not one of the selections")
	_, err = OpenPackets(PacketConfig{Interface: "any", Filter: &filter.Capture{Selection: 99}})
	require.ErrorContains(t, err, "not one of the selections")
}

// The metadata of a frame is in the native byte order of the kernel.
func TestPacketMeta(t *testing.T) {
	ne := binary.NativeEndian
	at := time.Date(2026, 11, 22, 1, 2, 3, 456789012, time.UTC)
	require.Equal(t, at, timeOf(ne.AppendUint64(ne.AppendUint64(nil, uint64(at.Unix())), 456789012)))
	require.Equal(t, at, timeOf(ne.AppendUint32(ne.AppendUint32(nil, uint32(at.Unix())), 456789012)))
	require.Zero(t, timeOf(nil))

	const tag, tpid = unix.TP_STATUS_VLAN_VALID, unix.TP_STATUS_VLAN_TPID_VALID
	from := func(hardware uint16) []byte {
		b := make([]byte, unix.SizeofSockaddrLinklayer)
		ne.PutUint16(b[8:], hardware)
		return b
	}
	for _, row := range []struct {
		name        string
		hardware    uint16
		b           packetMeta
		frame, want string
	}{
		{"tag", unix.ARPHRD_ETHER, packetMeta{status: tag | tpid, tci: 0x6007, tpid: 0x8100}, untagged,
			tagged},
		{"no protocol", unix.ARPHRD_ETHER, packetMeta{status: tag, tci: 0x6007, tpid: 0x88A8}, untagged, tagged},
		{"second tag", unix.ARPHRD_ETHER, packetMeta{status: tag | tpid, tci: 9, tpid: 0x88A8}, tagged, stacked},
		{"no tag", unix.ARPHRD_ETHER, packetMeta{tci: 0x6007, tpid: 0x8100}, untagged, untagged},
		{"short", unix.ARPHRD_ETHER, packetMeta{status: tag, tci: 7}, untagged[:23], untagged[:23]},
		{"tunnel", unix.ARPHRD_NONE, packetMeta{status: tag, tci: 7}, "45000014", "45000014"},
		{"other link layer", unix.ARPHRD_INFINIBAND, packetMeta{network: 4}, "00112233 45000014", "45000014"},
		{"nothing after it", unix.ARPHRD_INFINIBAND, packetMeta{network: 40}, "00112233", ""},
	} {
		frame := wiretest.Hex(t, row.frame)
		row.b.octets = uint32(len(frame))
		var p Packet
		p.set(append(make([]byte, wire.TagSize), frame...), at, from(row.hardware), row.b)
		want := wiretest.Hex(t, row.want)
		require.Equal(t, want, append([]byte{}, p.Data...), row.name)
		require.EqualValues(t, len(want), p.OrigLen, row.name)
		require.True(t, p.Supported(), row.name)
	}
}

// Reading allocates nothing.
func TestReadAllocatesNothing(t *testing.T) {
	eachBlockMode(t, func(t *testing.T, blocks bool) {
		socket := wiretest.Cable(t)
		in := open(t, PacketConfig{Interface: "near", Blocks: blocks})
		p, _ := poll(t, in)
		frame := wiretest.Hex(t, tagged)
		wiretest.NoAllocs(t, "Next", func() {
			for range 3 {
				socket.Send(t, frame)
			}
			for n := 0; n < 3; {
				_, batch, err := p.Next(wiretest.Timeout)
				if err != nil || len(batch) == 0 {
					panic(fmt.Sprint(len(batch), err))
				}
				n += len(batch)
			}
		})
	})
}
