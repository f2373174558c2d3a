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

// source is a [netio.Source] of the packets of a group, from Ethernet interfaces. A packet has a Depth if the
// hardware reports it, and the time of sampling, or else of reading. Lost does not include packets that the
// sampling rate leaves out.
type source struct {
	stream    netlink.Stream
	family    uint16
	multicast uint32
	group     uint32
	sample    sample
	packets   []netio.Packet
}

// ErrNoPSAMPLE reports that the kernel was built without PSAMPLE, or that its module psample is not loaded.
var ErrNoPSAMPLE = errors.New("the kernel has no PSAMPLE: is the module psample loaded?")

// Open starts to read a group in the network namespace of the calling thread. It needs CAP_NET_ADMIN.
func Open(group uint32) (netio.Source, error) {
	s := &source{group: group, packets: make([]netio.Packet, 0, 64)}
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

// findFamily looks up the numbers of the family and of its multicast group.
func (s *source) findFamily() error {
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

// Read implements [netio.Source].
func (s *source) Read() ([]netio.Packet, error) {
	datagrams, err := s.stream.Next()
	switch {
	case err == io.EOF || err == nil && datagrams == nil:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("psample: group %d: %w", s.group, err)
	}
	s.readPackets(datagrams) // the result may be empty
	return s.packets, nil
}

// readPackets decodes the packets of the group in datagrams.
func (s *source) readPackets(datagrams [][]byte) {
	s.packets = s.packets[:0]
	var now time.Time
	for _, b := range datagrams {
		for m, b, ok := netlink.SplitMessage(b); ok; m, b, ok = netlink.SplitMessage(b) {
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

// Stop implements [netio.Source].
func (s *source) Stop() error {
	s.stream.Stopped = true
	return s.stream.Leave(s.multicast)
}

// FD implements [netio.Source].
func (s *source) FD() int { return s.stream.FD() }

// Lost implements [netio.Source].
func (s *source) Lost() uint64 { return s.stream.Lost() }

// Close implements [netio.Source].
func (s *source) Close() error { return s.stream.Close() }
