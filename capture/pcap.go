package capture

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"time"
)

// The magic numbers of pcap: time stamps in microseconds, in nanoseconds.
const (
	pcapMicro uint32 = 0xA1B2C3D4
	pcapNano  uint32 = 0xA1B23C4D
)

// pcap reads the classic format (draft-ietf-opsawg-pcap).
type pcap struct {
	octets
	swapped bool          // the numbers are big-endian
	unit    time.Duration // of the fraction in a time stamp
	link    uint32
	minor   uint16 // of the version, 2.4 in every file since 1998
}

// newPcap reads the file header.
func newPcap(o octets, order binary.ByteOrder, unit time.Duration) (*pcap, error) {
	head, err := o.readOctets(24)
	if err != nil {
		return nil, err
	}
	if order.Uint16(head[4:]) != 2 || order.Uint16(head[6:]) > 4 {
		return nil, errVersion
	}
	// The snap length, head[16:20], promises nothing: files of merged
	// captures and of some tools hold longer packets. The bits above the link type
	// are about frame check sequences.
	link := order.Uint32(head[20:]) & 0x03FFFFFF
	return &pcap{
		octets: o, swapped: order == binary.ByteOrder(binary.BigEndian),
		unit: unit, link: link, minor: order.Uint16(head[6:]),
	}, nil
}

// lengths returns the captured and the original length of a record, given as
// they stand there. Before version 2.3 they stood in the other order; of 2.3
// there are files of both kinds, in which the captured length is not the greater
// one (as libpcap reads them).
func (p *pcap) lengths(first, second uint32) (captured, original uint32) {
	if p.minor < 3 || p.minor == 3 && first > second {
		return second, first
	}
	return first, second
}

// pcapHeaderSize is the length of the header of a record: seconds, fraction, captured and original length.
const pcapHeaderSize = 16

func (p *pcap) Next(r *Record) error {
	if p.takeBuffered(r) {
		return nil
	}
	head, err := p.begin(pcapHeaderSize)
	if err != nil {
		return err
	}
	captured := p.readHeader(r, head)
	if captured > maxPacket {
		return p.fail(errTooLong)
	}
	if r.Data, err = p.readOctets(int(captured)); r.Link == erf {
		r.unwrap()
	}
	return err
}

// readHeader sets the fields of the header of a record, and returns the captured length.
func (p *pcap) readHeader(r *Record, head []byte) (captured uint32) {
	_ = head[pcapHeaderSize-1]
	second, fraction, first, next := le.Uint32(head), le.Uint32(head[4:]), le.Uint32(head[8:]), le.Uint32(head[12:])
	if p.swapped {
		second, fraction = bits.ReverseBytes32(second), bits.ReverseBytes32(fraction)
		first, next = bits.ReverseBytes32(first), bits.ReverseBytes32(next)
	}
	r.Time = time.Unix(int64(second), int64(fraction)*int64(p.unit)).UTC()
	captured, r.OrigLen = p.lengths(first, next)
	r.Unit, r.Link = p.unit, p.link
	return captured
}

// AppendBuffered appends the packets that Next can return without reading, if their records begin before position end.
func (p *pcap) AppendBuffered(all []Record, end int64) ([]Record, error) {
	for p.at < end {
		n := len(all) // in place, as a copy of a new record would wait until its fields are written
		if all = slices.Grow(all, 1)[:n+1]; !p.takeBuffered(&all[n]) {
			return all[:n], nil
		}
	}
	return all, nil
}

// takeBuffered is Next for a packet that was read completely, and reports whether there is one.
func (p *pcap) takeBuffered(r *Record) bool {
	b := p.in.buffered()
	if len(b) < pcapHeaderSize {
		return false
	}
	captured := p.readHeader(r, b)
	n := pcapHeaderSize + int(captured)
	if captured > maxPacket || n > len(b) {
		return false
	}
	r.Data = b[pcapHeaderSize:n:n]
	p.in.Discard(n)
	p.records++
	p.start = p.at
	p.at += int64(n)
	if r.Link == erf {
		r.unwrap()
	}
	return true
}
