package vectortest

import (
	"encoding/hex"
	"testing"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/internal/wireerr"
)

func TestCNP(t *testing.T) {
	run(t, "cnp", func(b []byte) (o outcome) {
		var c cnp.CNP
		rest, err := c.Decode(b)
		if err == nil && len(rest) > 0 {
			err = wireerr.CNPLength // the error of FromPacket
		}
		if err != nil {
			return outcome{err: err}
		}
		o.decoded = with(base(&c.Header), fields{"reserved": hex.EncodeToString(c.Reserved[:])})
		o.deviates = c.Validate()
		o.encoded, o.err = c.AppendBinary(nil)
		return o
	})
}
