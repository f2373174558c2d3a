package bth_test

import (
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// sink has the receivers, inputs and results of the functions below.
var sink struct {
	header  bth.Header
	headers bth.Headers
	err     error
}

func decodeHeader(b []byte)  { _, sink.err = sink.header.Decode(b) }
func appendHeader(b []byte)  { _, sink.err = sink.header.AppendBinary(b) }
func decodeHeaders(b []byte) { _, sink.err = sink.headers.Decode(b) }
func appendHeaders(b []byte) { _, sink.err = sink.headers.AppendBinary(b) }

// Decoding and encoding do not allocate on success and on error. Validate does not
// allocate for a valid header.
func TestNothingAllocates(t *testing.T) {
	buf := make([]byte, 0, 64)
	octets := make([][]byte, 256)
	for i := range octets {
		octets[i], _ = packet(t, bth.Opcode(i))
	}
	wiretest.NoAllocs(t, "every opcode, complete and truncated", func() {
		for _, b := range octets {
			decodeHeader(b)
			appendHeader(buf)
			decodeHeaders(b)
			appendHeaders(buf)
			decodeHeader(b[:11])
			decodeHeaders(b[:11])
			decodeHeaders(b[:len(b)-1])
			_, sink.err = sink.headers.Decode(b)
			sink.headers.PSN = 1 << 24
			appendHeaders(buf)
		}
	})
	sink.headers = bth.Headers{Header: bth.Header{PKey: bth.DefaultPKey}}
	wiretest.NoAllocs(t, "Validate", func() { sink.err = sink.headers.Validate() })
	for _, tt := range misfits {
		wiretest.NoAllocs(t, tt.err.Error(), func() { _, sink.err = tt.header.AppendBinary(buf) })
	}
	for _, tt := range extended {
		b := wiretest.Hex(t, tt.octets)
		h := &one{bit: tt.bit}
		wiretest.NoAllocs(t, tt.bit.String(), func() {
			_, sink.err = h.Decode(b)
			_, sink.err = h.AppendBinary(buf)
			_, sink.err = h.Decode(b[1:])
		})
	}
	wiretest.NoAllocs(t, "iteration", func() {
		for x := range bth.TransportRD.Opcode(bth.OpRDMAWriteOnlyWithImmediate).Headers().All() {
			sink.headers.Present |= x
		}
	})
}
