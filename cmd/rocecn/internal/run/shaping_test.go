package run

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Requirements of a sender that shapes, and keys that exclude each other.
func TestWrongShaping(t *testing.T) {
	const good = `[source.a]
type = "packet"
interfaces = ["eth0"]
[sink.b]
type = "raw"
[role.sender]
enabled = true
act = "shape"
install = "fq"
interfaces = ["eth0", "eth1"]
sources = ["a"]
self = ["2001:db8::a"]
reaction = { line = 1_000_000_000, rtt = "1ms" }
`
	f, err := parseFile([]byte(good))
	require.NoError(t, err)
	require.Empty(t, f.listWarnings())
	require.Contains(t, f.formatSummary(),
		"role.sender: the kernel slows flows down that leave by eth0, eth1, where fq "+
			"is installed unless another qdisc was configured\nnot used: sink.b\n"+
			"AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_NET_RAW\n")
	const keys = `sources = ["a"]
self = ["2001:db8::a"]
reaction = { line = 1_000_000_000, rtt = "1ms" }
`
	for _, c := range []struct{ old, new, message string }{
		{"act = \"shape\"\ninstall = \"fq\"\ninterfaces = [\"eth0\", \"eth1\"]", `act = "slow"`,
			`role.sender.act: "slow" is neither report nor shape`},
		{`"fq"`, `"nft"`, `role.sender.install: "nft": want none or fq`},
		{`"shape"`, `"report"`, `role.sender.install: fq: want act = "shape"`},
		{`act = "shape"` + "\n" + `install = "fq"`, ``, `role.sender.interfaces: want act = "shape"`},
		{`interfaces = ["eth0", "eth1"]`, ``, `role.sender.interfaces: missing`},
		{`"eth1"`, `"eth0"`, `role.sender.interfaces[1]: eth0 is named twice`},
		{`["eth0", "eth1"]`, `["any"]`, `role.sender.interfaces[0]: any: want names of interfaces`},
		{`reaction = { line = 1_000_000_000, rtt = "1ms" }`, ``, `role.sender.reaction: missing: how flows slow down`},
		{`"shape"`, "\"shape\"\nas = \"cnp\"\nsink = \"b\"", `role.sender.act: shape slows flows of this host down`},
		{`"shape"`, "\"shape\"\nmode = \"kernel\"", `role.sender.reaction: the kernel cannot do that`},
		{`line = 1_000_000_000`, `line = 0`, `role.sender.reaction.line: from 1 to 2^50 bits a second needed`},
		{`line`, `min = 999, line`, `role.sender.reaction.min: 999: from 1000 bits a second on`},
		{`line`, `min = 2_000_000_000, line`, `role.sender.reaction.min: from 1 to Line needed`},
		{`line`, `max_flows = 65_537, line`, `role.sender.reaction.max_flows: 65537: up to 65536`},
		{`line`, `kind = "swift", line`, `role.sender.reaction.kind: "swift" is neither paper nor`},
		{`line`, `max_pause = "1s", line`, `role.sender.reaction.max_pause: from 0 to the longest that`},
		{`"1ms"`, `"2h"`, `role.sender.reaction.rtt: above 0 to an hour needed`},
		{`line`, `bandwidth = 2_000_000_000_000_000, line`, `role.sender.reaction.bandwidth: 2^50 bits a second`},
		{`line`, `additive = 2_000_000_000_000_000, line`, `role.sender.reaction.additive: from 1 to 2^50 bits`},
		{`line`, `hyper = 2_000_000_000_000_000, line`, `role.sender.reaction.hyper: 2^50 bits a second at most`},
		{`line`, `rate = 5, line`, `role.sender.reaction.rate: unknown key`},
		{`[role.sender]`, "[[role.sender]]\nenabled = true\nact = \"shape\"\ninterfaces = [\"eth1\"]\n" + keys +
			"[[role.sender]]", `role.sender[1].interfaces[1]: role.sender[0] has eth1 already`},
	} {
		require.Contains(t, good, c.old)
		_, err := parseFile([]byte(strings.Replace(good, c.old, c.new, 1)))
		require.ErrorContains(t, err, c.message)
	}
	_, err = parseFile([]byte(strings.Replace(good, "enabled = true", "enabled = false", 1)))
	require.NoError(t, err, "off")
}
