package psample

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"github.com/rocecn/rocecn/netio"
	"golang.org/x/sys/unix"
)

// A Source is a [netio.Source] of the packets of a group, which are those of interfaces
// that carry Ethernet. A packet has a Depth where the hardware tells it, and the time at
// which it was sampled, or, where nobody tells, at which it is read. Lost does not count
// what was not sampled because only one packet of many is.
type Source struct {
	stream    netlink.Stream
	family    uint16
	multicast uint32
	group     uint32
	sample    sample
	packets   []netio.Packet
}

// ErrNoPSAMPLE: the kernel was built without PSAMPLE, or its module psample is not
// loaded.
var ErrNoPSAMPLE = errors.New("the kernel has no PSAMPLE: is the module psample loaded?")

// Open begins to read a group, in the network namespace of the calling thread. That
// needs CAP_NET_ADMIN.
func Open(group uint32) (*Source, error) {
	s := &Source{group: group, packets: make([]netio.Packet, 0, 64)}
	var err error
	if s.stream.Socket, err = netlink.Open(unix.NETLINK_GENERIC); err != nil {
		return nil, fmt.Errorf("psample: %w", err)
	}
	if err = s.findFamily(); err == nil {
		err = s.stream.Join(s.multicast)
	}
	if err != nil {
		s.stream.Close()
		return nil, fmt.Errorf("psample: %w", err)
	}
	return s, nil
}

// findFamily asks for the numbers of the family and of its multicast group.
func (s *Source) findFamily() error {
	request := []byte{unix.CTRL_CMD_GETFAMILY, 1, 0, 0}
	request = netlink.AppendAttribute(request, unix.CTRL_ATTR_FAMILY_NAME, append([]byte(familyName), 0)...)
	err := s.stream.Request(unix.GENL_ID_CTRL, 0, request, func(m netlink.Message) {
		if len(m.Data) >= headerSize {
			s.family, s.multicast = readFamily(m.Data[headerSize:])
		}
	})
	if err == unix.ENOENT || err == nil && (s.family == 0 || s.multicast == 0) {
		return ErrNoPSAMPLE
	}
	return err
}

// readFamily reads the attributes of a family: its number, and that of its multicast group
// of packets.
func readFamily(b []byte) (id uint16, group uint32) {
	for kind, data, rest, ok := netlink.CutAttribute(b); ok; kind, data, rest, ok = netlink.CutAttribute(rest) {
		switch {
		case kind == unix.CTRL_ATTR_FAMILY_ID && len(data) >= 2:
			id = ne.Uint16(data)
		case kind == unix.CTRL_ATTR_MCAST_GROUPS:
			for _, one, more, ok := netlink.CutAttribute(data); ok; _, one, more, ok = netlink.CutAttribute(more) {
				if n, found := readGroup(one); found {
					group = n
				}
			}
		}
	}
	return id, group
}

// readGroup reads a multicast group, and says whether it is that of packets.
func readGroup(b []byte) (n uint32, found bool) {
	for kind, data, rest, ok := netlink.CutAttribute(b); ok; kind, data, rest, ok = netlink.CutAttribute(rest) {
		switch {
		case kind == unix.CTRL_ATTR_MCAST_GRP_ID && len(data) >= 4:
			n = ne.Uint32(data)
		case kind == unix.CTRL_ATTR_MCAST_GRP_NAME:
			found = string(bytes.TrimRight(data, "\x00")) == groupName
		}
	}
	return n, found
}

// Read is that of [netio.Source].
func (s *Source) Read() ([]netio.Packet, error) {
	datagrams, err := s.stream.Next()
	switch {
	case err == io.EOF || err == nil && datagrams == nil:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("psample: group %d: %w", s.group, err)
	}
	s.readPackets(datagrams) // there may be none of the group
	return s.packets, nil
}

// readPackets reads the packets of the group in some datagrams.
func (s *Source) readPackets(datagrams [][]byte) {
	s.packets = s.packets[:0]
	var now time.Time
	for _, b := range datagrams {
		for m, b, ok := netlink.Cut(b); ok; m, b, ok = netlink.Cut(b) {
			if m.Type != s.family || !s.sample.decodeMessage(m) || s.sample.group != s.group {
				continue
			}
			s.stream.Number(s.sample.sequence)
			if s.sample.packet.Time.IsZero() {
				if now.IsZero() {
					now = time.Now().UTC()
				}
				s.sample.packet.Time = now
			}
			s.packets = append(s.packets, s.sample.packet)
		}
	}
}

// Stop is that of [netio.Source].
func (s *Source) Stop() error {
	s.stream.Stopped = true
	return s.stream.Leave(s.multicast)
}

// FD is that of [netio.Source].
func (s *Source) FD() int { return s.stream.FD() }

// Lost is that of [netio.Source].
func (s *Source) Lost() uint64 { return s.stream.Lost() }

// Close is that of [netio.Source].
func (s *Source) Close() error { return s.stream.Close() }
