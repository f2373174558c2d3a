package cli

import (
	"fmt"
	"io"
	"os"
	"time"
)

// A Progress shows the progress of reading a long file on a terminal. Its zero value
// shows nothing.
type Progress struct {
	Name string // of the file

	terminal io.Writer
	last     time.Time // when the line was written, at first that of NewProgress
	shown    bool
}

// NewLiveProgress returns a Progress for a live capture that prints nothing else until its end.
func NewLiveProgress(stderr io.Writer) Progress {
	p := Progress{last: time.Now()}
	if IsTerminal(stderr) {
		p.terminal = stderr
	}
	return p
}

const progressPause = 500 * time.Millisecond

// NewProgress returns a Progress that is shown only if stderr is a terminal and the progress does not mix with the
// output.
func NewProgress(stdout, stderr io.Writer) Progress {
	p := Progress{last: time.Now()}
	if IsTerminal(stderr) && !IsTerminal(stdout) {
		p.terminal = stderr
	}
	return p
}

// Update shows the number of packets and octets read. A number that is 0 is not
// known: it does not speak of packets then, nor of the part of the size.
func (p *Progress) Update(packets int, octets, size int64) {
	if p.terminal == nil || time.Since(p.last) < progressPause {
		return
	}
	p.last, p.shown = time.Now(), true
	fmt.Fprintf(p.terminal, "\r%s: ", Printable(p.Name))
	if packets > 0 {
		fmt.Fprintf(p.terminal, "%d packets, ", packets)
	}
	fmt.Fprintf(p.terminal, "%d MiB", octets>>20)
	if size > 0 {
		fmt.Fprintf(p.terminal, ", %d %%", min(100*octets/size, 100))
	}
	fmt.Fprint(p.terminal, "\x1b[K")
}

// Clear takes the line away again.
func (p *Progress) Clear() {
	if p.shown {
		fmt.Fprint(p.terminal, "\r\x1b[K")
		p.shown = false
	}
}

// IsTerminal reports whether w is a character device other than the null device.
func IsTerminal(w io.Writer) bool {
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
