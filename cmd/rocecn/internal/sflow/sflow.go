// Package sflow decodes datagrams of sFlow version 5: packets that a switch sampled or discarded, with the sampling
// point and the egress queue.
//
// The decoder of gopacket decodes all of sFlow, but panics on truncated datagrams, and allocates memory for counts
// claimed by the datagram. This package checks every length against the octets present, allocates nothing, and skips
// counters and records for other purposes.
package sflow

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/rocecn/rocecn/rocev2"
)

// Port is the UDP port of collectors, unless configured otherwise.
const Port = 6343

var (
	// ErrVersion4 means that the datagram claims to be of version 4. Its samples have another layout.
	ErrVersion4 = errors.New("sflow: version 4: want 5")
	// ErrVersion means that the version is neither 4 nor 5.
	ErrVersion = errors.New("sflow: version: want 5")
	// ErrLength means that a length or a count exceeds the octets present.
	ErrLength = errors.New("sflow: length or count exceeds the datagram")
	// ErrAgent means that the type of the agent's address is neither IPv4 (1) nor IPv6 (2).
	ErrAgent = errors.New("sflow: address type of the agent: want 1 or 2")
)

// A Datagram is the header of a datagram; [Datagram.Next] reads its samples.
type Datagram struct {
	Agent    netip.Addr // sampling switch
	SubAgent uint32     // part of the switch
	Sequence uint32     // of the datagrams of this part
	Uptime   uint32     // milliseconds

	samples uint32
	rest    []byte
}

// A Sample is a packet that was sampled or discarded.
type Sample struct {
	// Format of the sample, with the number of the enterprise in the upper 20 bits.
	Format  uint32
	Unknown bool // the format is not decoded, and the other fields are not set

	SourceType, SourceIndex uint32 // data source: with type 0 the index is that of a port
	Sequence                uint32 // of the samples of this data source
	Rate                    uint32 // one packet in Rate is sampled; 0 if the packet was discarded
	Drops                   uint32 // samples that the agent could not send, since its start
	Output                  uint32 // ifIndex of the egress port, 0 if unknown

	Discarded bool // the packet was discarded, for this Reason
	Reason    DropReason

	// Header is the begin of the packet, or nil if the sample has none that can be decoded. It aliases the datagram.
	// Options give its link type, and whether it is truncated.
	Header  []byte
	Options rocev2.DecodeOptions

	Transit
}

// The formats of enterprise 0.
const (
	flowSample           = 1 // sample_data
	counterSample        = 2
	expandedFlowSample   = 3
	expandedCounter      = 4
	discardedPacket      = 5
	rawHeader            = 1 // flow_data
	egressQueue          = 1036
	transitDelay         = 1039
	queueDepth           = 1040
	hardwareTrap         = 1041
	linuxReason          = 1042
	ethernet             = 1 // header_protocol
	ipv4                 = 11
	ipv6                 = 12
	interfaceFormatShift = 30 // the upper bits of a compact interface; 0 means an ifIndex
	internalInterface    = 1<<interfaceFormatShift - 1
)

// Decode sets d from the octets of a datagram, which it aliases.
func (d *Datagram) Decode(b []byte) error {
	r := reader{rest: b}
	switch version := r.word(); {
	case r.short:
		return ErrLength
	case version == 4:
		return ErrVersion4
	case version != 5:
		return ErrVersion
	}
	var agent netip.Addr
	switch kind := r.word(); {
	case kind == 1:
		agent, _ = netip.AddrFromSlice(r.octets(4))
	case kind == 2:
		agent, _ = netip.AddrFromSlice(r.octets(16))
	case !r.short:
		return ErrAgent
	}
	head := Datagram{Agent: agent, SubAgent: r.word(), Sequence: r.word(), Uptime: r.word(), samples: r.word()}
	if r.short {
		return ErrLength
	}
	head.rest = r.rest
	*d = head
	return nil
}

// Next sets s to the next sample, and skips counters. It returns false at the end of the datagram, and false with an
// error if the rest is invalid.
func (d *Datagram) Next(s *Sample) (ok bool, err error) {
	for d.samples > 0 {
		r := reader{rest: d.rest}
		format, length := r.word(), r.word()
		body := r.octets(length)
		if r.short {
			d.samples = 0
			return false, ErrLength
		}
		d.samples--
		d.rest = r.rest
		if format == counterSample || format == expandedCounter {
			continue
		}
		if err := s.decode(body, format); err != nil {
			d.samples = 0
			return false, err
		}
		return true, nil
	}
	return false, nil
}

// decode sets s from the body of a sample.
//
//	flow_sample     flow_sample_expanded   discarded_packet (sflow_drops.txt, section 2)
//	sequence        sequence               sequence
//	source          source type, index     source type, index
//	sampling rate   sampling rate          drops
//	pool            pool                   input
//	drops           drops                  output
//	input           input format, value    reason
//	output          output format, value
//	records         records                records
func (s *Sample) decode(body []byte, format uint32) error {
	*s = Sample{Format: format}
	r := reader{rest: body}
	switch format {
	case flowSample:
		s.Sequence = r.word()
		id := r.word()
		s.SourceType, s.SourceIndex = id>>24, id&0xFFFFFF
		s.Rate = r.word()
		r.word()
		s.Drops = r.word()
		r.word()
		output := r.word()
		s.setOutput(output>>interfaceFormatShift, output&internalInterface)
	case expandedFlowSample:
		s.Sequence, s.SourceType, s.SourceIndex, s.Rate = r.word(), r.word(), r.word(), r.word()
		r.word()
		s.Drops = r.word()
		r.word()
		r.word()
		s.setOutput(r.word(), r.word())
	case discardedPacket:
		s.Discarded = true
		s.Sequence, s.SourceType, s.SourceIndex, s.Drops = r.word(), r.word(), r.word(), r.word()
		r.word()
		s.setOutput(0, r.word())
		s.Reason = DropReason(r.word())
	default:
		s.Unknown = true
		return nil
	}
	for records := r.word(); records > 0 && !r.short; records-- {
		format, length := r.word(), r.word()
		record := r.octets(length)
		if r.short {
			break
		}
		if format == rawHeader && s.Header == nil {
			if err := s.readHeader(record); err != nil {
				return err
			}
		} else if err := s.readRecord(format, record); err != nil {
			return err
		}
	}
	if r.short {
		return ErrLength
	}
	return nil
}

// setOutput sets the egress port, unless the packet has none or several.
func (s *Sample) setOutput(format, value uint32) {
	if format == 0 && value != internalInterface {
		s.Output = value
	}
}

// readHeader sets the begin of the packet from a record of the type sampled_header.
func (s *Sample) readHeader(record []byte) error {
	r := reader{rest: record}
	protocol, length, stripped := r.word(), r.word(), r.word()
	header := r.octets(r.word())
	if r.short {
		return ErrLength
	}
	switch protocol {
	case ethernet:
		s.Options.Link = rocev2.LinkEthernet
	case ipv4, ipv6:
		s.Options.Link = rocev2.LinkIP
	default:
		return nil
	}
	s.Header = header
	s.Options.AllowTruncated = uint64(len(header))+uint64(stripped) < uint64(length)
	return nil
}

// A reader reads XDR: words of four octets, and octets that are padded to words.
type reader struct {
	rest  []byte
	short bool // fewer octets were present than were to be read
}

func (r *reader) word() uint32 {
	if len(r.rest) < 4 {
		r.rest, r.short = nil, true
		return 0
	}
	n := binary.BigEndian.Uint32(r.rest)
	r.rest = r.rest[4:]
	return n
}

func (r *reader) octets(n uint32) []byte {
	padded := (uint64(n) + 3) &^ 3
	if padded > uint64(len(r.rest)) {
		r.rest, r.short = nil, true
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[padded:]
	return b
}
