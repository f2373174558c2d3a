// Package psample receives packets that the kernel or switch hardware samples: those of one group of PSAMPLE. Its
// samples come from tc's action sample and from drivers of switches, some with the depth of the queue. With RED's
// qevent mark they are exactly the packets that RED marks:
//
//	tc qdisc add dev swp1 root handle 1: red … ecn qevent mark block 10
//	tc filter add block 10 matchall action sample rate 1 group 5
//
// PSAMPLE sends each sample to all readers of the group.
package psample

import (
	"encoding/binary"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"github.com/rocecn/rocecn/netio"
)

// Names, messages and attributes of PSAMPLE (linux/psample.h).
const (
	familyName = "psample"
	groupName  = "packets"

	commandSample = 0

	attrIn        = 0
	attrOut       = 1
	attrSize      = 2
	attrGroup     = 3
	attrSequence  = 4
	attrData      = 6
	attrOccupancy = 11
	attrTime      = 13
)

// headerSize is the length of struct genlmsghdr: command 8, version 8, reserved 16.
const headerSize = 4

var ne = binary.NativeEndian

// A sample is a packet of PSAMPLE.
type sample struct {
	group, sequence uint32
	packet          netio.Packet
}

// decodeMessage decodes a message of PSAMPLE's family. It returns false for a message about groups, which has no
// packet.
func (s *sample) decodeMessage(m netlink.Message) bool {
	if len(m.Data) < headerSize || m.Data[0] != commandSample {
		return false
	}
	*s = sample{}
	p := &s.packet
	p.Link, p.Unit, p.Origin = capture.Ethernet, time.Nanosecond, netio.OriginSampled
	var hasData, hasGroup bool
	size := uint32(0)
	for kind, data, rest, ok := netlink.SplitAttribute(m.Data[headerSize:]); ok; kind, data, rest, ok =
		netlink.SplitAttribute(rest) {
		switch {
		case kind == attrData:
			p.Data, hasData = data, true
		case kind == attrGroup && len(data) >= 4:
			s.group, hasGroup = ne.Uint32(data), true
		case kind == attrSequence && len(data) >= 4:
			s.sequence = ne.Uint32(data)
		case kind == attrSize && len(data) >= 4:
			size = ne.Uint32(data)
		case kind == attrIn:
			p.Interface = readIndex(data)
		case kind == attrOut:
			p.Egress = readIndex(data)
		case kind == attrOccupancy && len(data) >= 8:
			p.Depth, p.DepthKnown = ne.Uint64(data), true
		case kind == attrTime && len(data) >= 8:
			if ns := ne.Uint64(data); ns < 1<<63 {
				p.Time = time.Unix(0, int64(ns)).UTC()
			}
		}
	}
	p.OrigLen = max(size, uint32(len(p.Data)))
	return hasData && hasGroup
}

// readIndex decodes an interface index. The kernel sends 16 bits of it, and may send 32 bits in the future.
func readIndex(b []byte) int {
	switch len(b) {
	case 2:
		return int(ne.Uint16(b))
	case 4:
		return int(ne.Uint32(b) & 0x7FFFFFFF)
	}
	return 0
}
