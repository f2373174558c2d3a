package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// With this in its environment the test program is the tool. Where its value is
// ready, it closes file 3 as soon as it catches signals.
const isTool = "ROCECN_TEST_IS_TOOL"

func TestMain(m *testing.M) {
	if how := os.Getenv(isTool); how != "" {
		ctx := interruptContext()
		if how == "ready" {
			os.NewFile(3, "ready").Close()
		}
		os.Exit(runCommand(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// A process is the tool as a process of its own, ended after a while if it
// hangs.
type process struct {
	*exec.Cmd
	messages bytes.Buffer
}

func tool(t *testing.T, args ...string) *process {
	t.Helper()
	self := wiretest.Must(os.Executable())(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	p := &process{Cmd: exec.CommandContext(ctx, self, args...)}
	p.Env = append(os.Environ(), isTool+"=ready", "GORACE=atexit_sleep_ms=0") // the race detector waits otherwise
	p.Stderr = &p.messages
	return p
}

// start starts the tool and waits until it catches signals.
func (p *process) start(t *testing.T) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	p.ExtraFiles = []*os.File{w}
	require.NoError(t, p.Start())
	require.NoError(t, w.Close())
	_, err = r.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	require.NoError(t, r.Close())
}

func octetsOf(t *testing.T, path string) []byte {
	t.Helper()
	return wiretest.Must(os.ReadFile(path))(t)
}

func TestUsage(t *testing.T) {
	run := func(args ...string) (stdout, stderr string, status int) {
		var out, messages bytes.Buffer
		status = runCommand(t.Context(), args, strings.NewReader(""), &out, &messages)
		return out.String(), messages.String(), status
	}
	for _, args := range [][]string{{"-h"}, {"help"}, {"--help"}} {
		stdout, stderr, status := run(args...)
		require.Zero(t, status)
		require.Empty(t, stderr)
		for _, c := range commands {
			require.Contains(t, stdout, "\n  "+c.name+" ")
			_, stderr, status := run(c.name, "-h")
			require.Zero(t, status, c.name)
			require.Contains(t, stderr, "usage: rocecn "+c.name)
			help, _, status := run("help", c.name)
			require.Zero(t, status, c.name)
			require.Equal(t, stderr, help)
		}
	}
	stdout, _, status := run("completion")
	require.Zero(t, status)
	require.Contains(t, stdout, "complete -o default -W 'inspect ")
	bash, _, _ := run("completion", "bash")
	require.Equal(t, stdout, bash)
	for _, args := range [][]string{{"zsh"}, {"fish"}, {"bash", "zsh"}} {
		stdout, message, status := run(append([]string{"completion"}, args...)...)
		require.Equal(t, 2, status)
		require.Empty(t, stdout)
		require.Contains(t, message, "for bash only")
	}
	for _, name := range []string{"version", "-version", "--version"} {
		stdout, _, status = run(name)
		require.Zero(t, status)
		require.Regexp(t, `^rocecn [v(]\S+, .*go1\.`, stdout)
	}
	stdout, stderr, status := run()
	require.Equal(t, 2, status)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "usage: rocecn FILE")
	_, stderr, status = run("inspekt")
	require.Equal(t, 2, status)
	require.Equal(t, "rocecn: inspekt is neither a command nor a file; rocecn -h lists the commands\n", stderr)
	_, stderr, status = run("missing.pcap")
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "rocecn inspect: missing.pcap: no such file or directory\n")
}

// A command prints its output, or its exit status reports the failure.
func TestNotPrinted(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"help", "run"}, {"version"}, {"completion"}} {
		for _, c := range []struct {
			failure error
			want    int
		}{{syscall.ENOSPC, 1}, {syscall.EPIPE, 0}} {
			t.Run(fmt.Sprint(c.failure), func(t *testing.T) {
				r, w := io.Pipe()
				r.CloseWithError(c.failure)
				var stderr bytes.Buffer
				require.Equal(t, c.want, runCommand(t.Context(), args, nil, w, &stderr), args)
				printed := strings.Contains(stderr.String(), "rocecn "+args[0]+": no space left")
				require.Equal(t, c.want == 1, printed, stderr.String())
			})
		}
	}
}

// Arguments that are files, also after flags, are for inspect.
func TestFiles(t *testing.T) {
	file := wiretest.Path(t, "ioam-linux618-hpcc.pcap")
	var want, got bytes.Buffer
	require.Zero(t, runCommand(t.Context(), []string{"inspect", "-json", file}, nil, &want, io.Discard))
	require.Zero(t, runCommand(t.Context(), []string{"-json", file}, nil, &got, io.Discard))
	require.Equal(t, want.String(), got.String())
	got.Reset()
	require.Zero(t, runCommand(t.Context(), []string{file, "-json"}, nil, &got, io.Discard))
	require.Equal(t, want.String(), got.String())
	require.Zero(t, runCommand(t.Context(), []string{file}, nil, &got, io.Discard))
}

// An interrupt, wherever it comes, is the end of the input.
func TestInterrupt(t *testing.T) {
	file := octetsOf(t, wiretest.Path(t, "ioam-linux618-hpcc.pcap")) // 3 packets of one length
	for _, c := range []struct{ octets, packets int }{
		{0, 0},
		{11, 0},
		{24, 0},
		{24 + 7, 0},
		{24 + (len(file)-24)/3, 1},
		{len(file) - 1, 2},
		{len(file), 3},
	} {
		// feed writes to the tool and interrupts it when it has read so many packets.
		feed := func(p *process, hasRead func() bool) string {
			in, err := p.StdinPipe()
			require.NoError(t, err)
			p.start(t)
			_, err = in.Write(file[:c.octets])
			require.NoError(t, err)
			wiretest.Await(t, "output", hasRead)
			require.NoError(t, p.Process.Signal(os.Interrupt))
			p.Process.Signal(os.Interrupt) // as timeout sends it: to the process and to its group
			require.NoError(t, p.Wait(), "%d octets: %s", c.octets, &p.messages)
			return p.messages.String()
		}
		p := tool(t, "inspect", "-")
		printed := filepath.Join(t.TempDir(), "lines")
		f := wiretest.Must(os.Create(printed))(t)
		p.Stdout = f
		messages := feed(p, func() bool { return bytes.Count(octetsOf(t, printed), []byte("\n")) == c.packets })
		require.NoError(t, f.Close())
		require.Contains(t, messages, fmt.Sprintf("%d packet", c.packets))

		out := filepath.Join(t.TempDir(), "out.pcap")
		messages = feed(tool(t, "answer", "-source", "2001:db8:ffff::5", "-", out), func() bool {
			return len(records(out)) == c.packets
		})
		require.Contains(t, messages, fmt.Sprintf("packets: %d read", c.packets))
		var lines bytes.Buffer
		require.Zero(t, runCommand(t.Context(), []string{out}, nil, &lines, io.Discard))
		require.Equal(t, c.packets, strings.Count(lines.String(), "Fast CNP"))
	}
}

// records returns the packets of a capture that is being written.
func records(path string) (all [][]byte) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	in, err := capture.Open(f)
	if err != nil {
		return nil
	}
	for r := new(capture.Record); in.Next(r) == nil; {
		all = append(all, bytes.Clone(r.Data))
	}
	return all
}

func TestInterruptedListen(t *testing.T) {
	p := tool(t, "listen", "-as", "fcn", "127.0.0.1:0")
	out := wiretest.Must(p.StdoutPipe())(t)
	p.start(t)
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.False(t, lines.Scan())
	require.NoError(t, p.Wait())
	require.Empty(t, p.messages.String())
}

// A pipe without a reader ends every command quietly.
func TestClosedPipe(t *testing.T) {
	file := wiretest.Path(t, "rxe-verbs6.pcap")
	for _, args := range [][]string{
		{"inspect", "-json", file, file, file},
		{file},
		{"answer", "-source", "2001:db8:ffff::5", file, "-"},
		{"send", "-fcn", "127.0.0.1:9", "-label", "1"},
		{"listen", "-as", "fcn", "127.0.0.1:0"},
	} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, r.Close())
		p := tool(t, args...)
		p.Stdout = w
		p.start(t)
		require.NoError(t, p.Wait(), "%v: %s", args, &p.messages)
		require.NoError(t, w.Close())
		require.Empty(t, p.messages.String(), args)
	}
}

// A disk that is full is an error of every command.
func TestFull(t *testing.T) {
	full := wiretest.FullDevice(t)
	file := wiretest.Path(t, "ioam-linux618-hpcc.pcap")
	for _, args := range [][]string{
		{file},
		{"answer", "-source", "2001:db8:ffff::5", file, "-"},
		{"send", "-fcn", "127.0.0.1:9", "-label", "1"},
		{"listen", "-as", "fcn", "127.0.0.1:0"},
	} {
		f := wiretest.Must(os.OpenFile(full, os.O_WRONLY, 0))(t)
		var stderr bytes.Buffer
		require.Equal(t, 1, runCommand(t.Context(), args, nil, f, &stderr), args)
		require.Contains(t, stderr.String(), "no space left on device")
		require.NoError(t, f.Close())
	}
}

// named returns the queue pairs that a command prints as senders of the flows of a capture, by "src dst dest_qp": one
// or several for each flow.
func named(t *testing.T, command, path string) map[string]map[float64]bool {
	t.Helper()
	var out, messages bytes.Buffer
	require.Zero(t, runCommand(t.Context(), []string{command, "-json", path}, strings.NewReader(""), &out, &messages),
		messages.String())
	all := map[string]map[float64]bool{}
	for d := json.NewDecoder(&out); d.More(); {
		var line struct {
			Src, Dst  string
			DestQP    float64  `json:"dest_qp"`
			SrcQP     *float64 `json:"src_qp"`
			From      string   `json:"src_qp_from"`
			Transport string
		}
		require.NoError(t, d.Decode(&line))
		if line.SrcQP == nil || line.Transport == "UD" || line.DestQP <= 1 {
			continue // datagrams of several senders are one flow, and several pairs
		}
		k := fmt.Sprint(line.Src, " ", line.Dst, " ", line.DestQP)
		if all[k] == nil {
			all[k] = map[float64]bool{}
		}
		all[k][*line.SrcQP] = true
	}
	return all
}

// pairs and flows agree about every capture in testdata: they name the same queue pair for each flow with a request.
func TestPairsAndFlowsAgree(t *testing.T) {
	wiretest.Alone(t)
	captures := wiretest.Must(filepath.Glob(wiretest.Path(t, "*.pcap")))(t)
	real := wiretest.Must(filepath.Glob(wiretest.Path(t, "real", "*.pcap.gz")))(t)
	require.NotEmpty(t, real)
	var flowsNamed int
	for _, path := range append(captures, real...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			pairs, flows := named(t, "pairs", path), named(t, "flows", path)
			for k, qps := range flows {
				require.Equal(t, qps, pairs[k], k)
				flowsNamed++
			}
			for k, qps := range pairs {
				if flows[k] == nil { // only answers were seen of it
					require.False(t, requested(t, path, k), "%s: %v", k, qps)
				}
			}
		})
	}
	require.Greater(t, flowsNamed, 50)
}

// requested reports whether flows has a line for a request of a flow.
func requested(t *testing.T, path, key string) bool {
	t.Helper()
	var out, messages bytes.Buffer
	require.Zero(t, runCommand(t.Context(), []string{"flows", "-json", path}, strings.NewReader(""), &out, &messages))
	for d := json.NewDecoder(&out); d.More(); {
		var line struct {
			Src, Dst string
			DestQP   float64 `json:"dest_qp"`
			Unpaired bool
			PFC      bool
		}
		require.NoError(t, d.Decode(&line))
		if !line.Unpaired && !line.PFC && fmt.Sprint(line.Src, " ", line.Dst, " ", line.DestQP) == key {
			return true
		}
	}
	return false
}
