package bth_test

import (
	"bytes"
	"encoding"
	"errors"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// roundTrip fails the test unless h decodes b and encodes the same octets, or rejects
// b as truncated. It returns the number of octets that h has decoded.
func roundTrip(t *testing.T, b []byte, h interface {
	Decode([]byte) ([]byte, error)
	encoding.BinaryAppender
	String() string
}) (n int, ok bool) {
	t.Helper()
	rest, err := h.Decode(b)
	if err != nil {
		if !errors.Is(err, wireerr.Truncated) || rest != nil {
			t.Fatalf("error %v, rest %x", err, rest)
		}
		return 0, false
	}
	n = len(b) - len(rest)
	again, err := h.AppendBinary(nil)
	if err != nil || !bytes.Equal(again, b[:n]) {
		t.Fatalf("%v\nread    %x\nwritten %x, error %v", h, b[:n], again, err)
	}
	_ = h.String()
	return n, true
}

func FuzzHeader(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		var h bth.Header
		n, ok := roundTrip(t, b, &h)
		if ok != (len(b) >= bth.Size) || ok && n != bth.Size {
			t.Fatalf("took %d of %d octets", n, len(b))
		}
		_ = h.Validate()
	})
}

// Two packets are decoded into one value: the second leaves nothing of the first.
func FuzzHeaders(f *testing.F) {
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var h, fresh bth.Headers
		roundTrip(t, first, &h)
		before := h
		n, ok := roundTrip(t, second, &h)
		if !ok {
			if h != before {
				t.Fatal("changed on error")
			}
			return
		}
		if _, err := fresh.Decode(second[:n]); err != nil || h != fresh {
			t.Fatalf("error %v\nafter another %v\nfresh         %v", err, h, fresh)
		}
		if n != h.Len() || h.Present != h.Opcode.Headers() {
			t.Fatalf("took %d octets, Len %d, Present %v", n, h.Len(), h.Present)
		}
		_ = h.Validate()
	})
}

func FuzzExtendedHeaders(f *testing.F) {
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		tt := extended[int(kind)%len(extended)]
		h := &one{bit: tt.bit}
		roundTrip(t, b, h)
	})
}

// Any values of the fields are encoded and decoded to the same values, or rejected as
// out of range.
func FuzzHeaderAppend(f *testing.F) {
	f.Fuzz(func(t *testing.T, opcode uint8, s, m bool, pad, tver uint8, pkey uint16,
		fecn, becn bool, resv6 uint8, destQP uint32, a bool, resv7 uint8, psn uint32) {
		want := bth.Header{bth.Opcode(opcode), s, m, pad, tver, pkey, fecn, becn, resv6, destQP, a, resv7, psn}
		fits := pad < 4 && tver < 16 && resv6 < 64 && destQP < 1<<24 && resv7 < 128 && psn < 1<<24
		b, err := want.AppendBinary(nil)
		if !fits {
			if !errors.Is(err, wireerr.Range) || b != nil {
				t.Fatalf("%v: %x, error %v", want, b, err)
			}
			return
		}
		var got bth.Header
		if _, decodeErr := got.Decode(b); err != nil || decodeErr != nil || got != want {
			t.Fatalf("errors %v, %v\n got %v\nwant %v", err, decodeErr, got, want)
		}
	})
}
