package psample

import (
	"net"
	"testing"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/stretchr/testify/require"
)

// Without PSAMPLE the error says so.
func TestNoPSAMPLE(t *testing.T) {
	h := wiretest.NewHost(t, "node")
	if err := h.Try(func() error {
		s, err := Open(5)
		if err == nil {
			s.Close()
		}
		return err
	}); err != nil {
		require.ErrorIs(t, err, ErrNoPSAMPLE)
	}
}

// The kernel's answer about the family, handmade: its number and its groups, the second of which is that of
// packets.
func TestFamily(t *testing.T) {
	groups := octetsOf(
		value{1, octetsOf(value{2, uint32(9)}, value{1, []byte("config\x00")})},
		value{2 | 0x8000, octetsOf(value{1, []byte("packets\x00")}, value{2, uint32(10)})},
	)
	b := octetsOf(value{2, []byte("psample\x00")}, value{1, uint16(0x1F)}, value{3, uint32(1)}, value{7, groups})
	id, group := readFamily(b)
	require.Equal(t, []any{uint16(0x1F), uint32(10)}, []any{id, group})
	for n := range b { // cut anywhere
		readFamily(b[:n])
	}
	id, group = readFamily(nil)
	require.Zero(t, uint32(id)+group)
}

// Read returns one group among groups and families, and counts its gaps as losses.
func TestRead(t *testing.T) {
	s := newSource(0x1F, 5)
	message := func(kind uint16, data []byte) []byte {
		return netlink.AppendMessage(nil, netlink.Message{Type: kind, Data: data})
	}
	read := func(datagrams ...[]byte) int {
		packets := s.ReadPackets(datagrams)
		for _, p := range packets {
			require.False(t, p.Time.IsZero())
			require.Equal(t, wiretest.Hex(t, frame), p.Data)
		}
		return len(packets)
	}
	require.Equal(t, 2, read(
		message(0x1F, software(t, 5, 10)), message(0x1F, software(t, 6, 900)), message(0x20, software(t, 5, 50)),
		append(message(0x1F, software(t, 5, 11)), message(0x1F, []byte{2, 1, 0, 0})...)))
	require.Zero(t, s.Lost())
	require.Equal(t, 1, read(message(0x1F, software(t, 5, 14)), []byte{1, 2, 3}))
	require.EqualValues(t, 2, s.Lost())
	untimed := append([]byte{0, 1, 0, 0}, octetsOf(value{3, uint32(5)}, value{4, uint32(15)},
		value{6, wiretest.Hex(t, frame)})...)
	require.Equal(t, 1, read(message(0x1F, untimed)))
	require.EqualValues(t, 2, s.Lost())
	datagrams := [][]byte{message(0x1F, untimed)}
	wiretest.NoAllocs(t, "read", func() { s.ReadPackets(datagrams) })
}

// Read returns packets that tc samples for the group.
func TestSample(t *testing.T) {
	wiretest.Tool(t, "tc")
	h := wiretest.NewHost(t, "node")
	wiretest.Link(t, wiretest.End{Host: h, Device: "eth0"},
		wiretest.End{Host: wiretest.NewHost(t, "peer"), Device: "eth0"})
	h.Run(t, "", "tc", "qdisc", "add", "dev", "eth0", "clsact")
	for _, group := range []string{"5", "6"} { // which loads the module
		_, err := h.TryRun("", "tc", "filter", "add", "dev", "eth0", "egress", "protocol", "ip", "matchall", "action",
			"sample", "rate", "1", "group", group, "continue")
		if err != nil {
			wiretest.NotInKernel(t, "CONFIG_PSAMPLE", err.Error())
		}
	}
	wiretest.AwaitLinks(t, h)
	s := wiretest.Open(t, h, Open, 5)
	out := wiretest.On(t, h, func() (netio.Sink, error) {
		return netio.OpenPort("eth0", net.HardwareAddr{2, 0, 0, 0, 0, 1})
	})
	packet := wiretest.Hex(t, "45000018 00000000 40fd0000 c0000201 c0000202 00000000")
	const n = 100
	for i := range n {
		packet[23] = byte(i)
		require.NoError(t, out.Send(packet))
	}
	require.NoError(t, out.Flush())
	poll := wiretest.Must(netio.NewPoll(t.Context(), s))(t)
	defer poll.Close()
	seen := map[byte]bool{}
	for len(seen) < n {
		_, packets, err := poll.Next(wiretest.Timeout)
		require.NoError(t, err)
		require.NotEmpty(t, packets)
		for _, p := range packets {
			packet[23] = p.Data[14+23]
			require.Equal(t, packet, p.Data[14:])
			require.Equal(t, []any{uint32(38), netio.OriginSampled, false}, []any{p.OrigLen, p.Origin, p.DepthKnown})
			require.Positive(t, p.Egress)
			require.False(t, seen[packet[23]])
			seen[packet[23]] = true
		}
	}
	require.Zero(t, s.Lost())
	require.NoError(t, s.Stop())
}
