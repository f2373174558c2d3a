package rdma

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/programs"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// read reads a file. qp.txt is the output of iproute2 6.1 for NVMe over soft-RoCE on Linux 6.1. cm_id.txt is
// written by hand after its source, with misleading program names.
func read(t *testing.T, name string) string {
	t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join("testdata", name)
	}
	octets := wiretest.Must(os.ReadFile(name))(t)
	return string(octets)
}

func TestParse(t *testing.T) {
	parse := func(qps, ids string) []Pair {
		all := parsePairs(qps)
		setAddresses(all, ids)
		return all
	}
	recorded, ids := read(t, "qp.txt"), read(t, "cm_id.txt")
	require.Equal(t, []Pair{{"rxe0", 45, 81, netip.Addr{}}, {"rxe0", 46, 82, netip.Addr{}}}, parse(recorded, ""))

	qps := recorded + `link rxe0/1 lqpn 47 rqpn 83 type RC state RTS rq-psn 1 sq-psn 1 comm lqpn 9 rqpn 9 
link rxe0/1 lqpn 48 rqpn 84 type RC state ERR rq-psn 1 sq-psn 1 comm x 
link rxe0/1 lqpn 49 rqpn 0 type RC state RTS rq-psn 1 sq-psn 1 comm x 
link rxe0/1 lqpn 16777216 rqpn 85 type RC state RTS comm x 
link rxe0/1 lqpn
lqpn 50 rqpn 86 type RC
`
	require.Equal(t, []Pair{
		{"rxe0", 45, 81, netip.MustParseAddr("10.2.0.1")}, {"rxe0", 46, 82, netip.MustParseAddr("fd02::1")},
		{"rxe0", 47, 83, netip.Addr{}},
	}, parse(qps, ids))
	require.Empty(t, parse("", ""))
}

// Pairs returns the queue pairs of all devices. Error output is an error with any exit status.
func TestPairs(t *testing.T) {
	dir := t.TempDir()
	program := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "rdma"), []byte("#!/bin/sh\n"+text), 0o755))
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	program(`case "$*" in
"resource show qp")
	echo link rxe0/1 lqpn 45 rqpn 81 type RC state RTS
	echo link rxe1/1 lqpn 46 rqpn 82 type RC state RTS ;;
"resource show cm_id") echo link rxe0/1 lqpn 45 state CONNECT comm x y dst-addr fd02::1:4420 ;;
*) exit 1 ;;
esac
`)
	pairs, err := new(Reader).Pairs(context.Background())
	require.NoError(t, err)
	require.Equal(t, []Pair{
		{"rxe0", 45, 81, netip.MustParseAddr("fd02::1")}, {"rxe1", 46, 82, netip.Addr{}},
	}, pairs)
	program("exit 1\n")
	_, err = new(Reader).Pairs(context.Background())
	require.ErrorContains(t, err, "rdma: exit status 1")
	program("echo Failed to open NETLINK_RDMA socket >&2\n")
	_, err = new(Reader).Pairs(context.Background())
	require.EqualError(t, err, "rdma: error output: Failed to open NETLINK_RDMA socket")
	program(wiretest.Lingering(t))
	ctx, cancel := context.WithTimeoutCause(context.Background(), 100*time.Millisecond, programs.ErrNoAnswer)
	defer cancel()
	_, err = QueuePairs(ctx)
	require.EqualError(t, err, "rdma: no answer within 5s")
	require.NoError(t, os.Remove(filepath.Join(dir, "rdma")))
	t.Setenv("PATH", dir)
	_, err = new(Reader).Pairs(context.Background())
	require.ErrorContains(t, err, "not found")
}

// The addresses are read in the first reads after a change of the queue pairs, and again after an error. Other fields
// of the output, which change with each packet, do not count.
func TestReader(t *testing.T) {
	dir := t.TempDir()
	queries := filepath.Join(dir, "queries")
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	program := func(qps string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "rdma"), fmt.Appendf(nil, "#!/bin/sh\n"+
			"echo $3 >>%s\ncase $3 in qp) %s ;; "+
			"*) echo link rxe0/1 lqpn 45 state CONNECT dst-addr fd02::1:1 ;; esac\n", queries, qps), 0o755))
	}
	const line = "echo link rxe0/1 lqpn 45 rqpn %d type RC state RTS sq-psn %d"
	pair := Pair{"rxe0", 45, 81, netip.MustParseAddr("fd02::1")}
	changed := pair
	changed.RemoteQP = 82
	var r Reader
	for i, c := range []struct {
		qps  string
		want []Pair // nil: an error
		asks string
	}{
		{fmt.Sprintf(line, 81, 1), []Pair{pair}, "qp\ncm_id\n"},
		{fmt.Sprintf(line, 81, 2), []Pair{pair}, "qp\ncm_id\n"},
		{fmt.Sprintf(line, 81, 3), []Pair{pair}, "qp\ncm_id\n"},
		{fmt.Sprintf(line, 81, 4), []Pair{pair}, "qp\n"},
		{fmt.Sprintf(line, 81, 5), []Pair{pair}, "qp\n"},
		{fmt.Sprintf(line, 82, 6), []Pair{changed}, "qp\ncm_id\n"},
		{"exit 1", nil, "qp\n"},
		{fmt.Sprintf(line, 82, 7), []Pair{changed}, "qp\ncm_id\n"},
	} {
		program(c.qps)
		require.NoError(t, os.WriteFile(queries, nil, 0o644))
		all, err := r.Pairs(t.Context())
		require.Equal(t, c.want == nil, err != nil, i)
		require.Equal(t, c.want, all, i)
		require.Equal(t, c.asks, read(t, queries), i)
	}
}

// Addresses are read again in each 60th read: a connection to another peer may have got the numbers of an earlier one.
func TestReaderOfReusedNumbers(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	connect := func(remote string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "rdma"), []byte("#!/bin/sh\n"+
			"case $3 in qp) echo link rxe0/1 lqpn 45 rqpn 81 type RC state RTS ;; "+
			"*) echo link rxe0/1 lqpn 45 state CONNECT dst-addr "+remote+":1 ;; esac\n"), 0o755))
	}
	var r Reader
	read := func() netip.Addr { return wiretest.Must(r.Pairs(t.Context()))(t)[0].Remote }
	connect("fd02::1")
	for range 3 {
		require.Equal(t, netip.MustParseAddr("fd02::1"), read())
	}
	connect("fd02::2")
	for range 56 {
		require.Equal(t, netip.MustParseAddr("fd02::1"), read())
	}
	require.Equal(t, netip.MustParseAddr("fd02::2"), read())
	require.Equal(t, netip.MustParseAddr("fd02::2"), read())
}

func TestParseQueuePairs(t *testing.T) {
	text := read(t, "qp.txt") + `
link mlx5_4/1 lqpn 262 rqpn 300 type RC state RTS rq-psn 1 sq-psn 1 pid 41 comm a lqpn 9 x 
link mlx5_4/- lqpn 8 type UD state RTS sq-psn 0 pid 0 comm [ipoib-verbs]
link mlx5_4/1 lqpn 5
`
	want := []QueuePair{
		{"rxe0", 1, 45, 81, "RC", "RTS", 0, "[rdma_cm]"},
		{"rxe0", 1, 46, 82, "RC", "RTS", 0, "[rdma_cm]"},
		{"rxe0", 1, 1, 0, "GSI", "RTS", 0, "[ib_core]"},
		{"mlx5_4", 1, 262, 300, "RC", "RTS", 41, "a lqpn 9 x"},
	}
	require.Equal(t, want, ParseQueuePairs(text, 100))
	require.Equal(t, want[:2], ParseQueuePairs(text, 2))
}

// The devices are the entries of a folder, which is missing on hosts without RDMA.
func TestDevices(t *testing.T) {
	before := devicesFolder
	defer func() { devicesFolder = before }()
	devicesFolder = filepath.Join(t.TempDir(), "infiniband")
	require.Empty(t, Devices())
	require.NoError(t, os.MkdirAll(filepath.Join(devicesFolder, "mlx5_1"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(devicesFolder, "mlx5_0"), 0o755))
	require.Equal(t, []string{"mlx5_0", "mlx5_1"}, Devices())
}
