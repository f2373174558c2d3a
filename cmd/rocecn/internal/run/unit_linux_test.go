package run

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// The unit allows the threads of a machine with 512 CPUs: a Go program that cannot start a thread dies.
func TestTasksMax(t *testing.T) {
	octets, err := os.ReadFile(filepath.Join(filepath.Dir(wiretest.Path(t)), "packaging", "rocecn.service"))
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^TasksMax=(\d+)$`).FindSubmatch(octets)
	require.NotNil(t, m)
	most := wiretest.Must(strconv.Atoi(string(m[1])))(t)

	t.Setenv("GOMAXPROCS", "512")
	_, r, _, _ := network(t)
	agent := start(t, r, "pprof = true\n"+theProxy)
	agent.get("/debug/pprof/heap?gc=1") // garbage collection uses a quarter of the CPUs
	threads := wiretest.Must(os.ReadDir(fmt.Sprintf("/proc/%d/task", agent.Process.Pid)))(t)
	require.Less(t, len(threads)+512, most, "each CPU may run one more")
}
