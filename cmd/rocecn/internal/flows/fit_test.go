package flows

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// An address is shortened between its parts.
func TestShortenAddress(t *testing.T) {
	for _, row := range []struct {
		address string
		width   int
		want    string
	}{
		{"192.0.2.146", 11, "192.0.2.146"}, {"192.0.2.146", 10, "….0.2.146"}, {"192.0.2.146", 8, "….2.146"},
		{"192.0.2.146", 6, "….146"}, {"192.0.2.146", 1, "….146"}, {"2001:db8:1::1f", 14, "2001:db8:1::1f"},
		{"2001:db8:1::1f", 9, "…:1::1f"}, {"2001:db8:1::1f", 5, "…::1f"}, {"::1", 2, "…:1"},
	} {
		t.Run(row.want, func(t *testing.T) {
			require.Equal(t, row.want, shortenAddress(netip.MustParseAddr(row.address), row.width))
		})
	}
}

// A line is broken between words, also where the colour changes.
func TestWrapLine(t *testing.T) {
	l := topLine{{Text: "flows 12, "}, {Text: "36.7M bit", colour: red}, {Text: ", "}, {Text: "3 lost", colour: red}}
	for _, row := range []struct {
		name  string
		width int
		want  []topLine
	}{
		{"one line", 27, []topLine{l}},
		{"two lines", 20, []topLine{{l[0], l[1], {Text: ","}}, {{Text: "  "}, l[3]}}},
		{"the comma stays at its word", 19, []topLine{{l[0], {Text: "36.7M", colour: red}},
			{{Text: "  "}, {Text: "bit", colour: red}, {Text: ", "}, l[3]}}},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.want, l.wrap(row.width)) })
	}
}
