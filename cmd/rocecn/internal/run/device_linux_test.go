package run

import (
	"context"
	"os"
	"path/filepath"
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

const deviceSource = "[source.in]\ntype = \"psample\"\ngroup = 1\n[sink.out]\ntype = \"raw\"\n"

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
