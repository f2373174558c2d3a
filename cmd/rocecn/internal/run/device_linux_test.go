package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/rdma"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// fakeDevices are the RDMA devices that this host seems to have, nil for those that it has. Goroutines of an agent that
// has ended may still read it.
var fakeDevices atomic.Pointer[[]string]

func init() {
	listDevices = func() []string {
		if names := fakeDevices.Load(); names != nil {
			return *names
		}
		return rdma.Devices()
	}
}

// setDevices makes this host have these RDMA devices, with one queue pair, until the test ends.
func setDevices(t *testing.T, names ...string) {
	t.Helper()
	fakeDevices.Store(&names)
	t.Cleanup(func() { fakeDevices.Store(nil) })
	dir := t.TempDir()
	const script = "#!/bin/sh\n[ $3 != qp ] || echo link rxe0/1 lqpn 17 rqpn 34 type RC state RTS\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rdma"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// A host with an RDMA device gives its queue pairs to the receiver, the sender and the proxy without a key.
func TestDeviceByDefault(t *testing.T) {
	const self, learn = "self = [\"2001:db8:2::b\"]\n", "learn = true\n"
	for _, c := range []struct {
		name, role, keys string
		devices          []string
		want             int
	}{
		{"receiver", "receiver", self + learn, []string{"rxe0"}, 1},
		{"sender", "sender", self + learn, []string{"rxe0"}, 1},
		{"proxy", "proxy", self + "accept = [\"::/0\"]\nsenders = [{ prefix = \"::/0\", send = \"cnp\" }]\n",
			[]string{"rxe0"}, 1},
		{"none", "receiver", self + learn + "rdma = \"none\"\n", []string{"rxe0"}, 0},
		{"named", "receiver", self + "rdma = \"rxe0\"\n", nil, 1},
		{"no device", "receiver", self + learn, nil, 0},
		{"another role", "pause", self + "accept = [\"::/0\"]\n", []string{"rxe0"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			setDevices(t, c.devices...)
			s := prepared(t, deviceSource+"[role."+c.role+"]\nenabled = true\nsources = [\"in\"]\n"+
				sinkOf(c.role)+c.keys)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s.startDevices(ctx)
			a := s.actors[0]
			pairs := func() int {
				a.runTimers(time.Now(), s)
				return a.Role.(roles.Sized).Sizes().Pairs
			}
			if c.want > 0 {
				wiretest.Await(t, "the pair of the device", func() bool { return pairs() == c.want })
				fakeDevices.Store(new([]string)) // the device is gone
				if c.devices != nil {
					wiretest.Await(t, "no pair", func() bool { return pairs() == 0 })
				}
				return
			}
			time.Sleep(100 * time.Millisecond)
			require.Zero(t, pairs())
		})
	}
}

// A reload that names another device forgets the queue pairs of the previous one; any other reload keeps them.
func TestDeviceChanged(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		want                int
	}{
		{"same", "mlx5_0", "mlx5_0", 1},
		{"another", "mlx5_0", "mlx5_1", 0},
		{"any after one", "mlx5_0", "any", 0},
		{"the default is any", "", "any", 1},
		{"none", "mlx5_0", "none", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			setDevices(t)
			s := prepared(t, deviceSource+"[role.receiver]\nenabled = true\nsources = [\"in\"]\nsink = \"out\"\n"+
				"self = [\"2001:db8:2::b\"]\nlearn = true\n")
			ended, cancel := context.WithCancel(t.Context())
			cancel() // nothing is polled
			a := s.actors[0]
			a.instance.Agent.RDMA = c.before
			s.startDevices(ended)
			a.devicePairs.Store(roles.NewDevice([]roles.DevicePair{{QP: 17, RemoteQP: 34}}, nil))
			a.receiveDevicePairs()
			require.Equal(t, 1, a.Role.(roles.Sized).Sizes().Pairs)
			a.instance.Agent.RDMA = c.after
			s.startDevices(ended)
			require.Equal(t, c.want, a.Role.(roles.Sized).Sizes().Pairs)
		})
	}
}

// Check names the origin of queue pairs, and the queue pairs that cannot be learned.
func TestPairsSummary(t *testing.T) {
	const lockstep = "that send the same PSNs at the same time"
	for _, c := range []struct {
		name, keys string
		devices    []string
		want       string
		lockstep   bool
	}{
		{"device", "learn = true\n", []string{"mlx5_0", "mlx5_1"},
			"role.receiver: queue pairs from the RDMA devices of this host (mlx5_0, mlx5_1), packets\n", false},
		{"no device", "learn = true\n", nil,
			"role.receiver: queue pairs from the RDMA devices of this host (none now), packets\n", true},
		{"named", "rdma = \"mlx5_0\"\n", nil, "role.receiver: queue pairs from the RDMA device mlx5_0\n", false},
		{"packets only", "learn = true\nrdma = \"none\"\n", []string{"mlx5_0"},
			"role.receiver: queue pairs from packets\n", true},
		{"given", "rdma = \"none\"\n" +
			"qps = [{ src = \"2001:db8:1::a\", dst = \"2001:db8:2::b\", dest_qp = 17, src_qp = 34 }]\n",
			nil, "role.receiver: queue pairs from the key qps\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			setDevices(t, c.devices...)
			f := wiretest.Must(parseFile([]byte(deviceSource + "[role.receiver]\nenabled = true\nsources = [\"in\"]\n" +
				"sink = \"out\"\nself = [\"2001:db8:2::b\"]\n" + c.keys)))(t)
			summary := f.formatSummary()
			require.Contains(t, summary, c.want)
			if c.lockstep {
				require.Contains(t, summary, lockstep)
			} else {
				require.NotContains(t, summary, lockstep)
			}
		})
	}
}

// An error of the devices is logged when it begins, and its end once.
func TestDeviceErrorsLogged(t *testing.T) {
	var output bytes.Buffer
	p := &devicePoller{log: slog.New(slog.NewTextHandler(&output, nil))}
	broken, works := deviceState{queried: true, err: errors.New("no answer")}, deviceState{queried: true}
	for _, row := range []struct {
		name  string
		state deviceState
		want  string
	}{
		{"first error", broken, "cannot be read"}, {"second error", broken, ""}, {"end", works, "can be read again"},
		{"works", works, ""}, {"next error", broken, "cannot be read"}, {"next end", works, "can be read again"},
	} {
		t.Run(row.name, func(t *testing.T) {
			output.Reset()
			p.update(row.state)
			if row.want == "" {
				require.Empty(t, output.String())
				return
			}
			require.Equal(t, 1, strings.Count(output.String(), "\n"))
			require.Contains(t, output.String(), row.want)
		})
	}
}

// All roles share one query of the devices in each interval. They get new queue pairs only if some have changed, also
// if other fields of the device's output change with each packet.
func TestOnePollerOfDevices(t *testing.T) {
	setDevices(t, "rxe0", "rxe1")
	dir := t.TempDir()
	queries := filepath.Join(dir, "queries")
	output := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "qps"), []byte(text), 0o644))
	}
	script := fmt.Sprintf("#!/bin/sh\necho $3 >>%s\n[ $3 != qp ] || cat %s\n", queries, filepath.Join(dir, "qps"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rdma"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))

	p := &devicePoller{log: slog.New(slog.DiscardHandler)}
	for _, device := range []string{"", anyDevice, "rxe1", "rxe2"} {
		p.users = append(p.users, deviceUser{device, new(atomic.Pointer[roles.Device])})
	}
	poll := func() (all []*roles.Device) {
		p.update(p.queryDevices(t.Context()))
		for _, u := range p.users {
			all = append(all, u.pairs.Load())
		}
		return all
	}
	const line = "link rxe0/1 lqpn 17 rqpn 34 type RC state RTS sq-psn %d\n"
	output(fmt.Sprintf(line, 1))
	first := poll()
	require.Equal(t, "qp\ncm_id\n", string(octetsOf(t, queries)))
	require.NotNil(t, first[0])
	require.Same(t, first[0], first[1])
	require.Equal(t, 1, first[0].Len())
	require.Zero(t, first[2].Len())
	require.Zero(t, first[3].Len())

	output(fmt.Sprintf(line, 2)) // the device has sent a packet
	for i, d := range poll() {
		require.Same(t, first[i], d)
	}
	output(fmt.Sprintf(line, 3) + "link rxe1/1 lqpn 18 rqpn 35 type RC state RTS\n")
	second := poll()
	require.Equal(t, 2, second[0].Len())
	require.Equal(t, 1, second[2].Len())

	fakeDevices.Store(new([]string)) // the devices are gone
	third := poll()
	require.Nil(t, third[0])
	require.Equal(t, 2, third[1].Len(), "named by the role")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rdma"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	require.Equal(t, make([]*roles.Device, 4), poll())
}
