package capture

import (
	"errors"
	"io"
	"math"
	"time"
)

// A PcapngWriter writes a pcapng capture (draft-ietf-opsawg-pcapng) of one section, little-endian. Its packets may come
// from several interfaces, each with a link type of its own, and may have comments:
//
//	w, err := capture.NewPcapngWriter(file)
//	eth, err := w.AddInterface(capture.Interface{Link: capture.Ethernet, Name: "eth0"})
//	err = w.Write(eth, record, "the first CNP of this flow")
//
// Each call writes its block in one Write of the underlying writer.
type PcapngWriter struct {
	w          io.Writer
	interfaces []int64 // units of time stamps in nanoseconds
	buf        []byte
}

// Interface is the description of an interface in a pcapng capture.
type Interface struct {
	Link    uint32        // link type of the packets, 16 bits: see Record
	Name    string        // name, such as "eth0"; omitted if empty
	Comment string        // comment; omitted if empty
	Unit    time.Duration // unit of time stamps: time.Nanosecond or time.Microsecond; 0 stands for time.Nanosecond
}

// Options of pcapng blocks that are written.
const (
	optionComment = 1 // opt_comment
	optionName    = 2 // if_name
)

// maxText is the length of the longest text of an option, a multiple of 4.
const maxText = 0xFFFC

// Errors of PcapngWriter.
var (
	errLinkType    = errors.New("link type over 65535, which pcapng has no room for")
	errLongText    = errors.New("name or comment over 65532 octets")
	errNoInterface = errors.New("interface that AddInterface did not return")
)

// NewPcapngWriter returns a PcapngWriter and writes the header of the section
// to w.
func NewPcapngWriter(w io.Writer) (*PcapngWriter, error) {
	p := &PcapngWriter{w: w}
	p.begin(blockSection)
	p.buf = le.AppendUint32(p.buf, pcapngByteOrder)
	p.buf = le.AppendUint16(p.buf, 1) // version 1.0
	p.buf = le.AppendUint16(p.buf, 0)
	p.buf = le.AppendUint64(p.buf, 1<<64-1) // length of the section: unknown
	return p, p.end()
}

// AddInterface writes the description of an interface and returns its number,
// which Write needs. It returns an error and writes nothing if the link type
// exceeds 16 bits, the unit is another one, or a text exceeds 65532 octets.
func (p *PcapngWriter) AddInterface(i Interface) (number int, err error) {
	resolution := byte(9) // 10^-9 s
	switch i.Unit {
	case 0, time.Nanosecond:
		i.Unit = time.Nanosecond
	case time.Microsecond:
		resolution = 6
	default:
		return 0, errUnit
	}
	switch {
	case i.Link > 0xFFFF:
		return 0, errLinkType
	case max(len(i.Name), len(i.Comment)) > maxText:
		return 0, errLongText
	}
	p.begin(blockInterface)
	p.buf = le.AppendUint16(p.buf, uint16(i.Link))
	p.buf = le.AppendUint16(p.buf, 0) // reserved
	p.buf = le.AppendUint32(p.buf, maxPacket)
	p.option(optionComment, i.Comment)
	p.option(optionName, i.Name)
	p.option(optionResolution, string([]byte{resolution}))
	p.buf = le.AppendUint32(p.buf, optionEnd)
	if err := p.end(); err != nil {
		return 0, err
	}
	p.interfaces = append(p.interfaces, int64(i.Unit))
	return len(p.interfaces) - 1, nil
}

// Write writes a packet of the interface with this number, and a comment unless
// it is empty. It ignores Link and Unit of the record. If OrigLen is below the
// length of Data, Write writes that length instead. A time before 1970 is
// written as 0, and so is one of more than 63 bits in the unit of the interface
// (in nanoseconds from April 2262 on). Write returns an error and writes
// nothing if Data exceeds 256 KiB, which no reader accepts, the comment exceeds
// 65532 octets, or the interface is unknown.
func (p *PcapngWriter) Write(number int, r *Record, comment string) error {
	switch {
	case number < 0 || number >= len(p.interfaces):
		return errNoInterface
	case len(r.Data) > maxPacket:
		return errPacket
	case len(comment) > maxText:
		return errLongText
	}
	unit := p.interfaces[number]
	perSecond := int64(time.Second) / unit
	var ticks uint64
	if seconds := r.Time.Unix(); seconds >= 0 && seconds < math.MaxInt64/perSecond {
		ticks = uint64(seconds)*uint64(perSecond) + uint64(int64(r.Time.Nanosecond())/unit)
	}
	p.begin(blockEnhanced)
	p.buf = le.AppendUint32(p.buf, uint32(number))
	p.buf = le.AppendUint32(p.buf, uint32(ticks>>32))
	p.buf = le.AppendUint32(p.buf, uint32(ticks))
	p.buf = le.AppendUint32(p.buf, uint32(len(r.Data)))
	p.buf = le.AppendUint32(p.buf, max(r.OrigLen, uint32(len(r.Data))))
	p.buf = append(p.buf, r.Data...)
	p.pad()
	if comment != "" {
		p.option(optionComment, comment)
		p.buf = le.AppendUint32(p.buf, optionEnd)
	}
	return p.end()
}

// begin begins a block of this type; end sets its length.
func (p *PcapngWriter) begin(kind uint32) { p.buf = le.AppendUint64(p.buf[:0], uint64(kind)) }

// option appends an option unless its value is empty.
func (p *PcapngWriter) option(code uint16, value string) {
	if value == "" {
		return
	}
	p.buf = le.AppendUint16(p.buf, code)
	p.buf = le.AppendUint16(p.buf, uint16(len(value)))
	p.buf = append(p.buf, value...)
	p.pad()
}

// pad appends zeros up to a multiple of 4 octets.
func (p *PcapngWriter) pad() { p.buf = append(p.buf, "\x00\x00\x00"[:-len(p.buf)&3]...) }

// end ends the block and writes it.
func (p *PcapngWriter) end() error {
	length := uint32(len(p.buf) + 4)
	le.PutUint32(p.buf[4:], length)
	p.buf = le.AppendUint32(p.buf, length)
	_, err := p.w.Write(p.buf)
	return err
}
