package run

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// routed is a switch that learns proxies from routers.
var routed = readConfig("routed")

// recordedRoutes is the number of proxies in a recorded stream.
const recordedRoutes = 2

// connectRouter connects to the station of an agent, and sends a stream that was recorded from FRRouting.
func connectRouter(t *testing.T, a *agent, port int) net.Conn {
	t.Helper()
	stream := wiretest.Must(os.ReadFile(filepath.Join("..", "bmp", "testdata", "frr.bmp")))(t)
	var c net.Conn
	a.host.Do(t, func() (err error) {
		if c, err = net.Dial("tcp", fmt.Sprintf("[::1]:%d", port)); err == nil {
			_, err = c.Write(stream)
		}
		return err
	})
	t.Cleanup(func() { c.Close() })
	return c
}

func (a *agent) awaitRouting(t *testing.T, routers, proxies, held float64) {
	t.Helper()
	a.awaits(t, routers, "rocecn_routing_routers", `source="routers"`)
	a.awaits(t, proxies, "rocecn_routing_proxies", `source="routers"`)
	a.awaits(t, held, "rocecn_routing_held", `source="routers"`)
}

// A reload keeps sessions and proxies unless their keys change.
func TestReloadRouting(t *testing.T) {
	a := start(t, wiretest.NewHost(t, "switch"), routed)
	reloads := 0
	reload := func(config string) {
		t.Helper()
		reloads++
		a.reload(t, config)
		wiretest.Await(t, "the reload", func() bool { return strings.Count(a.log(), "msg=reloaded") == reloads })
	}
	connectRouter(t, a, 11019)
	a.awaitRouting(t, 1, recordedRoutes, 0)

	require.NoError(t, a.Process.Signal(syscall.SIGHUP))
	a.awaitLog(t, "reload: nothing has changed")
	reload(strings.Replace(routed, `"1s"`, `"2s"`, 1))
	a.awaitRouting(t, 1, recordedRoutes, 0) // the same session

	// Another address: routers connect again, their proxies are kept until then.
	moved := strings.Replace(routed, "11019", "11020", 1)
	reload(moved)
	a.awaitRouting(t, 0, recordedRoutes, recordedRoutes)
	a.host.Do(t, func() error {
		_, err := net.Dial("tcp", "[::1]:11019")
		require.Error(t, err)
		return nil
	})
	c := connectRouter(t, a, 11020)
	a.awaitRouting(t, 1, recordedRoutes, 0)

	// A router that is no longer accepted: its session ends with its next message.
	reload(strings.Replace(moved, `"::1/128"`, `"2001:db8::/32"`, 1))
	_, err := c.Write([]byte{3, 0, 0, 0, 6, 4}) // Initiation
	require.NoError(t, err)
	a.awaitRouting(t, 0, recordedRoutes, recordedRoutes)
	connectRouter(t, a, 11020)
	a.awaits(t, 1, "rocecn_routing_refused_total", `reason="connection"`)

	// Another name, and no hold time for later losses.
	renamed := strings.NewReplacer(`"routers"`, `"leaves"`, "source.routers", "source.leaves").Replace(moved) +
		"routing_hold = \"0s\"\n"
	reload(renamed)
	a.awaits(t, recordedRoutes, "rocecn_routing_held", `source="leaves"`)
	c = connectRouter(t, a, 11020)
	a.awaits(t, 0, "rocecn_routing_held", `source="leaves"`)
	a.awaits(t, recordedRoutes, "rocecn_routing_proxies", `source="leaves"`)
	c.Close()
	a.awaits(t, 0, "rocecn_routing_proxies", `source="leaves"`)

	// Another code: the attribute in the stream has no proxy.
	reload(strings.Replace(renamed, "65281", "65282", 1))
	connectRouter(t, a, 11020)
	a.awaits(t, 1, "rocecn_routing_routers", `source="leaves"`)
	require.Zero(t, a.metric("rocecn_routing_proxies"))

	reload(strings.NewReplacer("observe = [\"routers\"]\n", "", "proxies_from = \"routing\"\npnc_code = 65281\n", "").
		Replace(routed))
	a.host.Do(t, func() error {
		_, err := net.Dial("tcp", "[::1]:11020")
		require.Error(t, err)
		return nil
	})
	require.NotContains(t, a.get("/metrics"), "rocecn_routing_proxies{")
	a.terminate(t)
}

// The status, the log and check name the source and its routers.
func TestRoutingStatus(t *testing.T) {
	a := start(t, wiretest.NewHost(t, "switch"), routed)
	require.Contains(t, a.checks(t), "source.routers: [::1]:11019: ")
	connectRouter(t, a, 11019)
	a.awaitRouting(t, 1, recordedRoutes, 0)
	require.Contains(t, a.get("/status"), `"address": "::1",
          "name": "router",`)
	a.awaitLog(t, `msg="BMP session begins" router=::1`)
	require.NoError(t, a.Process.Signal(syscall.SIGUSR1))
	a.awaitLog(t, "msg=status routing=routers routers=1 proxies=2 held=0 messages=")
	a.terminate(t)
	require.NotContains(t, a.log(), "BMP session lost")
}
