package conform

import (
	"bytes"
	"context"
	"encoding/json"
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
	b := newBench(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "congest")
	script := fmt.Sprintf("#!/bin/sh\necho \"$1\" >>%s/log\n[ \"$1\" = 'on; $HOME' ] && exec sleep 100\nexit 0\n", dir)
	require.NoError(t, os.WriteFile(program, []byte(script), 0o700))
	i, j := strings.Index(switchProfile, "by = "), strings.Index(switchProfile, "[time]")
	profile := switchProfile[:i] + fmt.Sprintf(
		"by = \"command\"\nfor = \"200ms\"\nstart = [%q, \"on; $HOME\"]\nstop = [%q, \"off\"]\n", program, program) +
		switchProfile[j:]
	results, status := b.conform(t, profile, "-case", "F01.1")
	require.Equal(t, 3, status) // the device has no agent
	require.Equal(t, fail, results["F01.1"].Verdict)
	log := wiretest.Must(os.ReadFile(filepath.Join(dir, "log")))(t)
	require.Equal(t, "on; $HOME\noff\n", string(log))

	missing := strings.ReplaceAll(profile, program, program+"x")
	results, status = b.conform(t, missing, "-case", "F01.1,F03.1") // F03.1 needs no congestion
	require.Equal(t, 1, status)
	require.Equal(t, inconclusive, results["F01.1"].Verdict)
	require.Contains(t, results["F01.1"].Seen, "congestion.start: ")
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
			x := (&suite{ctx: ctx, profile: p, rig: &networkRig{ctx: ctx}}).newTrial(&testCase{}, 0)
			x.deadline = time.Now()
			x.runStop()
			require.NoError(t, x.err)
			require.FileExists(t, file)
		})
	}
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
	b := newBench(t)
	file := filepath.Join(t.TempDir(), "profile.toml")
	require.NoError(t, os.WriteFile(file, []byte(switchProfile), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, cancel)
	var out, messages bytes.Buffer
	begin := time.Now()
	b.tester.Do(t, func() error {
		require.Equal(t, 1, Run(ctx, []string{"-profile", file, "-json"}, nil, &out, &messages), messages.String())
		return nil
	})
	require.Less(t, time.Since(begin), 30*time.Second)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var last result
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-2]), &last))
	require.Equal(t, inconclusive, last.Verdict)
	require.Equal(t, "interrupted", last.Seen)

	wrong := strings.Replace(switchProfile, `interface = "t1"`, `interface = "t9"`, 1)
	require.NoError(t, os.WriteFile(file, []byte(wrong), 0o600))
	messages.Reset()
	b.tester.Do(t, func() error {
		require.Equal(t, 1, Run(t.Context(), []string{"-profile", file}, nil, &out, &messages))
		return nil
	})
	require.Contains(t, messages.String(), `port[1].interface: "t9": `)
}
