// Package capture reads and writes capture files in the formats pcap and
// pcapng. It also reads files compressed with gzip. [File] yields the packets
// of a file, each with the options for decoding it:
//
//	var f rocev2.Frame
//	for r, err := range capture.File("trace.pcapng") {
//		if err != nil {
//			log.Fatal(err)
//		}
//		f.Decode(r.Data, r.Options())
//		if flow, err := f.FiveTuple(); err == nil {
//			fmt.Println(r.Time, flow)
//		}
//	}
//
// [Open] reads from an io.Reader. [Writer] writes pcap, [PcapngWriter] pcapng.
// A capture may have any length, and reading does not allocate for each packet.
// A damaged or truncated file is never taken for a complete one: the error
// gives the number of the record and the offset in octets.
//
// # Why not gopacket/pcapgo
//
// A capture is untrusted input, and the readers of pcapgo 1.1.19 do not
// withstand a damaged one:
//
//   - NgReader returns io.EOF for a file truncated anywhere, allocates up to
//     the 4 GiB of a length field, divides by zero on a time resolution of
//     2^-64, and rounds binary resolutions.
//   - Reader rejects packets longer than the snap length, panics on 32-bit
//     machines if a length is negative there, and returns io.EOF for a file
//     truncated right after a record header.
//   - Both keep only 8 bits of the link type, and each reads one format only.
//
// Its writer imports the layers of gopacket, which add 2.7 ms to the start of
// each program.
package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/rocecn/rocecn/rocev2"
)

// maxPacket is the largest length of a packet in octets, as in libpcap and Wireshark.
// A larger length is damaged.
const maxPacket = 256 << 10

// Errors of a capture, apart from errors of reading it.
var (
	errEmpty      = errors.New("empty file")
	errNotCapture = errors.New("neither a pcap nor a pcapng capture")
	errTruncated  = errors.New("the file ends early")
	errTooLong    = errors.New("damaged: captured length over 256 KiB")
	errVersion    = errors.New("version of the format not supported")
)

// A Record is one packet of a capture.
type Record struct {
	Data    []byte        // octets that were captured
	OrigLen uint32        // length on the wire, in octets
	Time    time.Time     // in UTC; the zero time if the capture has none
	Unit    time.Duration // unit of Time: time.Microsecond, or time.Nanosecond if the capture is finer
	Link    uint32        // link type of Data, a number of https://www.tcpdump.org/linktypes.html
	// A packet in an ERF record (LINKTYPE_ERF), as capture cards of Endace write them, has the link type of the packet,
	// Ethernet or Raw, and Data and OrigLen are those of the packet. OrigLen then counts the frame check sequence, and
	// Data may end with it.
}

// Link types for writing captures.
const (
	Ethernet uint32 = 1   // Ethernet frames
	Raw      uint32 = 101 // IP packets without a link-layer header
)

// Truncated reports whether the snap length truncated Data. See rocev2.DecodeOptions.
func (r *Record) Truncated() bool { return uint64(len(r.Data)) < uint64(r.OrigLen) }

// Supported reports whether package rocev2 can decode packets of this link
// type: Ethernet, IP, or the pseudo-header of a Linux cooked or BSD loopback
// capture. The packets of ERF records, as Endace cards write them, have link
// type Ethernet or Raw.
func (r *Record) Supported() bool {
	_, ok := rocev2.LinkTypeOf(r.Link)
	return ok
}

// Options returns the options for the Decode methods of packages rocev2 and message:
// the link type, and whether the snap length truncated Data. If the link type is not
// [Record.Supported], decoding with them fails.
func (r *Record) Options() rocev2.DecodeOptions {
	link, ok := rocev2.LinkTypeOf(r.Link)
	if !ok {
		link = 0xFF
	}
	return rocev2.DecodeOptions{Link: link, AllowTruncated: r.Truncated()}
}

// A Reader returns the packets of a capture or an interface one by one.
type Reader interface {
	// Next reads the next packet into r. r.Data is valid until the next call. At the
	// end the error is io.EOF; any other error names the place of the damage. After
	// an error the Reader must not be used again.
	Next(r *Record) error
}

// File yields the packets of a capture file. The Record and its Data are valid
// until the next iteration. If the file cannot be opened or is damaged, File
// yields a nil Record with the error, and ends.
func File(name string) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		f, err := os.Open(name)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		in, err := Open(f)
		if err != nil {
			yield(nil, fmt.Errorf("%s: %w", name, err))
			return
		}
		for r, err := range All(in) {
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// All yields the packets of in. The Record and its Data are valid until the
// next iteration. If in returns an error other than io.EOF, All yields a nil
// Record with this error, and ends.
func All(in Reader) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		var r Record
		for {
			switch err := in.Next(&r); {
			case err == io.EOF:
				return
			case err != nil:
				yield(nil, err)
				return
			case !yield(&r, nil):
				return
			}
		}
	}
}

// Open reads the header of a capture and returns a Reader of its packets. The
// capture is pcap or pcapng, in either byte order, compressed with gzip or not.
// For other input and for an empty one Open returns an error.
func Open(r io.Reader) (Reader, error) { return OpenBlocks(r, nil) }

// OpenBlocks is like [Open], for programs that keep packets without copying
// them. The Reader reads into blocks of memory that it gets from the function
// block; they may have any length. It writes each block once and never reuses
// it, so the Data of every record stays valid until block returns the same
// memory again. A packet longer than a block gets memory of its own.
func OpenBlocks(r io.Reader, block func() []byte) (Reader, error) {
	return open(&window{src: r}, block)
}

// OpenBytes is like [Open], for a capture in memory, for example a mapped file. The Data of every record is a part of
// b, unless b is compressed, and stays valid as long as b. The octets of b must not change while the Reader is used.
func OpenBytes(b []byte) (Reader, error) { return open(&window{block: b, w: len(b), err: io.EOF}, nil) }

// open returns the Reader of the capture in a window. If the capture is compressed, it is unpacked into another window.
func open(in *window, block func() []byte) (Reader, error) {
	o := octets{in: in}
	if magic, _ := o.in.Peek(2); bytes.Equal(magic, []byte{0x1F, 0x8B}) {
		z, err := gzip.NewReader(o.in)
		if err != nil {
			return nil, ended(err)
		}
		o = octets{in: &window{src: z}, unpacked: true}
	}
	o.in.next = block
	magic, err := o.in.Peek(4)
	switch {
	case err == io.EOF && len(magic) == 0:
		return nil, errEmpty
	case err == io.EOF:
		return nil, errNotCapture
	case err != nil:
		return nil, ended(err)
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		switch order.Uint32(magic) {
		case pcapMicro:
			return newPcap(o, order, time.Microsecond)
		case pcapNano:
			return newPcap(o, order, time.Nanosecond)
		case blockSection:
			return &pcapng{octets: o}, nil
		}
	}
	return nil, errNotCapture
}

// octets reads a capture and counts octets and records.
type octets struct {
	in       *window
	unpacked bool  // positions are those in the unpacked data
	at       int64 // octets read so far
	records  int   // records begun so far
	start    int64 // where the last of them began
}

// Compressed reports whether the capture is compressed.
func (o *octets) Compressed() bool { return o.unpacked }

// Position returns the number of octets read so far. In a compressed capture these are unpacked octets.
func (o *octets) Position() int64 { return o.at }

// begin returns the first n octets of the next record. It returns io.EOF only if
// the capture ends right before them.
func (o *octets) begin(n int) ([]byte, error) {
	o.records++
	o.start = o.at
	head, err := o.in.Peek(n)
	if len(head) == 0 && err == io.EOF {
		return nil, io.EOF
	}
	if err != nil {
		return nil, o.fail(err)
	}
	return o.readOctets(n)
}

// readOctets returns the next n octets, at most the length of a packet. They are valid
// until the next call of any method.
func (o *octets) readOctets(n int) ([]byte, error) {
	b, err := o.in.Peek(n)
	if err != nil {
		o.at += int64(len(b))
		return nil, o.fail(err)
	}
	o.in.Discard(n)
	o.at += int64(n)
	return b, nil
}

// skip steps over n octets.
func (o *octets) skip(n int64) error {
	for n > 0 {
		some := min(n, blockSize)
		if _, err := o.readOctets(int(some)); err != nil {
			return err
		}
		n -= some
	}
	return nil
}

// fail adds the position in the capture to an error.
func (o *octets) fail(err error) error {
	unpacked := ""
	if o.unpacked {
		unpacked = " of the unpacked data"
	}
	if o.records == 0 {
		return fmt.Errorf("file header: %w", ended(err))
	}
	return fmt.Errorf("record %d, at octet %d%s: %w", o.records, o.start, unpacked, ended(err))
}

// ended gives the errors for an end in the wrong place a clear text.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTruncated
	}
	return err
}
