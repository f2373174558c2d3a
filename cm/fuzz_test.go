package cm_test

import (
	"bytes"
	"testing"

	"github.com/rocecn/rocecn/cm"
)

// Any octets that decode are encoded to the same octets.
func FuzzMessages(f *testing.F) {
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		m, size := message(&cm.Header{}), cm.HeaderSize
		switch i := int(kind) % (len(messages) + 2); {
		case i < len(messages):
			m, size = like(messages[i].m), cm.MessageSize
		case i == len(messages):
			m, size = &cm.IPData{}, cm.IPDataSize
		}
		rest, err := m.Decode(b)
		if (err == nil) != (len(b) >= size) {
			t.Fatalf("%d octets: %v", len(b), err)
		}
		if err != nil {
			return
		}
		again, err := m.AppendBinary(nil)
		if err != nil || !bytes.Equal(again, b[:size]) || !bytes.Equal(rest, b[size:]) {
			t.Fatalf("%v\nread    %x\nwritten %x, error %v", m, b[:size], again, err)
		}
		_ = m.String()
	})
}
