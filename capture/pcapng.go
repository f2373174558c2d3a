package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"time"
)

// Block types of pcapng.
const (
	blockSection    = 0x0A0D0D0A // the same in both byte orders
	blockInterface  = 1
	blockOldPacket  = 2 // obsolete, but written by old tools
	blockSimple     = 3
	blockEnhanced   = 6
	pcapngByteOrder = 0x1A2B3C4D
)

// Options of an interface.
const (
	optionEnd        = 0
	optionResolution = 9  // if_tsresol
	optionOffset     = 14 // if_tsoffset
)

// maxInterfaces is the largest number of interfaces in a section. It limits the memory
// that a file can occupy.
const maxInterfaces = 1 << 16

// Errors of a pcapng capture.
var (
	errBlockLength = errors.New("damaged: block length below 12, no multiple of 4, or not the same at both ends")
	errBlockShort  = errors.New("damaged: block too short for its fields")
	errByteOrder   = errors.New("damaged: byte order of the section is neither of the two")
	errInterface   = errors.New("damaged: packet of an interface that the section does not have")
	errInterfaces  = errors.New("damaged: more than 65536 interfaces")
	errResolution  = errors.New("damaged: time resolution finer than 2^-63 or 10^-19 s")
)

// pcapng reads the newer format (draft-ietf-opsawg-pcapng). Sections may differ
// in byte order, interfaces in link type and time resolution. Blocks other than
// packets, sections and interfaces are skipped.
type pcapng struct {
	octets
	order      binary.ByteOrder
	interfaces []pcapngInterface
	length     uint32 // of the present block
	left       uint32 // octets of its body that are not read yet
}

type pcapngInterface struct {
	link   uint32
	snap   uint32 // 0 for none
	units  uint64 // of time stamps, in a second
	offset int64  // of time stamps, in seconds
}

func (p *pcapng) Next(r *Record) error {
	for {
		kind, err := p.beginBlock()
		if err != nil {
			return err
		}
		packet := false
		switch kind {
		case blockSection:
			err = p.section()
		case blockInterface:
			err = p.describe()
		case blockEnhanced, blockOldPacket:
			err, packet = p.packet(r, kind == blockOldPacket), true
		case blockSimple:
			err, packet = p.simple(r), true
		}
		if err == nil {
			err = p.endBlock()
		}
		if packet && r.Link == erf {
			r.unwrap()
		}
		if err != nil || packet {
			return err
		}
	}
}

// AppendBuffered appends packets that Next can return without reading, if their blocks begin before position end: as
// long as the next block is that of a packet, and was read completely. After another block Next would go on to one that
// may not be.
func (p *pcapng) AppendBuffered(all []Record, end int64) ([]Record, error) {
	for p.at < end && p.isBuffered() {
		n := len(all)
		all = slices.Grow(all, 1)[:n+1]
		if err := p.Next(&all[n]); err != nil {
			return all[:n], err
		}
	}
	return all, nil
}

func (p *pcapng) isBuffered() bool {
	b := p.in.buffered()
	if len(b) < 8 || p.order == nil || uint64(p.order.Uint32(b[4:])) > uint64(len(b)) {
		return false
	}
	switch p.order.Uint32(b) {
	case blockEnhanced, blockSimple, blockOldPacket:
		return true
	}
	return false
}

// beginBlock reads type and length of a block. The byte order is that of the section,
// and the header of the section gives it after its length.
func (p *pcapng) beginBlock() (kind uint32, err error) {
	head, err := p.begin(8)
	if err != nil {
		return 0, err
	}
	length := [4]byte(head[4:])
	if binary.LittleEndian.Uint32(head) == blockSection {
		kind = blockSection
		magic, err := p.in.Peek(4)
		switch {
		case err != nil:
			return 0, p.fail(err)
		case binary.LittleEndian.Uint32(magic) == pcapngByteOrder:
			p.order = binary.LittleEndian
		case binary.BigEndian.Uint32(magic) == pcapngByteOrder:
			p.order = binary.BigEndian
		default:
			return 0, p.fail(errByteOrder)
		}
	} else {
		kind = p.order.Uint32(head)
	}
	p.length = p.order.Uint32(length[:])
	if p.length < 12 || p.length%4 != 0 {
		return 0, p.fail(errBlockLength)
	}
	p.left = p.length - 12
	return kind, nil
}

// endBlock skips the rest of the body and checks the length after it.
func (p *pcapng) endBlock() error {
	if err := p.skip(int64(p.left)); err != nil {
		return err
	}
	tail, err := p.readOctets(4)
	if err != nil {
		return err
	}
	if p.order.Uint32(tail) != p.length {
		return p.fail(errBlockLength)
	}
	return nil
}

// body takes n octets of the block's body, 64 KiB at the most.
func (p *pcapng) body(n uint32) ([]byte, error) {
	if n > p.left {
		return nil, p.fail(errBlockShort)
	}
	p.left -= n
	return p.readOctets(int(n))
}

func (p *pcapng) section() error {
	head, err := p.body(16) // byte order, version, length of the section
	if err != nil {
		return err
	}
	if p.order.Uint16(head[4:]) != 1 {
		return p.fail(errVersion)
	}
	p.interfaces = p.interfaces[:0]
	return nil
}

// describe reads an interface description.
func (p *pcapng) describe() error {
	head, err := p.body(8)
	if err != nil {
		return err
	}
	i := pcapngInterface{link: uint32(p.order.Uint16(head)), snap: p.order.Uint32(head[4:]), units: 1e6}
	for p.left >= 4 {
		head, err := p.body(4)
		if err != nil {
			return err
		}
		code, n := p.order.Uint16(head), p.order.Uint16(head[2:])
		if code == optionEnd {
			break
		}
		value, err := p.body((uint32(n) + 3) &^ 3)
		switch {
		case err != nil:
			return err
		case code == optionResolution && n == 1:
			if i.units = unitsPerSecond(value[0]); i.units == 0 {
				return p.fail(errResolution)
			}
		case code == optionOffset && n == 8:
			i.offset = int64(p.order.Uint64(value))
		}
	}
	if len(p.interfaces) == maxInterfaces {
		return p.fail(errInterfaces)
	}
	p.interfaces = append(p.interfaces, i)
	return nil
}

// unitsPerSecond returns the number of units of an if_tsresol in a second, or 0 if it
// does not fit.
func unitsPerSecond(value uint8) uint64 {
	exponent := value & 0x7F
	if value != exponent {
		return 1 << exponent // 0 from 64 on
	}
	if exponent > 19 {
		return 0
	}
	units := uint64(1)
	for range exponent {
		units *= 10
	}
	return units
}

// packet reads a packet block, of the obsolete kind or of the present one.
func (p *pcapng) packet(r *Record, old bool) error {
	head, err := p.body(20)
	if err != nil {
		return err
	}
	number := p.order.Uint32(head)
	if old {
		number = uint32(p.order.Uint16(head)) // the rest counts drops
	}
	if uint64(number) >= uint64(len(p.interfaces)) {
		return p.fail(errInterface)
	}
	i := &p.interfaces[number]
	ticks := uint64(p.order.Uint32(head[4:]))<<32 | uint64(p.order.Uint32(head[8:]))
	captured := p.order.Uint32(head[12:])
	r.OrigLen = p.order.Uint32(head[16:])
	r.Time, r.Unit = i.time(ticks), i.unit()
	r.Link = i.link
	return p.data(r, captured)
}

// simple reads a simple packet block, which has neither time nor captured
// length and belongs to the first interface.
func (p *pcapng) simple(r *Record) error {
	head, err := p.body(4)
	if err != nil {
		return err
	}
	if len(p.interfaces) == 0 {
		return p.fail(errInterface)
	}
	i := &p.interfaces[0]
	r.OrigLen = p.order.Uint32(head)
	r.Time, r.Unit = time.Time{}, time.Microsecond
	r.Link = i.link
	captured := r.OrigLen
	if i.snap != 0 {
		captured = min(captured, i.snap)
	}
	return p.data(r, captured)
}

func (p *pcapng) data(r *Record, captured uint32) (err error) {
	switch {
	case captured > p.left:
		return p.fail(errBlockShort)
	case captured > maxPacket:
		return p.fail(errTooLong)
	}
	p.left -= captured
	if whole := uint64(captured) + uint64(p.left) + 4; whole <= blockSize {
		p.in.Peek(int(whole)) // so that reading the rest of the block does not move the packet
		r.Data, err = p.readOctets(int(captured))
		return err
	}
	r.Data, err = p.readOctets(int(captured))
	if p.in.src != nil { // else the capture is in memory and stays there
		r.Data = bytes.Clone(r.Data)
	}
	return err
}

// unit returns the unit that times of the interface are whole numbers of.
func (i *pcapngInterface) unit() time.Duration {
	if 1e6%i.units == 0 {
		return time.Microsecond
	}
	return time.Nanosecond
}

// time converts a time stamp. Outside of the years 1 to 9999, which text has no
// room for, it returns the zero time.
func (i *pcapngInterface) time(ticks uint64) time.Time {
	const year1, year10000 = -62135596800, 253402300800
	seconds, fraction := ticks/i.units, ticks%i.units
	if seconds >= year10000 || i.offset < year1-year10000 || i.offset >= year10000 {
		return time.Time{}
	}
	unix := int64(seconds) + i.offset
	if unix < year1 || unix >= year10000 {
		return time.Time{}
	}
	hi, lo := bits.Mul64(fraction, 1e9)
	nanoseconds, _ := bits.Div64(hi, lo, i.units) // cannot overflow: fraction < units
	return time.Unix(unix, int64(nanoseconds)).UTC()
}
