// Package terminal implements a screen that refreshes, with keyboard input.
package terminal

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A Terminal shows the alternate screen of a terminal until it is closed.
type Terminal struct {
	out *os.File
	in  *os.File // nil if standard input is not a terminal
	was *unix.Termios
}

// Open switches a terminal to its alternate screen, and its input to single keys without echo. It returns nil if
// stdout is not a terminal.
func Open(stdin io.Reader, stdout io.Writer) *Terminal {
	out, ok := stdout.(*os.File)
	if !ok {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	t := &Terminal{out: out}
	if in, ok := stdin.(*os.File); ok {
		if was, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS); err == nil {
			t.in, t.was = in, was
			now := *was
			now.Lflag &^= unix.ICANON | unix.ECHO
			now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
			now.Cc[unix.VSUSP] = 0 // suspending would leave the alternate screen on
			_ = unix.IoctlSetTermios(int(in.Fd()), unix.TCSETS, &now)
		}
	}
	io.WriteString(out, "\x1b[?1049h\x1b[?25l\x1b[2J")
	return t
}

// Keys calls pressed for each key until the input ends.
func (t *Terminal) Keys(pressed func(key byte)) {
	if t.in == nil {
		return
	}
	var b [1]byte
	for {
		if n, err := t.in.Read(b[:]); err != nil || n == 0 {
			return
		}
		pressed(b[0])
	}
}

// Size returns the number of columns and lines.
func (t *Terminal) Size() (width, height int) { return sizeOf(t.out) }

// Width returns the number of columns if stdout is a terminal, or 0.
func Width(stdout io.Writer) int {
	out, ok := stdout.(*os.File)
	if !ok {
		return 0
	}
	if _, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS); err != nil {
		return 0
	}
	width, _ := sizeOf(out)
	return width
}

func sizeOf(out *os.File) (width, height int) {
	s, err := unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ)
	if err != nil || s.Col == 0 || s.Row == 0 {
		return 80, 24
	}
	return int(s.Col), int(s.Row)
}

// Frame replaces the shown lines.
func (t *Terminal) Frame(lines []byte) error {
	b := []byte("\x1b[H")
	for i, c := range lines {
		if c != '\n' {
			b = append(b, c)
			continue
		}
		b = append(b, "\x1b[K"...)
		if i < len(lines)-1 { // the last line may be the last of the terminal
			b = append(b, "\r\n"...)
		}
	}
	_, err := t.out.Write(append(b, "\x1b[J"...))
	return err
}

// Close restores the terminal.
func (t *Terminal) Close() {
	io.WriteString(t.out, "\x1b[?25h\x1b[?1049l")
	if t.was != nil {
		_ = unix.IoctlSetTermios(int(t.in.Fd()), unix.TCSETS, t.was)
	}
}
