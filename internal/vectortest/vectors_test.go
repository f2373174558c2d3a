// Package vectortest runs the library's decoders and encoders on the test vectors
// in testdata/vectors, format by format.
package vectortest

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// A vector is one test of a file; testdata/vectors/README.md explains it.
type vector struct {
	ID      int
	Comment string
	Octets  string
	Result  string
	Error   string
	Decoded json.RawMessage
}

// fields are the decoded fields of a message, under the names of the vectors.
type fields = map[string]any

// An outcome is the result of decoding octets with the library.
type outcome struct {
	decoded  fields
	deviates error  // error of Validate; nil for formats without it
	encoded  []byte // octets of the encoder for the decoded message; nil for formats without it
	err      error
}

// The roots of the errors, by their names in the vectors.
var roots = map[string]error{
	"truncated": wireerr.Truncated, "malformed": wireerr.Malformed, "other": wireerr.Other, "icrc": wireerr.ICRC,
}

// run runs all tests of a file.
func run(t *testing.T, format string, decode func(b []byte) outcome) {
	t.Helper()
	content := wiretest.Must(os.ReadFile(wiretest.Path(t, "vectors", format+".json")))(t)
	var file struct{ Tests []vector }
	require.NoError(t, json.Unmarshal(content, &file))
	require.NotEmpty(t, file.Tests)
	for _, v := range file.Tests {
		t.Run(fmt.Sprint(v.ID), func(t *testing.T) {
			t.Log(v.Comment)
			b := wiretest.Must(hex.DecodeString(v.Octets))(t)
			got := decode(b)
			if v.Result == "invalid" {
				require.Contains(t, roots, v.Error)
				require.ErrorIs(t, got.err, roots[v.Error])
				return
			}
			require.NoError(t, got.err)
			decoded := wiretest.Must(json.Marshal(got.decoded))(t)
			require.JSONEq(t, string(v.Decoded), string(decoded))
			require.Equal(t, v.Result == "acceptable", got.deviates != nil, "%v", got.deviates)
			if got.encoded != nil {
				require.Equal(t, v.Octets, hex.EncodeToString(got.encoded))
			}
		})
	}
}

func hexadecimal[T ~uint8 | ~uint16 | ~uint32 | ~uint64](v T, digits int) string {
	return fmt.Sprintf("0x%0*x", digits, uint64(v))
}
