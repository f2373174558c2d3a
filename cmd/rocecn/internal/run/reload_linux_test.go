package run

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// A reload that adds a missing interface leaves the existing one watched. One with only a missing interface is
// rejected, unless the source is not required.
func TestReloadMissingInterface(t *testing.T) {
	const role = "[sink.net]\ntype = \"raw\"\n[role.switch]\nenabled = true\nsources = [\"in\"]\nsink = \"net\"\n" +
		"self = [\"2001:db8:1::1\"]\nmethods = [{ senders = \"2001:db8:1::/64\", method = \"fastcnp\" }]\n"
	for _, c := range []struct{ name, config string }{
		{"packet", "[source.in]\ntype = \"packet\"\ninterfaces = [\"r1\"]\ndirection = \"out\"\n" + role},
		{"qdisc", "[source.in]\ntype = \"qdisc\"\ninterfaces = [\"r1\"]\nlevels = [2000]\n" + role},
		{"kernel", strings.Replace("[source.in]\ntype = \"qdisc\"\ninterfaces = [\"r1\"]\nlevels = [2000]\n"+role,
			"sink = \"net\"\n", "mode = \"kernel\"\n", 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, r, _, _ := network(t)
			slowly(t, r)
			agent := start(t, r, c.config)
			out := raw(t, a)
			answered := func() bool {
				before := agent.metric("rocecn_role_sent_total")
				for range 20 {
					sends(t, out, datagram(t, 17))
				}
				time.Sleep(50 * time.Millisecond)
				return agent.metric("rocecn_role_sent_total") > before
			}
			wiretest.Await(t, "Fast CNPs", answered)
			for i, interfaces := range []string{`["r1", "missing"]`, `["missing", "r1"]`, `["r1"]`} {
				agent.reload(t, strings.Replace(c.config, `["r1"]`, interfaces, 1))
				wiretest.Await(t, "the end of the reload", func() bool {
					return strings.Count(agent.log(), "msg=reloaded") == i+1
				})
				wiretest.Await(t, "Fast CNPs after the reload "+interfaces, answered)
			}
			require.NotContains(t, agent.log(), "level=ERROR")

			// A wrong name in place of the only interface changes nothing.
			agent.reload(t, strings.Replace(c.config, `["r1"]`, `["r11"]`, 1))
			agent.awaits(t, 0, "rocecn_config_last_reload_successful")
			agent.awaitLog(t, "source.in.interfaces: r11: no such interface; want one that exists in place of r1")
			wiretest.Await(t, "Fast CNPs after the rejected reload", answered)
			agent.reload(t, strings.Replace(c.config, `["r1"]`, "[\"r11\"]\nrequired = false", 1))
			agent.awaits(t, 1, "rocecn_config_last_reload_successful")
			agent.terminate(t)
		})
	}
}
