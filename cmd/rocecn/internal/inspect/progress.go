package inspect

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress shows on a terminal how far a long file is read. Its zero value
// shows nothing.
type progress struct {
	terminal io.Writer
	name     string
	size     int64 // of the file, 0 when not known
	read     int64
	packets  int
	last     time.Time // when the line was written, at first when the file was opened
	shown    bool
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

const progressPause = 500 * time.Millisecond

// packet counts one more packet.
func (p *progress) packet() {
	p.packets++
	if p.terminal == nil || p.packets%1024 != 0 || time.Since(p.last) < progressPause {
		return
	}
	p.last = time.Now()
	p.shown = true
	fmt.Fprintf(p.terminal, "\r%s: %d packets, %d MiB", p.name, p.packets, p.read>>20)
	if p.size > 0 {
		fmt.Fprintf(p.terminal, ", %d %%", min(100*p.read/p.size, 100))
	}
	fmt.Fprint(p.terminal, "\x1b[K")
}

// clear takes the line away again.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.terminal, "\r\x1b[K")
		p.shown = false
	}
}
