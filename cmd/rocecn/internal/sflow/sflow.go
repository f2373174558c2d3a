// Package sflow decodes datagrams of sFlow version 5: packets sampled by a switch, with sampling point and rate.
//
// It decodes flow samples only. The decoder of gopacket decodes all of sFlow, but panics on truncated datagrams, and
// allocates memory for counts claimed by the datagram. This package checks every length against the octets present,
// allocates nothing, and skips other samples and records.
package sflow

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/rocecn/rocecn/rocev2"
)

// Port is where collectors listen, unless configured otherwise.
const Port = 6343

var (
	// ErrVersion means another version of sFlow, or something else.
	ErrVersion = errors.New("sflow: not version 5")
	// ErrLength means that a length or a count is beyond the octets that there are.
	ErrLength = errors.New("sflow: cut, or a wrong length")
	// ErrAgent means an address of an agent that is neither of IPv4 nor of IPv6.
	ErrAgent = errors.New("sflow: an agent's address of another type")
)

// A Datagram is the header of a datagram; [Datagram.Next] reads its samples.
type Datagram struct {
	Agent    netip.Addr // sampling switch
	SubAgent uint32     // which part of it
	Sequence uint32     // of the datagrams of this part
	Uptime   uint32     // milliseconds

	samples uint32
	rest    []byte
}

// A Sample is a packet that was sampled.
type Sample struct {
	SourceType, SourceIndex uint32 // the data source: of type 0 the index is that of a port
	Sequence                uint32 // of the samples of this data source
	Rate                    uint32 // one packet in so many is sampled
	Drops                   uint32 // samples that the agent had no time for, since it began

	// Header is the begin of the packet, or nil if the sample has none that can be decoded. It aliases the datagram.
	// Options give its link type, and whether it is truncated.
	Header  []byte
	Options rocev2.DecodeOptions
}

// The formats of enterprise 0.
const (
	flowSample         = 1 // sample_data
	expandedFlowSample = 3
	rawHeader          = 1 // flow_data

	ethernet = 1 // header_protocol
	ipv4     = 11
	ipv6     = 12
)

// Decode sets d from the octets of a datagram, which it aliases.
func (d *Datagram) Decode(b []byte) error {
	r := reader{rest: b}
	if r.word() != 5 {
		if r.short {
			return ErrLength
		}
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

// Next sets s to the next flow sample, and skips other samples. It returns false at the end of the datagram, and false
// with an error if the rest is broken.
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
		if format == flowSample || format == expandedFlowSample {
			if err := s.decode(body, format == expandedFlowSample); err != nil {
				d.samples = 0
				return false, err
			}
			return true, nil
		}
	}
	return false, nil
}

// decode sets s from a flow sample.
func (s *Sample) decode(body []byte, expanded bool) error {
	r := reader{rest: body}
	*s = Sample{Sequence: r.word()}
	if expanded {
		s.SourceType, s.SourceIndex = r.word(), r.word()
	} else {
		id := r.word()
		s.SourceType, s.SourceIndex = id>>24, id&0xFFFFFF
	}
	s.Rate = r.word()
	r.word() // sample_pool
	s.Drops = r.word()
	r.word() // input and output
	r.word()
	if expanded {
		r.word() // they have a format each
		r.word()
	}
	records := r.word()
	for ; records > 0 && !r.short; records-- {
		format, length := r.word(), r.word()
		record := r.octets(length)
		if format == rawHeader && !r.short && s.Header == nil {
			if err := s.readHeader(record); err != nil {
				return err
			}
		}
	}
	if r.short {
		return ErrLength
	}
	return nil
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
	s.Options.Cut = uint64(len(header))+uint64(stripped) < uint64(length)
	return nil
}

// A reader reads XDR: words of four octets, and octets that are padded to words.
type reader struct {
	rest  []byte
	short bool // there was less than was to be read
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
