package flows

import (
	"fmt"
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

// Columns are left out in their order until the others fit: each of them frees its width and the space before it.
func TestFitColumns(t *testing.T) {
	row := func(texts ...string) (cells []cell) {
		for _, text := range texts {
			cells = append(cells, cell{Text: text})
		}
		return cells
	}
	rows := [][]cell{row("A", "B", "C", "D"), row("1", "2", "0", "4"), row("5", "6", "–", "8")}
	widths := []int{3, 5, 2, 4} // 18 with a space before each, 28 with the name
	for _, c := range []struct {
		width int
		kept  []int
	}{
		{28, []int{0, 1, 2, 3}},
		{27, []int{0, 1, 3}}, {25, []int{0, 1, 3}}, // without a number
		{24, []int{0, 1}}, {20, []int{0, 1}},
		{19, []int{1}}, {16, []int{1}}, {15, []int{1}}, // B may not be left out
	} {
		t.Run(fmt.Sprint(c.width), func(t *testing.T) {
			require.Equal(t, c.kept, fitColumns(rows, widths, c.width, 10, []string{"D", "A", "C"}))
		})
	}
}
