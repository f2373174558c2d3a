package flows

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/terminal"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// openPair opens the two ends of a terminal: that of the terminal emulator, and that of the program.
func openPair(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master = wiretest.Must(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	t.Cleanup(func() { master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n := wiretest.Must(unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN))(t)
	slave = wiretest.Must(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	t.Cleanup(func() { slave.Close() })
	setSize(t, slave, 200, 24)
	return master, slave
}

// setSize sets the size of a terminal.
func setSize(t *testing.T, slave *os.File, width, height uint16) {
	t.Helper()
	size := &unix.Winsize{Col: width, Row: height}
	require.NoError(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, size))
}

// runAt runs a command on a terminal of this width and 24 lines, and returns the lines that it leaves there, without
// colours.
func runAt(t *testing.T, width uint16, run func(ctx context.Context, args []string, stdin io.Reader, stdout,
	stderr io.Writer) int, args ...string) []string {
	t.Helper()
	master, slave := openPair(t)
	setSize(t, slave, width, 24)
	var stderr bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- run(t.Context(), args, slave, slave, &stderr)
		slave.WriteString("the end")
	}()
	text := readUntil(t, master, "the end")
	require.Zero(t, <-done, stderr.String())
	if _, after, ok := strings.Cut(text, "\x1b[?1049l"); ok {
		text = after
	}
	text = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]").ReplaceAllString(strings.TrimSuffix(text, "the end"), "")
	return strings.Split(strings.TrimSpace(text), "\r\n")
}

// On 80 columns and 24 lines, top shows each flow in one line with whole numbers, the sum of each receiver, and the
// verdicts.
func TestTopIn80Columns(t *testing.T) {
	path, _ := made(t, 21, traffic.Options{Connections: 30})
	lines := runAt(t, 80, Top, "-once", "-interval", "1h", path)
	require.LessOrEqual(t, len(lines), 24)
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "FLOW ") })
	require.Positive(t, at, lines)
	last := len(lines) - 1
	require.Regexp(t, `^and \d+ more flows$`, lines[last])
	require.Greater(t, last-at, 4, "flows")
	for i, l := range lines {
		require.LessOrEqual(t, utf8.RuneCountInString(l), 80, l)
		if i > at && i < last {
			require.Regexp(t, flowLineOfTop, l)
		}
	}
	head := strings.Join(lines[:at], " ")
	require.Contains(t, head, "verdict: ")
	require.Contains(t, head, " bit/s, CE ")
	require.Contains(t, head, "more receiver")
}

// On 80 columns, the lines of flows have at most 80 columns, and no number is cut.
func TestFlowsIn80Columns(t *testing.T) {
	path, _ := made(t, 21, traffic.Options{Connections: 30})
	for _, args := range [][]string{{"-interval", "1ms"}, {}, {"-explain"}} {
		lines := runAt(t, 80, Run, append(args, path)...)
		require.Greater(t, len(lines), 10)
		for _, l := range lines {
			if !strings.HasPrefix(strings.TrimLeft(l, " ("), "ip") { // a filter of Wireshark, to be copied in one piece
				require.LessOrEqual(t, utf8.RuneCountInString(l), 80, l)
			}
		}
	}
}

// readUntil reads the screen until it contains a text.
func readUntil(t *testing.T, master io.Reader, text string) (all string) {
	t.Helper()
	b := make([]byte, 4096)
	for !strings.Contains(all, text) {
		n, err := master.Read(b)
		require.NoError(t, err, all)
		all += string(b[:n])
	}
	return all
}

// On a terminal, the screen obeys keys and is restored at the end, for any reason of the end.
func TestTopTerminal(t *testing.T) {
	const on, off = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
	b := wiretest.Must(os.ReadFile(wiretest.Path(t, "tour.pcap")))(t)
	for _, end := range []string{"key", "interrupt", "end of the input", "screens"} {
		t.Run(end, func(t *testing.T) {
			master, slave := openPair(t)
			was := wiretest.Must(unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS))(t)
			ctx, interrupt := context.WithCancel(t.Context())
			fifo := t.TempDir() + "/fifo"
			require.NoError(t, unix.Mkfifo(fifo, 0o600))
			status := make(chan int, 1)
			args := []string{"-interval", "1ns", fifo}
			if end == "screens" {
				args = append(args, "-n", "3")
			}
			var stderr bytes.Buffer
			go func() {
				status <- Top(ctx, args, slave, slave, &stderr)
				slave.WriteString("the end")
			}()
			feed := wiretest.Must(os.OpenFile(fifo, os.O_WRONLY, 0))(t)
			defer feed.Close()
			shown := readUntil(t, master, ", no packet yet")
			require.True(t, strings.HasPrefix(shown, on), "%q", shown)
			now, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
			require.NoError(t, err)
			require.Zero(t, now.Lflag&(unix.ICANON|unix.ECHO))
			_, err = feed.Write(b)
			require.NoError(t, err)
			if end != "screens" {
				readUntil(t, master, " from 2026-")
				master.WriteString("s")
				readUntil(t, master, "the worst")
			}
			switch end {
			case "key":
				master.WriteString("q")
			case "interrupt":
				interrupt()
			case "end of the input":
				feed.Close()
			}
			// The terminal's buffer is small: without a reader, the program could not write its last screens.
			rest := readUntil(t, master, "the end")
			require.Zero(t, <-status, stderr.String())
			require.Contains(t, rest, off)
			_, behind, _ := strings.Cut(rest, off)
			require.NotContains(t, behind, "\x1b[?")
			require.Contains(t, behind, "rocecn top ", "the last view stays")
			now = wiretest.Must(unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS))(t)
			require.Equal(t, was, now)
			interrupt()
		})
	}
}

func TestNoTerminalForTop(t *testing.T) {
	null := wiretest.Must(os.OpenFile(os.DevNull, os.O_RDWR, 0))(t)
	defer null.Close()
	require.Nil(t, terminal.Open(null, null))
	require.Nil(t, terminal.Open(null, &bytes.Buffer{}))
}
