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

func (c *columns) beginLine() { c.line, c.next, c.start = c.line[:0], 0, 0 }

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

// addCell prints a column of text.
func (c *columns) addCell(text string) {
	c.line = append(c.line, text...)
	c.endCell()
}

// addFormatted prints a formatted text after the columns.
func (c *columns) addFormatted(format string, args ...any) {
	c.line = fmt.Appendf(c.line, format, args...)
	c.endWord()
}

// addText prints a text after the columns.
func (c *columns) addText(text string) {
	c.line = append(c.line, text...)
	c.endWord()
}

// writeLine writes the line without trailing spaces.
func (c *columns) writeLine(w io.Writer) error {
	c.line = append(bytes.TrimRight(c.line, " "), '\n')
	_, err := w.Write(c.line)
	return err
}
