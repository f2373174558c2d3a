package rocev2

import (
	"slices"
	"testing"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

func TestSplit(t *testing.T) {
	ethernet := "020000000002 020000000001 "
	four := "4500001c 00004000 40fd0000 0a000101 0a000401 0102030405060708"
	six := "60000000 00083b40 20010db8000100000000000000000001 20010db8000200000000000000000002 0102030405060708"
	for _, c := range []struct {
		name, link, ip, behind string
		o                      DecodeOptions
	}{
		{"Ethernet, padded", ethernet + "0800", four, "00000000", DecodeOptions{}},
		{"two tags", ethernet + "88a80009 81000007 86dd", six, "", DecodeOptions{}},
		{"raw IPv4", "", four, "ff", DecodeOptions{Link: LinkIP}},
		{"a header alone", "", "45000014 00004000 403b0000 0a000101 0a000401", "ff", DecodeOptions{Link: LinkIP}},
		{"raw IPv6", "", six, "", DecodeOptions{Link: LinkIP}},
		{"Linux cooked", "0000 0001 0006 020000000001 0000 86dd", six, "", DecodeOptions{Link: LinkSLL}},
		{"loopback", "02000000", four, "", DecodeOptions{Link: LinkNull}},
		{"cut", ethernet + "86dd", six[:90], "", DecodeOptions{Cut: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantLink, wantIP := wiretest.Hex(t, c.link), wiretest.Hex(t, c.ip)
			b := slices.Concat(wantLink, wantIP, wiretest.Hex(t, c.behind))
			link, ip, err := Split(b, c.o)
			require.NoError(t, err)
			require.Equal(t, wantLink, link)
			require.Equal(t, wantIP, ip)
			wiretest.NoAllocs(t, "Split", func() { _, _, _ = Split(b, c.o) })
			if !c.o.Cut {
				wiretest.Prefixes(t, b[:len(wantLink)+len(wantIP)], func(b []byte) error {
					if len(b) == 0 && c.o.Link == LinkIP {
						return wireerr.Truncated // no version, so neither header is cut
					}
					_, _, err := Split(b, c.o)
					return err
				})
			}
		})
	}
	for _, c := range []struct{ name, octets string }{
		{"ARP", ethernet + "0806 0001"},
		{"another version", ethernet + "0800 60000000"},
		{"Total Length below 20", ethernet + "0800 45000013 00004000 40fd0000 0a000101 0a000401"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := Split(wiretest.Hex(t, c.octets), DecodeOptions{})
			require.Error(t, err)
		})
	}
	_, _, err := Split(nil, DecodeOptions{Link: LinkIP})
	require.Error(t, err)
}
