package inspect

import (
	"bytes"
	"fmt"
	"io"
)

// columns formats lines with columns as wide as the widest cell so far, up to maxWidth. Append text to line, then call
// endCell or endWord.
type columns struct {
	line  []byte
	width [maxColumns]int
	next  int // column
	start int // offset in line of the text that is being appended
}

const (
	maxColumns = 8
	maxWidth   = 90
)

const spaces = "                                                                                            "

func (c *columns) begin() { c.line, c.next, c.start = c.line[:0], 0, 0 }

// endCell ends a column.
func (c *columns) endCell() {
	width := &c.width[c.next]
	c.next++
	n := len(c.line) - c.start
	*width = min(max(*width, n), maxWidth)
	c.line = append(c.line, spaces[:max(*width-n, 0)+2]...)
	c.start = len(c.line)
}

// endWord ends a text after the columns.
func (c *columns) endWord() {
	c.line = append(c.line, "  "...)
	c.start = len(c.line)
}

// cell prints a column of text.
func (c *columns) cell(text string) {
	c.line = append(c.line, text...)
	c.endCell()
}

// word prints a formatted text after the columns.
func (c *columns) word(format string, args ...any) {
	c.line = fmt.Appendf(c.line, format, args...)
	c.endWord()
}

// text prints a text after the columns.
func (c *columns) text(text string) {
	c.line = append(c.line, text...)
	c.endWord()
}

// end writes the line without trailing spaces.
func (c *columns) end(w io.Writer) error {
	c.line = append(bytes.TrimRight(c.line, " "), '\n')
	_, err := w.Write(c.line)
	return err
}
