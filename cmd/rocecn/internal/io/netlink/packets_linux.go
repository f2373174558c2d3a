package netlink

import (
	"fmt"
	"io"
	"time"

	"github.com/rocecn/rocecn/netio"
)

// A PacketSource is a [netio.Source] of numbered messages with one packet each. A packet has the time of its message,
// or else the time of the call of Read.
type PacketSource struct {
	Stream
	Name string // the text before errors, such as "nflog: group 5"
	// Decode returns the packet of a message, which is valid until the next call, and the number of the message, if it
	// has one. It returns false for a message that is not of this source.
	Decode func(m Message) (p *netio.Packet, number uint32, numbered, ok bool)
	Leave  func() error // the function that ends the delivery of messages

	packets []netio.Packet
}

// Read implements [netio.Source].
func (s *PacketSource) Read() ([]netio.Packet, error) {
	datagrams, err := s.Next()
	switch {
	case err == io.EOF || err == nil && datagrams == nil:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return s.ReadPackets(datagrams), nil
}

// ReadPackets returns the packets in datagrams, if there are any, until the next call.
func (s *PacketSource) ReadPackets(datagrams [][]byte) []netio.Packet {
	if s.packets == nil {
		s.packets = make([]netio.Packet, 0, 64) // the result is never nil, as that is the end
	}
	s.packets = s.packets[:0]
	var now time.Time
	for _, b := range datagrams {
		for m, b, ok := SplitMessage(b); ok; m, b, ok = SplitMessage(b) {
			p, number, numbered, ok := s.Decode(m)
			if !ok {
				continue
			}
			if numbered {
				s.Number(number)
			}
			if p.Time.IsZero() {
				if now.IsZero() {
					now = time.Now().UTC()
				}
				p.Time = now
			}
			s.packets = append(s.packets, *p)
		}
	}
	return s.packets
}

// Stop implements [netio.Source].
func (s *PacketSource) Stop() error {
	s.Stopped = true
	return s.Leave()
}
