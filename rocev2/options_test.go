package rocev2

import (
	"slices"
	"testing"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/stretchr/testify/require"
)

// Options headers of 32 and 8 octets, without their first octet, the type of the next header.
const (
	oneNode   = ` 03 0100 3116 0000 007b1001c0000000 a5a5a5a5 3d0000d4 01910192 01020000`
	traceData = `0000 007b1001c0000000 a5a5a5a5 3d0000d4 01910192`
	edge      = ` 00 1104 0003 0001`
	noIOAM    = ` 00 9e04 0000 0001`
	halfTrace = ` 00 3104 0000 007b`
	oneOctet  = ` 00 3101 00 010100`
	overrun   = ` 00 3105 0000 0001`
	typeAlone = ` 00 0103 000000 31`
)

// withHeaders puts extension headers between IPv6 and UDP.
func withHeaders(t *testing.T, first uint8, headers string) []byte {
	return wrap(first, slices.Concat(wiretest.Hex(t, headers), wiretest.Hex(t, send6)[54:]))
}

func TestIOAM(t *testing.T) {
	for _, c := range []struct {
		name    string
		first   uint8
		headers string
		want    []IOAMOption
		data    []string // Data of each wanted option
		errs    []error
		all     error // result of OptionsError
	}{
		{"a trace", 0, `11` + oneNode, []IOAMOption{{Header: 0, Type: 0x31}}, []string{traceData}, []error{nil}, nil},
		{"in both headers", 0, `3c` + oneNode + `11` + edge,
			[]IOAMOption{{Header: 0, Type: 0x31}, {Header: 60, Type: 0x11, Option: ioam.Option{Type: 3}}},
			[]string{traceData, `00030001`}, []error{nil, nil}, nil},
		{"another option", 60, `11` + noIOAM, nil, nil, nil, nil},
		{"a Routing header", 43, `11` + overrun, nil, nil, nil, nil},
		{"1 octet of data", 0, `11` + oneOctet, []IOAMOption{{Type: 0x31}}, []string{`00`}, []error{wireerr.Truncated},
			nil},
		{"one that overruns", 60, `11` + overrun, []IOAMOption{{Header: 60, Type: 0x31}}, []string{`00000001`},
			[]error{ipv6opt.ErrOverrun}, ipv6opt.ErrOverrun},
		{"one without a length", 0, `11` + typeAlone, []IOAMOption{{Type: 0x31}}, []string{``},
			[]error{ipv6opt.ErrOverrun}, ipv6opt.ErrOverrun},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := withHeaders(t, c.first, c.headers)
			o := DecodeOptions{Link: LinkIP}
			var d Datagram
			require.NoError(t, d.DecodeIP(b))
			for _, seq := range []func(func(IOAMOption, error) bool){IOAMOptions(b, o), d.IOAM()} {
				i := 0
				for got, err := range seq {
					require.ErrorIs(t, err, c.errs[i])
					want, data := c.want[i], wiretest.Hex(t, c.data[i])
					require.Equal(t, data, append([]byte{}, got.Data...))
					require.Equal(t, want.Header, got.Header)
					require.Equal(t, want.Type, got.Type)
					if err == nil {
						want.Option.Data = data[2:]
					}
					require.Equal(t, want.Option, got.Option)
					i++
				}
				require.Len(t, c.want, i)
				i = 0
				for range seq {
					i++
					break // the loop may end at any time
				}
				require.Equal(t, min(1, len(c.want)), i)
			}
			require.ErrorIs(t, OptionsError(b, o), c.all)
		})
	}
}

// Trace returns the first valid trace in the Hop-by-Hop header.
func TestTrace(t *testing.T) {
	for _, c := range []struct {
		name    string
		first   uint8
		headers string
		err     error
	}{
		{"a trace", 0, `11` + oneNode, nil},
		{"after a broken one", 0, `00` + halfTrace + `11` + oneNode, nil},
		{"a broken one", 0, `11` + halfTrace, wireerr.Truncated},
		{"two broken ones: the first", 0, `00` + oneOctet + `11` + overrun, wireerr.Truncated},
		{"two broken ones: the first again", 0, `00` + overrun + `11` + oneOctet, ipv6opt.ErrOverrun},
		{"in Destination Options", 60, `11` + oneNode, errNoTrace},
		{"edge-to-edge", 0, `11` + edge, errNoTrace},
		{"another option", 0, `11` + noIOAM, errNoTrace},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Datagram
			require.NoError(t, d.DecodeIP(withHeaders(t, c.first, c.headers)))
			trace, err := d.Trace()
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.err == nil, err == nil)
			want := ioam.Trace{}
			if err == nil {
				data := wiretest.Hex(t, traceData)[10:]
				want = ioam.Trace{Namespace: 123, RemainingLen: 1, Type: 0xC00000, Data: data}
			}
			require.Equal(t, want, trace)
			wiretest.NoAllocs(t, c.name, func() { _, _ = d.Trace() })
		})
	}
}
