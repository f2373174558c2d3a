package play

import (
	"bytes"
	"testing"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/stretchr/testify/require"
)

// A file of the agent has the same roles, of which play takes one.
func TestTOMLFile(t *testing.T) {
	const agent = `
[agent]
http = "127.0.0.1:9479"
[source.queues]
type = "qdisc"
[[role.switch]]
enabled = true
sources = ["queues"]
sink = "net"
self = ["2001:db8:ffff::5"]
methods = [{ senders = "::/0", method = "fastcnp" }]
[[role.switch]]
enabled = false
[role.receiver]
install = "nft"
`
	in := every(0, packet(t))
	want, out, _ := rehearse(t, "switch", `{"enabled": true, "self": ["2001:db8:ffff::5"],
		"methods": [{"senders": "::/0", "method": "fastcnp"}]}`, in)
	require.Equal(t, "sent", want[0]["action"])
	_, err := roles.Read([]byte(agent), "switch[0]")
	require.EqualError(t, err, "line 15: role.receiver.install: is for the role border or sender")
	good := agent[:len(agent)-len("install = \"nft\"\n")]
	got, same, _ := rehearse(t, "switch[0]", good, in)
	want[0]["role"] = "switch[0]"
	require.Equal(t, want, got)
	require.Equal(t, out, same)
	got, _, _ = rehearse(t, "switch[1]", good, in)
	require.Equal(t, "disabled", got[0]["reason"])

	for _, c := range []struct{ role, file, message string }{
		{"switch", good, "there are several [[role.switch]]: the first one is switch[0]"},
		{"proxy", good, "there is no [role.proxy]"},
		{"switch", "[role.switch]\nenabled = true\nself = [\"2001:db8::1\", \"::1\"]",
			"line 3: role.switch.self[1]: ::1 is the second of its family"},
		{"switch", "[role.switch]\n\npe = [1]", "line 3: role.switch.pe[0]: 1: want a prefix as text"},
		{"switch", "[role.switch]\n[role.swich]", "line 2: role.swich: no such role; known are border, echo, ingress"},
		{"switch", "[roles.switch]", "line 1: roles: unknown key; known are agent, source, sink, role"},
		{"switch", "role = 1", "line 1: role: 1: want an object"},
	} {
		t.Run(c.role, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := []string{"-role", c.role, "-config", file(t, c.file), "-"}
			require.Equal(t, 2, Run(t.Context(), args, bytes.NewReader(in), &stdout, &stderr))
			require.Contains(t, stderr.String(), c.message)
		})
	}
}
