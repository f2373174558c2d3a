package psample

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"github.com/rocecn/rocecn/netio"
	"golang.org/x/sys/unix"
)

// ErrNoPSAMPLE reports that the kernel was built without PSAMPLE, or that its module psample is not loaded.
var ErrNoPSAMPLE = errors.New("the kernel has no PSAMPLE: is the module psample loaded?")

// Open starts to read a group in the network namespace of the calling thread. It needs CAP_NET_ADMIN. The packets are
// from Ethernet interfaces. A packet has a Depth if the hardware reports it, and the time of sampling, or else of
// reading. Lost does not include packets that the sampling rate leaves out.
func Open(group uint32) (netio.Source, error) {
	socket, err := netlink.Open(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("psample: %w", err)
	}
	family, multicast, err := findFamily(socket)
	if err == nil {
		err = socket.Join(multicast)
	}
	if err != nil {
		socket.Close()
		return nil, fmt.Errorf("psample: %w", err)
	}
	s := newSource(family, group)
	s.Socket, s.Leave = socket, func() error { return socket.Leave(multicast) }
	return s, nil
}

// newSource returns a source of the samples of a group in messages of a family, without its socket.
func newSource(family uint16, group uint32) *netlink.PacketSource {
	var s sample
	return &netlink.PacketSource{
		Name: fmt.Sprintf("psample: group %d", group),
		Decode: func(m netlink.Message) (*netio.Packet, uint32, bool, bool) {
			ok := m.Type == family && s.decodeMessage(m) && s.group == group
			return &s.packet, s.sequence, true, ok
		},
	}
}

// findFamily looks up the numbers of the family and of its multicast group.
func findFamily(socket *netlink.Socket) (family uint16, multicast uint32, err error) {
	request := []byte{unix.CTRL_CMD_GETFAMILY, 1, 0, 0}
	request = netlink.AppendAttribute(request, unix.CTRL_ATTR_FAMILY_NAME, append([]byte(familyName), 0)...)
	err = socket.Request(unix.GENL_ID_CTRL, 0, request, func(m netlink.Message) {
		if len(m.Data) >= headerSize {
			family, multicast = readFamily(m.Data[headerSize:])
		}
	})
	if err == unix.ENOENT || err == nil && (family == 0 || multicast == 0) {
		err = ErrNoPSAMPLE
	}
	return family, multicast, err
}

// readFamily decodes the attributes of a family: its number, and the number of its multicast group of packets.
func readFamily(b []byte) (id uint16, group uint32) {
	for kind, data, rest, ok := netlink.SplitAttribute(b); ok; kind, data, rest, ok = netlink.SplitAttribute(rest) {
		switch {
		case kind == unix.CTRL_ATTR_FAMILY_ID && len(data) >= 2:
			id = ne.Uint16(data)
		case kind == unix.CTRL_ATTR_MCAST_GROUPS:
			for _, one, more, ok := netlink.SplitAttribute(data); ok; _, one, more, ok = netlink.SplitAttribute(more) {
				if n, found := readGroup(one); found {
					group = n
				}
			}
		}
	}
	return id, group
}

// readGroup decodes a multicast group, and reports whether it is the group of packets.
func readGroup(b []byte) (n uint32, found bool) {
	for kind, data, rest, ok := netlink.SplitAttribute(b); ok; kind, data, rest, ok = netlink.SplitAttribute(rest) {
		switch {
		case kind == unix.CTRL_ATTR_MCAST_GRP_ID && len(data) >= 4:
			n = ne.Uint32(data)
		case kind == unix.CTRL_ATTR_MCAST_GRP_NAME:
			found = string(bytes.TrimRight(data, "\x00")) == groupName
		}
	}
	return n, found
}
