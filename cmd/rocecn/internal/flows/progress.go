package flows

import (
	"fmt"
	"io"
	"os"
	"time"
)

// A progressLine shows on a terminal how far a long file is read. Its zero value
// shows nothing.
type progressLine struct {
	terminal io.Writer
	name     string // of the file
	last     time.Time
	shown    bool
}

const progressPause = 500 * time.Millisecond

// newProgressLine shows something if people look at stderr, and it does not stand in
// the middle of the output.
func newProgressLine(stdout, stderr io.Writer) progressLine {
	p := progressLine{last: time.Now()}
	if isTerminal(stderr) && !isTerminal(stdout) {
		p.terminal = stderr
	}
	return p
}

// show says how many octets of the file are read.
func (p *progressLine) show(octets, size int64) {
	if p.terminal == nil || time.Since(p.last) < progressPause {
		return
	}
	p.last, p.shown = time.Now(), true
	fmt.Fprintf(p.terminal, "\r%s: %d MiB", p.name, octets>>20)
	if size > 0 {
		fmt.Fprintf(p.terminal, ", %d %%", min(100*octets/size, 100))
	}
	fmt.Fprint(p.terminal, "\x1b[K")
}

// clear takes the line away again.
func (p *progressLine) clear() {
	if p.shown {
		fmt.Fprint(p.terminal, "\r\x1b[K")
		p.shown = false
	}
}

// isTerminal says that w is a character device other than the null device.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
