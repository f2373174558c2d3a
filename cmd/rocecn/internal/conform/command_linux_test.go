package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// The command of the profile congests the device while a case needs it, and the other one ends that. Both run without a
// shell.
func TestCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "congest")
	script := fmt.Sprintf("#!/bin/sh\necho \"$1\" >>%s/log\n[ \"$1\" = 'on; $HOME' ] && exec sleep 100\nexit 0\n", dir)
	require.NoError(t, os.WriteFile(program, []byte(script), 0o700))
	profile := congestedBy(fmt.Sprintf("for = \"1s\"\nstart = [%q, \"on; $HOME\"]\nstop = [%q, \"off\"]\n",
		program, program))
	results, status := b.conformRepeated(t, profile, "F01.1")
	require.Equal(t, 3, status) // the device has no agent
	require.Equal(t, fail, results["F01.1"].Verdict)
	log := wiretest.Must(os.ReadFile(filepath.Join(dir, "log")))(t)
	require.Regexp(t, `^(on; \$HOME\noff\n)+$`, string(log))

	missing := strings.ReplaceAll(profile, program, program+"x")
	results, status = b.conform(t, missing, "-case", "F01.1,F03.1") // F03.1 needs no congestion
	require.Equal(t, 1, status)
	require.Equal(t, inconclusive, results["F01.1"].Verdict)
	require.Contains(t, results["F01.1"].Seen, "congestion.start: ")
}

// congestedBy returns the profile of a switch that commands congest, with the keys of its table congestion.
func congestedBy(keys string) (profile string) {
	i, j := strings.Index(switchProfile, "by = "), strings.Index(switchProfile, "[time]")
	return switchProfile[:i] + "by = \"command\"\n" + keys + switchProfile[j:]
}

// The command that ends the congestion runs to its end, also after the time of a case and after an interrupt.
func TestStopCommand(t *testing.T) {
	for _, c := range []struct {
		name        string
		interrupted bool
	}{{"after the time of the case", false}, {"after an interrupt", true}} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.interrupted {
				cancel()
			}
			file := filepath.Join(t.TempDir(), "ended")
			p := &profile{}
			p.Congestion.Stop = []string{"sh", "-c", "sleep 0.1; echo >" + file}
			x := (&suite{ctx: ctx, profile: p, rig: idleRig{&networkRig{ctx: ctx}}}).newTrial(&testCase{}, 0)
			x.deadline = time.Now()
			x.runStop()
			require.NoError(t, x.err)
			require.FileExists(t, file)
		})
	}
}

func noReceive() bool { return false }

// idleRig is a network rig without frames.
type idleRig struct{ *networkRig }

func (idleRig) receive(until time.Time) ([]arrival, error) {
	time.Sleep(time.Until(until))
	return nil, nil
}

// A command that fails makes the case inconclusive, with the status and the first message. One that ends well or that
// the tester ends does not.
func TestCommandStatus(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"fails", "echo no such port >&2; echo more >&2; exit 3", "exit status 3: no such port"},
		{"fails without a message", "exit 3", "exit status 3"},
		{"ends well", "echo done >&2", ""},
		{"leaves a program in the background", "sleep 5 & exit 0", ""},
		{"fails and leaves a program in the background", "sleep 5 & echo busy >&2; exit 3", "exit status 3: busy"},
		{"still runs", "exec sleep 100", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &networkRig{ctx: t.Context()}
			message := func(err error) string {
				if err == nil {
					return ""
				}
				return err.Error()
			}
			command := []string{"sh", "-c", c.script}
			if c.name == "still runs" {
				require.Equal(t, "it still ran after 10ms", message(r.finish(command, 10*time.Millisecond, noReceive)))
				stop, err := r.start(command)
				require.NoError(t, err)
				require.NoError(t, stop())
				return
			}
			require.Equal(t, c.want, message(r.finish(command, time.Minute, noReceive)))
			ended := filepath.Join(t.TempDir(), "ended")
			command[2] = "trap 'echo >" + ended + "' EXIT\n" + c.script
			run := func() string {
				stop, err := r.start(command)
				require.NoError(t, err)
				require.Eventually(t, func() bool { return os.Remove(ended) == nil }, time.Minute, time.Millisecond)
				time.Sleep(50 * time.Millisecond) // for the end of the shell
				return message(stop())
			}
			if c.want == "" {
				require.Empty(t, run())
			} else {
				require.Eventually(t, func() bool { return run() == c.want }, time.Minute, time.Millisecond)
			}
		})
	}
}

// A command that still runs is killed with the programs that it has started, by the end of the case and by an
// interrupt.
func TestCommandGroup(t *testing.T) {
	for _, c := range []struct {
		name        string
		interrupted bool
	}{{"end of the case", false}, {"interrupt", true}} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			r := &networkRig{ctx: ctx}
			stop, err := r.start([]string{"sh", "-c", "sleep 100 & echo $! >" + file + "; wait"})
			require.NoError(t, err)
			var pid int
			require.Eventually(t, func() bool {
				text, _ := os.ReadFile(file)
				_, err := fmt.Sscan(string(text), &pid)
				return err == nil
			}, time.Minute, time.Millisecond)
			if c.interrupted {
				interrupt()
				defer stop()
			} else {
				require.NoError(t, stop())
			}
			require.Eventually(t, func() bool { // it may be a zombie until its parent has waited for it
				text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				return err != nil || strings.Contains(string(text), ") Z ")
			}, time.Minute, time.Millisecond)
		})
	}
}

// A congestion command that fails after its start makes the case inconclusive.
func TestFailingStart(t *testing.T) {
	p := &profile{}
	p.Congestion = congestion{By: "command", Start: []string{"false"}, Rate: 1e6, For: 50 * time.Millisecond}
	s := subjectOf("border")
	rig := failingStart{&memoryRig{device: s.model(t, s.config)}}
	x := (&suite{ctx: t.Context(), profile: p, rig: rig}).newTrial(&testCase{}, 0)
	x.deadline = x.rig.now().Add(time.Second)
	x.congest([]*stream{{flow: flow{src: hostOfText("::1"), dst: hostOfText("::2")}}}, func() bool { return true })
	require.EqualError(t, x.err, "congestion.start: exit status 1")
	require.Equal(t, inconclusive, x.judge(passed("")).verdict)
}

// failingStart is a rig with a command that fails after its start.
type failingStart struct{ rig }

func (failingStart) start([]string) (func() error, error) {
	return func() error { return errors.New("exit status 1") }, nil
}

// Only the machine's own network is protected from overload without -yes.
func TestMachineNetwork(t *testing.T) {
	h := wiretest.NewHost(t, "h")
	h.Do(t, func() error {
		require.False(t, isMachineNetwork())
		return nil
	})
}

// An interrupt ends the run after the running case. A device without traffic across it, and an interface that is not
// there, are reported.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := wiretest.File(t, "profile.toml",
		congestedBy("for = \"10s\"\nstart = [\"sleep\", \"100\"]\nstop = [\"true\"]\n"))
	ctx, cancel := context.WithCancel(t.Context())
	starts := 0
	open := func(ctx context.Context, p *profile) (rig, error) {
		r, err := openNetwork(ctx, p)
		return interruptedRig{r, func() { starts++; cancel() }}, err
	}
	var out, messages bytes.Buffer
	b.tester.Do(t, func() error {
		require.Equal(t, 1, runWith(ctx, []string{"-profile", file, "-json"}, &out, &messages, open), messages.String())
		return nil
	})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Equal(t, 1, starts)
	for _, line := range []string{lines[0], lines[len(lines)-2]} { // the first case and the last one
		var r result
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		require.Equal(t, inconclusive, r.Verdict)
		require.Equal(t, "interrupted", r.Seen)
	}

	wrong := strings.Replace(switchProfile, `interface = "t1"`, `interface = "t9"`, 1)
	require.NoError(t, os.WriteFile(file, []byte(wrong), 0o600))
	messages.Reset()
	b.tester.Do(t, func() error {
		require.Equal(t, 1, Run(t.Context(), []string{"-profile", file}, nil, &out, &messages))
		return nil
	})
	require.Contains(t, messages.String(), `port[1].interface: "t9": `)
}

// interruptedRig is a rig with a function that interrupts the run when the device is congested.
type interruptedRig struct {
	rig
	interrupt func()
}

func (r interruptedRig) start(command []string) (stop func() error, err error) {
	defer r.interrupt()
	return r.rig.start(command)
}
