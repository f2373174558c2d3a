package nflog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"github.com/rocecn/rocecn/netio"
	"golang.org/x/sys/unix"
)

// source is a [netio.Source] of packets that nftables rules log to one group.
type source struct {
	stream  netlink.Stream
	group   uint16
	entry   entry
	packets []netio.Packet
}

// ErrTaken reports that another program reads the group.
var ErrTaken = errors.New("another program reads this group")

// Open starts to read a group in the network namespace of the calling thread. It needs CAP_NET_ADMIN.
func Open(group uint16) (netio.Source, error) {
	socket, err := netlink.Open(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("nflog: %w", err)
	}
	s := &source{stream: netlink.Stream{Socket: socket}, group: group, packets: make([]netio.Packet, 0, 64)}
	switch err := socket.Request(configure, 0, s.bindRequest(), nil); {
	case err == nil:
		return s, nil
	case err == unix.EPERM: // the process has CAP_NET_ADMIN
		err = ErrTaken
		fallthrough
	default:
		socket.Close()
		return nil, fmt.Errorf("nflog: group %d: %w", group, err)
	}
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

// bindRequest returns the request for whole packets without delay. By default the kernel collects a hundred
// packets or waits a second.
func (s *source) bindRequest() []byte {
	b := s.appendCommand(commandBind)
	b = netlink.AppendAttribute(b, cfgMode, 0, 0, 0xFF, 0xFF, copyPacket, 0)
	b = netlink.AppendAttribute(b, cfgThreshold, 0, 0, 0, 1)
	return netlink.AppendAttribute(b, cfgFlags, 0, numbered)
}

func (s *source) appendCommand(command uint8) []byte {
	header := binary.BigEndian.AppendUint16([]byte{unix.AF_UNSPEC, 0}, s.group)
	return netlink.AppendAttribute(header, cfgCommand, command)
}

// Read implements [netio.Source]. A packet has the kernel's time stamp, or else the time of the call.
func (s *source) Read() ([]netio.Packet, error) {
	datagrams, err := s.stream.Next()
	switch {
	case err == io.EOF || err == nil && datagrams == nil:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("nflog: group %d: %w", s.group, err)
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
			e := &s.entry
			if !e.decodeMessage(m) || e.group != s.group {
				continue
			}
			if e.hasSequence {
				s.stream.Number(e.sequence)
			}
			if e.packet.Time.IsZero() {
				if now.IsZero() {
					now = time.Now().UTC()
				}
				e.packet.Time = now
			}
			s.packets = append(s.packets, e.packet)
		}
	}
}

// Stop implements [netio.Source].
func (s *source) Stop() error {
	s.stream.Stopped = true
	return s.stream.Send(configure, 0, s.appendCommand(commandUnbind))
}

// FD implements [netio.Source].
func (s *source) FD() int { return s.stream.FD() }

// Lost implements [netio.Source].
func (s *source) Lost() uint64 { return s.stream.Lost() }

// Close implements [netio.Source].
func (s *source) Close() error { return s.stream.Close() }
