package capture

import (
	"encoding/binary"
	"math/bits"
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

func (p *pcap) Next(r *Record) error {
	head, err := p.begin(16)
	if err != nil {
		return err
	}
	var h [4]uint32 // seconds, fraction, captured length, original length
	for i := range h {
		h[i] = binary.LittleEndian.Uint32(head[4*i:])
		if p.swapped {
			h[i] = bits.ReverseBytes32(h[i])
		}
	}
	r.Time = time.Unix(int64(h[0]), int64(h[1])*int64(p.unit)).UTC()
	captured, original := p.lengths(h[2], h[3])
	r.Unit, r.Link, r.OrigLen = p.unit, p.link, original
	if captured > maxPacket {
		return p.fail(errTooLong)
	}
	if r.Data, err = p.readOctets(int(captured)); r.Link == erf {
		r.unwrap()
	}
	return err
}
