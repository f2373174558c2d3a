package capture

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"time"
)

// A Writer writes a pcap capture of one link type.
type Writer struct {
	w    io.Writer
	unit time.Duration
	buf  []byte
}

// Errors of writing.
var (
	errUnit   = errors.New("time stamps of pcap are in microseconds or nanoseconds")
	errPacket = errors.New("packet over 256 KiB")
)

// NewWriter returns a Writer and writes the file header. unit is the unit of the time
// stamps: time.Microsecond or time.Nanosecond. Any other unit is an error.
func NewWriter(w io.Writer, link uint32, unit time.Duration) (*Writer, error) {
	magic := pcapMicro
	switch unit {
	case time.Microsecond:
	case time.Nanosecond:
		magic = pcapNano
	default:
		return nil, errUnit
	}
	head := le.AppendUint32(make([]byte, 0, 24), magic)
	head = le.AppendUint16(head, 2) // version 2.4
	head = le.AppendUint16(head, 4)
	head = le.AppendUint64(head, 0) // reserved
	head = le.AppendUint32(head, maxPacket)
	head = le.AppendUint32(head, link)
	_, err := w.Write(head)
	return &Writer{w: w, unit: unit}, err
}

var le = binary.LittleEndian

// Write writes a packet. It ignores Link and Unit of the record. If OrigLen is
// below the length of Data, Write writes that length instead. A time before
// 1970 or after 2106 is written as 0. If Data exceeds 256 KiB, Write returns an
// error and writes nothing.
func (w *Writer) Write(r *Record) error {
	if len(r.Data) > maxPacket {
		return errPacket
	}
	seconds, fraction := r.Time.Unix(), int64(r.Time.Nanosecond())/int64(w.unit)
	if seconds < 0 || seconds > math.MaxUint32 {
		seconds, fraction = 0, 0
	}
	w.buf = le.AppendUint32(w.buf[:0], uint32(seconds))
	w.buf = le.AppendUint32(w.buf, uint32(fraction))
	w.buf = le.AppendUint32(w.buf, uint32(len(r.Data)))
	w.buf = le.AppendUint32(w.buf, max(r.OrigLen, uint32(len(r.Data))))
	w.buf = append(w.buf, r.Data...)
	_, err := w.w.Write(w.buf)
	return err
}
