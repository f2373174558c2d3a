package flows

import (
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// fitColumns returns the indices of the columns that fit a width beside names of at least this length, in their
// order. The rows have the headings first. Columns are left out in this order: those without any number, the last one
// first, then those named in least, the first one first.
func fitColumns(rows [][]cell, widths []int, width, name int, least []string) []int {
	kept := make([]int, len(widths))
	free := width - name
	for i, n := range widths {
		kept[i] = i
		free -= n + 1
	}
	drop := func(i int) {
		at := slices.Index(kept, i)
		kept = slices.Delete(kept, at, at+1)
		free += widths[i] + 1
	}
	for i := len(widths) - 1; i >= 0 && free < 0; i-- {
		if slices.Contains(least, rows[0][i].Text) && isEmptyColumn(rows[1:], i) {
			drop(i)
		}
	}
	for _, heading := range least {
		i := slices.IndexFunc(rows[0], func(c cell) bool { return c.Text == heading })
		if free < 0 && i >= 0 && slices.Contains(kept, i) {
			drop(i)
		}
	}
	return kept
}

// isEmptyColumn reports whether no row has a number other than 0 in a column.
func isEmptyColumn(rows [][]cell, i int) bool {
	return !slices.ContainsFunc(rows, func(row []cell) bool {
		text := row[i].inTerminal()
		return text != none && text != "0"
	})
}

// formatPairIn returns the addresses of a flow in at most width columns: the first parts of each address are left out
// if both do not fit.
func formatPairIn(src, dst netip.Addr, width int) string {
	const arrow = " > "
	text := src.String() + arrow + dst.String()
	if len(text) <= width {
		return text
	}
	each := (width - len(arrow)) / 2
	return shortenAddress(src, each) + arrow + shortenAddress(dst, each)
}

// shortenAddress returns the last parts of an address that fit a width, after an ellipsis, at least one.
func shortenAddress(a netip.Addr, width int) string {
	const ellipsis = "…"
	text := a.String()
	if len(text) <= width {
		return text
	}
	rest := text
	for {
		i := strings.IndexAny(rest[1:], ".:")
		if i < 0 {
			return ellipsis + rest
		}
		if rest = rest[1+i:]; utf8.RuneCountInString(rest)+1 <= width {
			return ellipsis + rest
		}
	}
}

// wrap breaks a line between words into lines of a width. All except the first are indented.
func (l topLine) wrap(width int) (lines []topLine) {
	const indent = "  "
	var line, word topLine
	used, length := 0, 0 // columns of line and of word
	add := func() {
		text := ""
		if n := len(word); n > 0 {
			text = word[n-1].Text
		}
		visible := length - (len(text) - len(strings.TrimRight(text, " ")))
		if used+visible > width && len(line) > 0 {
			last := &line[len(line)-1]
			last.Text = strings.TrimRight(last.Text, " ")
			lines = append(lines, line)
			line, used = topLine{{Text: indent}}, len(indent)
		}
		for _, c := range word {
			if n := len(line); n > 0 && line[n-1].colour == c.colour {
				line[n-1].Text += c.Text
			} else {
				line = append(line, c)
			}
		}
		used += length
		word, length = nil, 0
	}
	for _, c := range l {
		for text := range strings.SplitAfterSeq(c.Text, " ") {
			word = append(word, cell{Text: text, colour: c.colour})
			length += utf8.RuneCountInString(text)
			if strings.HasSuffix(text, " ") {
				add()
			}
		}
	}
	add()
	return append(lines, line)
}
