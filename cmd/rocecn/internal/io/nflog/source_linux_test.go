package nflog

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var (
	node = netip.MustParseAddr("2001:db8:1::a")
	host = netip.MustParseAddr("2001:db8:1::b")
)

// fastCNP returns a Fast CNP from the node to the host about this queue pair.
func fastCNP(t *testing.T, qp uint32) []byte {
	t.Helper()
	var p rocev2.Packet
	p.Src, p.Dst, p.SrcPort = host, netip.MustParseAddr("2001:db8:2::c"), 49152
	p.BTH.Opcode, p.BTH.PKey, p.BTH.DestQP = bth.RCSendOnly, 0xFFFF, qp
	b, _, err := fastcnp.AppendFor(nil, &p, node, nil, fastcnp.Config{})
	require.NoError(t, err)
	return b
}

// cable connects a node and a host, and returns the node's raw sink to the host.
func cable(t *testing.T) (a, b *wiretest.Host, raw netio.Sink) {
	t.Helper()
	wiretest.Tool(t, "nft")
	a, b = wiretest.NewHost(t, "node"), wiretest.NewHost(t, "host")
	wiretest.Link(t, wiretest.End{Host: a, Device: "eth0", Addresses: []string{node.String() + "/64"}},
		wiretest.End{Host: b, Device: "eth0", Addresses: []string{host.String() + "/64"}})
	wiretest.AwaitLinks(t, a, b)
	b.Do(t, func() error { return os.WriteFile("/proc/sys/net/ipv6/icmp/ratelimit", []byte("0"), 0) })
	raw = wiretest.Open(t, a, netio.OpenRaw, "")
	return a, b, raw
}

func open(t *testing.T, h *wiretest.Host, group uint16) netio.Source {
	t.Helper()
	return wiretest.Open(t, h, Open, group)
}

// A Linux host rejects a Fast CNP by ICMPv6. With the rules it does not, and all Fast CNPs arrive at the source
// unchanged.
func TestHost(t *testing.T) {
	a, b, raw := cable(t)
	errors := wiretest.On(t, a, func() (netio.SocketSource, error) { return netio.ListenICMPv6(node, 4) })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	rejected, err := netio.NewPoll(ctx, errors)
	require.NoError(t, err)
	defer rejected.Close()
	var some []netio.Packet
	rejection := func() (port, qp uint32) {
		for len(some) == 0 {
			_, some, err = rejected.Next(wiretest.Timeout)
			require.NoError(t, err)
		}
		quoted := some[0].Data[40+8:]
		some = some[1:]
		const udp = 40 + 24
		return uint32(binary.BigEndian.Uint16(quoted[udp+2:])), binary.BigEndian.Uint32(quoted[udp+8+4:]) & 0xFFFFFF
	}
	rejects := func(port, qp uint32) {
		t.Helper()
		gotPort, gotQP := rejection()
		require.Equal(t, []uint32{port, qp}, []uint32{gotPort, gotQP})
	}
	require.NoError(t, raw.Send(fastCNP(t, 1)))
	require.NoError(t, raw.Flush())
	rejects(4791, 1) // without the rules

	const group, n = 7, 300
	s := open(t, b, group)
	for range 2 { // the second time they replace the first
		b.Run(t, Rules("rocecn-host", group), "nft", "-f", "-")
	}
	var sent [][]byte
	for qp := range uint32(n) {
		sent = append(sent, fastCNP(t, qp))
		require.NoError(t, raw.Send(sent[qp]))
	}
	require.NoError(t, raw.Flush())
	poll := wiretest.Must(netio.NewPoll(ctx, s))(t)
	defer poll.Close()
	for missing := n; missing > 0; {
		_, packets, err := poll.Next(wiretest.Timeout)
		require.NoError(t, err)
		require.NotEmpty(t, packets)
		for _, p := range packets {
			qp := binary.BigEndian.Uint32(p.Data[40+24+8+4:]) & 0xFFFFFF // out of order if another CPU was faster
			require.Equal(t, sent[qp], p.Data)
			sent[qp] = nil
			require.Equal(t, []any{netio.OriginLogged, rocev2.DecodeOptions{Link: rocev2.LinkIP}, uint32(len(p.Data))},
				[]any{p.Origin, p.Options(), p.OrigLen})
			require.Positive(t, p.Interface)
			require.Less(t, time.Since(p.Time).Abs(), time.Hour)
			var f rocev2.Frame
			f.Decode(p.Data, p.Options())
			var m message.Message
			require.NoError(t, m.DecodeView(f.Outer(), message.Config{}))
			require.Equal(t, message.KindFastCNP, m.Kind)
			missing--
		}
	}
	require.Zero(t, s.Lost())

	// Another port is rejected as before: that packet is the next rejected one.
	other := fastCNP(t, n)
	other[40+24+3]++
	require.NoError(t, raw.Send(other))
	require.NoError(t, raw.Flush())
	rejects(4792, n)
	stop()
	_, _, err = poll.Next(-1)
	require.Equal(t, io.EOF, err)
}

// Packets without room are counted exactly; after Stop the remaining ones can be read.
func TestOverrun(t *testing.T) {
	_, b, raw := cable(t)
	const group, n = 9, 1000
	s := open(t, b, group)
	require.NoError(t, unix.SetsockoptInt(s.FD(), unix.SOL_SOCKET, unix.SO_RCVBUF, 32<<10))
	b.Run(t, `table inet rocecn-host {
	chain input {
		type filter hook input priority -1;
		exthdr dst exists udp dport 4791 counter
	}
}
`, "nft", "-f", "-")
	b.Run(t, Rules("rocecn-log", group), "nft", "-f", "-")
	for qp := range uint32(n) {
		_ = raw.Send(fastCNP(t, qp))
	}
	_ = raw.Flush()
	var logged uint64
	wiretest.Await(t, "packets have come", func() bool {
		was := logged
		logged = counted(t, b)
		return logged > n/2 && logged == was
	})
	given := uint64(0)
	read := func() {
		for {
			packets, err := s.Read()
			given += uint64(len(packets))
			if err == io.EOF || len(packets) == 0 {
				require.True(t, err == nil || err == io.EOF, err)
				return
			}
		}
	}
	read()
	require.Positive(t, given)
	require.Positive(t, s.Lost())
	require.NoError(t, raw.Send(fastCNP(t, n)))
	require.NoError(t, raw.Flush())
	wiretest.Await(t, "the last", func() bool { return counted(t, b) == logged+1 })
	require.NoError(t, s.Stop())
	read()
	require.Equal(t, logged+1, given+s.Lost())
	_, err := s.Read()
	require.Equal(t, io.EOF, err)
}

// counted returns the number of packets that a counter of nft has counted.
func counted(t *testing.T, h *wiretest.Host) uint64 {
	t.Helper()
	var all struct {
		Nftables []struct {
			Rule struct {
				Expr []struct{ Counter *struct{ Packets uint64 } }
			}
		}
	}
	out := h.Run(t, "", "nft", "-j", "list", "table", "inet", "rocecn-host")
	require.NoError(t, json.Unmarshal([]byte(out), &all), out)
	for _, n := range all.Nftables {
		for _, e := range n.Rule.Expr {
			if e.Counter != nil {
				return e.Counter.Packets
			}
		}
	}
	t.Fatal(out)
	return 0
}

// A group has one reader, and reading allocates nothing.
func TestOpen(t *testing.T) {
	_, b, raw := cable(t)
	const group = 65535
	s := open(t, b, group)
	b.Run(t, Rules("rocecn-log", group), "nft", "-f", "-")
	require.ErrorIs(t, b.Try(func() error {
		_, err := Open(group)
		return err
	}), ErrTaken)
	open(t, b, 0)
	poll := wiretest.Must(netio.NewPoll(t.Context(), s))(t)
	defer poll.Close()
	packet := fastCNP(t, 1)
	wiretest.NoAllocs(t, "Next", func() {
		if err := raw.Send(packet); err != nil {
			panic(err)
		}
		if err := raw.Flush(); err != nil {
			panic(err)
		}
		if _, packets, err := poll.Next(wiretest.Timeout); err != nil || len(packets) != 1 {
			panic(fmt.Sprint(len(packets), err))
		}
	})
	require.Zero(t, s.Lost())
}
