package nflog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"github.com/rocecn/rocecn/netio"
	"golang.org/x/sys/unix"
)

// ErrTaken reports that another program reads the group.
var ErrTaken = errors.New("another program reads this group")

// Open starts to read a group in the network namespace of the calling thread. It needs CAP_NET_ADMIN. A packet has the
// kernel's time stamp, or else the time of the call of Read.
func Open(group uint16) (netio.Source, error) {
	socket, err := netlink.Open(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("nflog: %w", err)
	}
	name := fmt.Sprintf("nflog: group %d", group)
	switch err := socket.Request(configure, 0, bindRequest(group), nil); {
	case err == nil:
	case err == unix.EPERM: // the process has CAP_NET_ADMIN
		err = ErrTaken
		fallthrough
	default:
		socket.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var e entry
	return &netlink.PacketSource{
		Stream: netlink.Stream{Socket: socket}, Name: name,
		Decode: func(m netlink.Message) (*netio.Packet, uint32, bool, bool) {
			ok := e.decodeMessage(m) && e.group == group
			return &e.packet, e.sequence, e.hasSequence, ok
		},
		Leave: func() error { return socket.Send(configure, 0, commandRequest(group, commandUnbind)) },
	}, nil
}

const (
	cfgCommand   = 1 // command 8
	cfgMode      = 2 // copy range 32, mode 8, padding 8
	cfgThreshold = 5
	cfgFlags     = 6

	commandBind   = 1
	commandUnbind = 2
	copyPacket    = 2
	numbered      = 1 // NFULNL_CFG_F_SEQ
)

// bindRequest returns the request for whole packets of a group without delay. By default the kernel collects a hundred
// packets or waits a second.
func bindRequest(group uint16) []byte {
	b := commandRequest(group, commandBind)
	b = netlink.AppendAttribute(b, cfgMode, 0, 0, 0xFF, 0xFF, copyPacket, 0)
	b = netlink.AppendAttribute(b, cfgThreshold, 0, 0, 0, 1)
	return netlink.AppendAttribute(b, cfgFlags, 0, numbered)
}

func commandRequest(group uint16, command uint8) []byte {
	header := binary.BigEndian.AppendUint16([]byte{unix.AF_UNSPEC, 0}, group)
	return netlink.AppendAttribute(header, cfgCommand, command)
}
