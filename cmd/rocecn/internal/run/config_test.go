package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/fastpath"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/reaction"
)

// Each error of a file names its key and line.
func TestWrongFiles(t *testing.T) {
	const good = `[source.a]
type = "packet"
interfaces = ["eth0"]
[sink.b]
type = "raw"
[role.switch]
enabled = true
sources = ["a"]
sink = "b"
self = ["2001:db8::5"]
marking = "elsewhere"
methods = [{ senders = "::/0", method = "fastcnp" }]
`
	const methods, mark = `methods = [{ senders = "::/0", method = "fastcnp" }]`, `marking = "elsewhere"` + "\n"
	f := wiretest.Must(parseFile([]byte(good)))(t)
	require.Len(t, f.listWarnings(), 1)
	require.Contains(t, f.listWarnings()[0], "role.switch: no limit")
	for _, limit := range []struct{ of, key string }{
		{"self", `per_flow = "100us"`}, {"self", `rate = { per_second = 5 }`}, {"self", `limits = "none"`},
		{"[role.switch]", "per_second = 5"},
	} {
		t.Run(limit.key, func(t *testing.T) {
			f := wiretest.Must(parseFile([]byte(strings.Replace(good, limit.of, limit.key+"\n"+limit.of, 1))))(t)
			require.Empty(t, f.listWarnings())
		})
	}
	kernel := strings.NewReplacer(`"packet"`, `"qdisc"`+"\nlevels = [5]", `sink = "b"`, `mode = "kernel"`).Replace(good)
	deep := strings.Replace(strings.Replace(good, `"packet"`, `"psample"`, 1), `interfaces = ["eth0"]`, `group = 1`, 1)
	f = wiretest.Must(parseFile([]byte(kernel)))(t)
	require.Contains(t, f.formatSummary(), "AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_PERFMON\n")
	require.Contains(t, f.formatSummary(), "role.switch: the kernel answers at eth0\n")
	for _, c := range []struct {
		name string
		bind bool
	}{{":80", true}, {"[::1]:1023", true}, {"127.0.0.1:9479", false}, {":0", false}} {
		t.Run(c.name, func(t *testing.T) {
			f.agent.HTTP = c.name
			require.Equal(t, c.bind, strings.Contains(f.formatSummary(), "CAP_NET_BIND_SERVICE"))
		})
	}
	k, err := (&file{sources: f.sources}).buildKernelConfig(instance(t, strings.Replace(kernel, mark+methods, `
methods = [{ senders = "::/0", method = "fastcnp" }, { senders = "fd00::/8", method = "mark" }]
capable = [{ senders = "fd00:1::/32", capable = "no" }, { senders = "2001:db8::/32", capable = "yes" },
	{ senders = "2001:db8:1::/48", capable = "unknown" }, { senders = "10.0.0.0/8", capable = "yes" }]
`, 1)))
	require.NoError(t, err)
	policies := map[string]fastpath.Policy{}
	for _, s := range k.part.(*kernelSwitch).senders {
		policies[s.Prefix.String()] = s.policy
	}
	require.Equal(t, map[string]fastpath.Policy{
		"::/0": fastpath.NotifyAndMark, "fd00::/8": fastpath.Mark, "fd00:1::/32": fastpath.Mark,
		"2001:db8::/32": fastpath.Notify, "2001:db8:1::/48": fastpath.NotifyAndMark, "10.0.0.0/8": fastpath.Nothing,
	}, policies)
	_, err = parseFile([]byte(strings.Replace(strings.Replace(kernel, methods,
		`methods = [{ senders = "0.0.0.0/0", method = "mark" }]`, 1), `["2001:db8::5"]`, `["192.0.2.5"]`, 1)))
	require.NoError(t, err, "an IPv4 address is enough to mark")
	other := "[[role.switch]]\nenabled = true\nsources = [\"a\"]\nsink = \"c\"\nself = [\"2001:db8::5\"]\n" +
		methods + "\n[sink.c]\ntype = \"raw\"\n[[role.switch]]"
	translates := `[source.a]
type = "packet"
interfaces = ["eth0"]
[source.d]
type = "nflog"
group = 7
[sink.b]
type = "raw"
[role.sender]
enabled = true
mode = "kernel"
sources = ["a"]
self = ["2001:db8::5"]
as = "cnp"
`
	f = wiretest.Must(parseFile([]byte(translates)))(t)
	require.Contains(t, f.formatSummary(),
		"role.sender: the kernel translates Fast CNPs at eth0, and drops those it cannot; PPFC go on to 2001:db8::5\n"+
			"not used: source.d, sink.b\nAmbientCapabilities=CAP_BPF CAP_NET_ADMIN\n")
	f = wiretest.Must(parseFile([]byte(strings.Replace(translates, `["a"]`, "[\"a\", \"d\"]\nsink = \"b\"", 1))))(t)
	require.Contains(t, f.formatSummary(), "eth0; others, and PPFC, are the agent's\n")
	learns := good[:strings.Index(good, "[role")] + `[role.ingress]
enabled = true
sources = ["a"]
sink = "b"
labels = "learn"
tunnel = { src = "2001:db8:fe::1" }
accept = ["2001:db8::/32"]
cnp = ["2001:db8::5"]
`
	const proxy = `[source.a]
type = "udp"
listen = ["[::1]:9"]
[source.b]
type = "nflog"
group = 7
[sink.b]
type = "raw"
[role.proxy]
enabled = true
sources = ["a", "b"]
sink = "b"
self = ["2001:db8::5"]
accept = ["2001:db8::/32"]
senders = [{ prefix = "::/0", send = "cnp" }]
`
	const second = "[source.c]\ntype = \"udp\"\nlisten = [\"[::1]:8\", \"[::1]:9\"]\n[role.proxy]"
	_, err = parseFile([]byte(strings.Replace(proxy, "[role.proxy]", second, 1))) // no role uses it
	require.NoError(t, err)
	_, err = parseFile([]byte(learns))
	require.NoError(t, err)
	for _, c := range []struct{ in, old, new, message string }{
		{proxy, `accept = ["2001:db8::/32"]`, ``, `line 9: role.proxy.accept: missing: without it no`},
		{proxy, `senders = `, `#`, `line 9: role.proxy.senders: missing: without senders the proxy`},
		{strings.Replace(proxy, `"b"]`, `"b", "c"]`, 1), "[role.proxy]", second,
			`line 11: source.c.listen[1]: source.a has [::1]:9 already`},
		{strings.Replace(proxy, `"b"]`, `"b", "c"]`, 1), "[role.proxy]",
			"[source.c]\ntype = \"nflog\"\ngroup = 7\n[role.proxy]", `line 11: source.c.group: source.b has 7 already`},
		{proxy, `[::1]:9`, `[ff02::1%lo]:9`, `line 3: source.a.listen[0]: ff02::1%lo: want the address of one`},
		{proxy, `[::1]:9`, `224.0.0.1:9`, `line 3: source.a.listen[0]: 224.0.0.1: want the address of one`},
		{proxy, `[::1]:9`, `[fe80::1]:9`, `line 3: source.a.listen[0]: fe80::1 is link-local: want a zone,`},
		{proxy, "\"udp\"\nlisten = [\"[::1]:9\"]", "\"icmpv6\"\nlisten = [\"fe80::1\"]",
			`line 3: source.a.listen[0]: fe80::1 is link-local: want a zone,`},
		{proxy, `"raw"`, "\"raw\"\ndevice = \"any\"", `line 9: sink.b.device: any: want the name of one interface`},
		{proxy, `"raw"`, "\"packet\"\ninterface = \"any\"\nneighbour = \"02:00:00:00:00:01\"",
			`line 9: sink.b.interface: any: want the name of one interface`},
		{proxy, `"raw"`, "\"packet\"\ninterface = \"eth0\"\nneighbour = \"33:33:00:00:00:01\"",
			`line 10: sink.b.neighbour: 33:33:00:00:00:01: want the address`},
		{proxy, `"raw"`, "\"packet\"\ninterface = \"eth0\"\nneighbour = \"00:00:00:00:00:00\"",
			`line 10: sink.b.neighbour: 00:00:00:00:00:00: want the address of a neighbour`},
		{good, `["eth0"]`, "[\"eth0\"]\nsnap = 20", `line 4: source.a.snap: 20: want 0 or at least 40 bytes`},
		{proxy, "[role.proxy]", "[role.pause]\nenabled = true\nsources = [\"b\"]\n" +
			"self = [\"2001:db8::5\"]\n[role.proxy]",
			`line 9: role.pause.accept: missing: without it no node's notifications count`},
		{proxy, "[role.proxy]", "[role.receiver]\nenabled = true\nsources = [\"b\"]\nsink = \"b\"\n" +
			"self = [\"2001:db8::5\"]\n[role.proxy]", `line 9: role.receiver.learn: missing: without it, and`},
		{learns, `accept`, `#`, `role.ingress.accept: missing: without it no node's FCNs count`},
		{learns, `cnp =`, `#`, `role.ingress.cnp: missing: without an address of its own`},
		{learns, `"learn"`, `"guess"`, `role.ingress.labels: "guess" is neither assign nor learn`},
		{learns, `"learn"`, `"assign"`, `role.ingress.tunnel.dst: an IPv6 unicast address`},
		{learns, `src = "2001:db8:fe::1"`, `src = "192.0.2.1"`, `role.ingress.tunnel.src: an IPv6 unicast address`},
		{learns, ` }`, `, type = "srv6" }`, `role.ingress.tunnel.type: others encapsulate with labels "learn": src`},
		{learns, ` }`, `, dst = "2001:db8::1" }`, `role.ingress.tunnel.dst: others encapsulate`},
		{learns, ` }`, `, segments = [] }`, `role.ingress.tunnel.segments: others encapsulate`},
		{learns, ` }`, `, vni = 1 }`, `role.ingress.tunnel.vni: others encapsulate`},
		{learns, ` }`, `, reduced = true }`, `role.ingress.tunnel.reduced: others encapsulate`},
		{learns, "labels", "quarantine = \"1s\"\nlabels", `role.ingress.quarantine: labels rest that the role gives`},
		{learns, "labels", "seed = 1\nlabels", `role.ingress.seed: it is for labels that the role gives`},
		{learns, `["eth0"]`, "[\"eth0\"]\nfilter = \"rocev2\"",
			`line 7: role.ingress.observe: no source of packets that leave in tunnels: want one of type packet`},
		{learns, `["eth0"]`, "[\"eth0\"]\ndirection = \"in\"",
			`line 7: role.ingress.observe: no source of packets that leave in tunnels: want one of type packet`},
		{good, `"packet"`, `"pakcet"`, `line 2: source.a.type: "pakcet" is not one of capture, icmpv6, nflog, `},
		{good, `type = "packet"`, ``, `line 1: source.a.type: missing`},
		{good, `type = "packet"`, `type = 1`, `line 2: source.a.type: 1: want text`},
		{good, `interfaces = ["eth0"]`, ``, `line 1: source.a.interfaces: missing`},
		{good, `["eth0"]`, `[""]`, `line 3: source.a.interfaces[0]: "": want a name`},
		{good, `["eth0"]`, `["eth0", "eth0"]`, `line 3: source.a.interfaces[1]: eth0 is named twice`},
		{good, `["eth0"]`, `["eth0", "any"]`, `line 3: source.a.interfaces[1]: any: want no other interface with`},
		{good, `["eth0"]`, `["eth 0"]`, `line 3: source.a.interfaces[0]: "eth 0": want the name of an interface`},
		{good, `["eth0"]`, `["eth/0"]`, `line 3: source.a.interfaces[0]: "eth/0": want the name of an interface`},
		{good, `["eth0"]`, `[".."]`, `line 3: source.a.interfaces[0]: "..": want the name of an interface`},
		{good, `["eth0"]`, "[\"eth0\"]\nfilter = \"qp\"", `line 4: source.a.filter: "qp": want rocev2,`},
		{good, `["eth0"]`, "[\"eth0\"]\ndirection = \"up\"", `line 4: source.a.direction: "up": want both, in or out`},
		{good, `["eth0"]`, "[\"eth0\"]\nlisten = []", `line 4: source.a.listen: unknown key; known are type`},
		{good, `["eth0"]`, "[\"eth0\"]\nlevel = 0", `line 4: source.a.level: 0: want 1 to 7`},
		{good, `["eth0"]`, "[\"eth0\"]\nlevel = 8", `line 4: source.a.level: 8: want 1 to 7`},
		{deep, `group = 1`, "group = 1\nlevels = [2, 2]", `line 4: source.a.levels[1]: 2: want rising depths`},
		{deep, `group = 1`, "group = 1\nlevels = [0]", `line 4: source.a.levels[0]: 0: want rising depths`},
		{deep, `group = 1`, "group = 1\nlevels = [1,2,3,4,5,6,7,8]", `source.a.levels: 8 values: want at most 7`},
		{deep, `group = 1`, "group = 1\nlevels = [2]\ndown = [3]", `source.a.down[0]: 3: want at most the depth at`},
		{deep, `group = 1`, "group = 1\nlevels = [4]\ndown = []", `source.a.down: 0 values: want 1, one for each`},
		{good, `"raw"`, `"row"`, `line 5: sink.b.type: "row" is not one of capture, packet, raw`},
		{good, `"raw"`, `"packet"`, `line 4: sink.b.neighbour: missing`},
		{good, `"raw"`, "\"packet\"\nneighbour = \"02:00\"",
			`line 6: sink.b.neighbour: "02:00": want a hardware address, as in 02:00:00:00:00:01`},
		{good, `"raw"`, "\"packet\"\nneighbour = \"02:00:00:00:00:01\"", `line 4: sink.b.interface: missing`},
		{good, "self", "limits = \"some\"\nself", `role.switch.limits: "some": want none; limits have keys of their`},
		{good,
			`"raw"`, "\"raw\"\nper_second = -1", "line 6: sink.b.per_second: -1: want a whole number from 0 to"},
		{good, `"raw"`, "\"raw\"\ndscp = 64", `line 6: sink.b.dscp: 64: want 0 to 63`},
		{good, `["a"]`, `["c"]`, `line 8: role.switch.sources[0]: there is no [source.c]`},
		{good, `["a"]`, `["a", "a"]`, `line 8: role.switch.sources[1]: a is named twice`},
		{good, `["a"]`, "[\"a\"]\nobserve = [\"a\"]", `line 9: role.switch.observe[0]: a is one of sources`},
		{good, `["a"]`, `[]`, `line 8: role.switch.sources: missing: want at least one source for an enabled role`},
		{good, `"b"`, `"c"`, `line 9: role.switch.sink: there is no [sink.c]`},
		{good, `sink = "b"`, ``, `line 6: role.switch.sink: missing`},
		{good, `self = ["2001:db8::5"]`, ``, `line 6: role.switch.self: an enabled role needs its own address`},
		{good, `enabled = true`, "enabled = true\nmode = \"cpu\"", `role.switch.mode: "cpu": want agent or kernel`},
		{good, `enabled = true`, "enabled = true\nmode = \"kernel\"", `role.switch.sink: the kernel sends by its`},
		{good, `[role.switch]`, `[rolle.switch]`, `line 6: rolle: unknown key; known are agent, source, sink, role`},
		{good, `[role.switch]`, `[role.swich]`, `line 6: role.swich: no such role; known are border, ingress, `},
		{good, `[sink.b]`, "[agent]\nhttps = \"\"\n[sink.b]", `line 5: agent.https: unknown key; known are http, `},
		{good, `[sink.b]`, "[agent]\npprof = true\n[sink.b]", `line 5: agent.pprof: want also http, the address`},
		{good, `[sink.b]`, "[agent]\nlog.level = \"all\"\n[sink.b]", `line 5: agent.log.level: "all": want debug,`},
		{good, `[sink.b]`, "[agent.log]\nformat = \"xml\"\n[sink.b]", `line 5: agent.log.format: "xml": want text`},
		{good, `["eth0"]`, "[\"eth0\"]\nlevels = [2]", `line 4: source.a.levels: type packet does not report queue`},
		{good, `["eth0"]`, `["a234567890123456"]`, `line 3: source.a.interfaces[0]: "a234567890123456" has 16`},
		{kernel, `["eth0"]`, `["a234567890123456"]`, `source.a.interfaces[0]: "a234567890123456" has 16`},
		{kernel, `["eth0"]`, `["any"]`, `source.a.interfaces[0]: any: want names of interfaces, which have`},
		{good, `"raw"`, "\"raw\"\ndevice = \"a234567890123456\"", `line 6: sink.b.device: "a234567890123456" has 16`},
		{good, "\"packet\"\ninterfaces = [\"eth0\"]", "\"udp\"\nlisten = [\"[::1]:0\"]",
			`line 3: source.a.listen[0]: port 0`},
		{good, "\"packet\"\ninterfaces = [\"eth0\"]", "\"udp\"\nlisten = [\"[::1]:9\", \"[::1]:9\"]",
			`line 3: source.a.listen[1]: [::1]:9 is named twice`},
		{good, "\"packet\"\ninterfaces = [\"eth0\"]", "\"icmpv6\"\nlisten = [\"::1\", \"::1\"]",
			`line 3: source.a.listen[1]: ::1 is named twice`},
		{good, `[role.switch]`, "[role.border]\nenabled = true\ninstall = \"nft\"\nsink = \"b\"\n[role.switch]",
			`line 9: role.border.sink: the kernel forwards packets across the border`},
		{good, `[role.switch]`, "[role.border]\nenabled = true\ninstall = \"nft\"\n" +
			"interfaces = [\"wan0\\\" drop\"]\n[role.switch]",
			`line 9: role.border.interfaces[0]: "wan0\" drop": want the name`},
		{good, `[role.switch]`, "[role.border]\nenabled = true\ninstall = \"nft\"\n" +
			"interfaces = [\"wan0\", \"wan0\"]\n[role.switch]", `role.border.interfaces[1]: wan0 is named twice`},
		{good, `[role.switch]`, "[role.border]\nenabled = true\ninstall = \"nft\"\n" +
			"interfaces = [\"any\"]\n[role.switch]", `line 9: role.border.interfaces[0]: any: want names of`},
		{good, `[role.switch]`, "[role.border]\nenabled = true\ninstall = \"nft\"\n" +
			"interfaces = [\"s*\"]\n[role.switch]", `line 9: role.border.interfaces[0]: "s*": want the name of an`},
		{good, `[role.switch]`, "[role.border]\nenabled = true\ninstall = \"nfs\"\n[role.switch]",
			`line 8: role.border.install: "nfs": want none or nft`},
		{good, "\"packet\"\ninterfaces = [\"eth0\"]", "\"udp\"\nlisten = [\"[::1]:9\"]",
			`line 8: role.switch.sources[0]: a switch answers data packets, and type udp gives none`},
		{good, `"::/0"`, `"fd00::/8", method = "ppfc" }, { senders = "fd00::1/8"`,
			`line 12: role.switch.methods[1].senders: fd00::/8 has a rule already`},
		{good, "[sink.b]", "[role.proxy]\nenabled = true\n" +
			"sources = [\"a\"]\nsink = \"b\"\nself = [\"2001:db8::5\"]\n" +
			"accept = [\"::/0\"]\n" +
			"senders = [{ prefix = \"::/0\", send = \"cnp\" }, { prefix = \"::/0\", send = \"ppfc\" }]\n[sink.b]",
			`line 10: role.proxy.senders[1].prefix: ::/0 has a rule already`},
		{good, methods, ``, `line 6: role.switch.methods: missing`},
		{good, `[sink.b]`, "[agent]\nhttp = \"nonsense\"\n[sink.b]", `line 5: agent.http: "nonsense": want an IP`},
		{good, `[sink.b]`, "[agent]\nhttp = \"host:9479\"\n[sink.b]", `agent.http: "host:9479": want an IP address`},
		{good, `[sink.b]`, "[agent]\nhttp = \"[::1]:http\"\n[sink.b]", `agent.http: "[::1]:http": want an IP`},
		{good, `[role.switch]`, "[role.sender]\nenabled = true\nas = \"cnp\"\nsources = [\"a\"]\n" +
			"self = [\"2001:db8::5\"]\n[role.switch]", `line 6: role.sender.sink: missing: want the sink for CNPs`},
		{kernel, "\"qdisc\"\nlevels = [5]", `"packet"`,
			"line 8: role.switch.sources[0]: type packet: want qdisc, since the kernel only watches queues"},
		{kernel, `levels = [5]`, ``, `source.a.levels: missing`},
		{kernel, `levels = [5]`, "levels = [5]\nlevel = 3", `source.a.level: the depth of the queue is known`},
		{kernel, methods, ``, `role.switch.methods: missing`},
		{kernel, methods, methods + "\nport = 3", `role.switch.port: the kernel cannot do that`},
		{kernel, methods, methods + "\npause_us = 3", `role.switch.pause_us: the kernel cannot do that`},
		{kernel, methods, methods + "\nlevel = 3", `role.switch.level: the kernel cannot do that`},
		{learns, `"packet"` + "\ninterfaces = [\"eth0\"]", "\"qdisc\"\ninterfaces = [\"eth0\"]\nlevels = [5]",
			"line 7: role.ingress.observe: no source of packets that leave in tunnels: want one of type packet"},
		{kernel, `["2001:db8::5"]`, `["192.0.2.5"]`, `role.switch.self: Fast CNPs need an IPv6 address`},
		{kernel, `"fastcnp"`, `"ppfc"`,
			`role.switch.methods[0].method: the kernel knows fastcnp, mark and none`},
		{kernel, methods, `methods = [{ senders = "192.0.2.0/24", method = "fastcnp" }]`,
			`role.switch.methods[0].method: 192.0.2.0/24: there are no Fast CNPs over IPv4`},
		{strings.Replace(kernel, `["a"]`, "[\"a\"]\nobserve = [\"c\"]", 1), "[role.switch]",
			"[source.c]\ntype = \"nflog\"\ngroup = 1\n[role.switch]",
			"line 13: role.switch.observe[0]: type nflog: want icmpv6, since the kernel learns only which hosts"},
		{kernel, "[role.switch]", other,
			`role.switch[1].sources[0]: role.switch[0] has eth0 already: both would answer`},
		{translates, `"cnp"`, `"log"`, `role.sender.as: "log": want "cnp", since the kernel makes CNPs alone`},
		{translates, `["2001:db8::5"]`, `["192.0.2.5"]`, `role.sender.self: the kernel needs an IPv6 address`},
		{translates, `self`, "rate = { per_second = 1 }\nself", `role.sender.rate: the kernel cannot do that`},
		{translates, `self`, "per_source = \"1s\"\nself", `role.sender.per_source: the kernel cannot do that`},
		{translates, `self`, "allow_tunnel = true\nself", `role.sender.allow_tunnel: the kernel cannot do that`},
		{translates, `self`, "sink = \"b\"\nself", `role.sender.sink: the kernel passes CNPs on by itself: want no`},
		{translates, `["a"]`, `["a", "d"]`, `role.sender.sink: missing: want the sink for CNPs that the agent builds`},
		{translates, `["a"]`, `["d"]`, `role.sender.sources: none of type packet: want one where Fast CNPs arrive`},
		{translates, `["eth0"]`, `["any"]`, `role.sender.sources[0]: any: want names of interfaces, which the`},
		{translates, `["eth0"]`, "[\"eth0\"]\nfilter = \"rocev2\"", `source.a.filter: not supported by the kernel`},
		{translates, `["eth0"]`, "[\"eth0\"]\ndirection = \"out\"", `source.a.direction: not supported by the`},
		{translates, `["eth0"]`, "[\"eth0\"]\nsnap = 64", `source.a.snap: not supported by the kernel for`},
		{translates, `["eth0"]`, "[\"eth0\"]\nblocks = true", `source.a.blocks: not supported by the kernel for`},
		{kernel, `[5]`, "[5]\nlevel = 4", `line 4: source.a.level: the depth of the queue is known`},
		{kernel, `[5]`, "[5]\nper_flow = \"1s\"", `line 4: source.a.per_flow: not supported by the kernel for`},
		{kernel, `[5]`, "[5]\ntunnels = true", `line 4: source.a.tunnels: not supported by the kernel for`},
		{kernel, `["eth0"]`, `["eth0", "eth0"]`, `source.a.interfaces[1]: eth0 is named twice`},
	} {
		t.Run(c.in, func(t *testing.T) {
			require.Contains(t, c.in, c.old)
			_, err := parseFile([]byte(strings.Replace(c.in, c.old, c.new, 1)))
			require.ErrorContains(t, err, c.message)
		})
	}
}

// A port has one switch in the kernel, as two would answer twice.
func TestKernelPortTwice(t *testing.T) {
	const queue = "[source.%]\ntype = \"qdisc\"\ninterfaces = [\"eth1\", \"eth0\"]\nlevels = [9]\n"
	const role = "[[role.switch]]\nenabled = true\nmode = \"kernel\"\nsources = [%]\nself = [\"2001:db8::5\"]\n" +
		"methods = [{ senders = \"::/0\", method = \"mark\" }]\n"
	sources := strings.ReplaceAll(queue, "%", "a") + strings.ReplaceAll(queue, "%", "b")
	_, err := parseFile([]byte(sources + strings.ReplaceAll(role, "%", `"a", "b"`)))
	require.ErrorContains(t, err, "role.switch[0].sources[1]: role.switch has eth1 already")
	_, err = parseFile([]byte(sources + strings.ReplaceAll(role, "%", `"a"`) + strings.ReplaceAll(role, "%", `"b"`)))
	require.ErrorContains(t, err, "role.switch[1].sources[0]: role.switch[0] has eth1 already")
	_, err = parseFile([]byte(strings.Replace(sources, "eth1", "eth2", 1) +
		strings.ReplaceAll(role, "%", `"a"`) + strings.ReplaceAll(role, "%", `"b"`)))
	require.ErrorContains(t, err, "role.switch[1].sources[0]: role.switch[0] has eth0 already")
}

// instance returns the only role of a file.
func instance(t *testing.T, octets string) *roles.Instance {
	t.Helper()
	f := wiretest.Must(parseFile([]byte(octets)))(t)
	require.Len(t, f.roles, 1)
	return f.roles[0]
}

func TestCheck(t *testing.T) {
	check := func(config string, flags ...string) (status int, stdout, stderr string) {
		var out, errors bytes.Buffer
		args := append([]string{"-config", written(t, "agent.toml", config)}, flags...)
		status = Check(t.Context(), args, nil, &out, &errors)
		return status, out.String(), errors.String()
	}
	const config = `
[source.a]
type = "capture"
file = "FILE"
[role.pause]
enabled = true
sources = ["a"]
self = ["2001:db8::5"]
accept = ["::/0"]
`
	there := strings.Replace(config, "FILE", wiretest.Path(t, "messages.pcap"), 1)
	status, stdout, stderr := check(there, "-system")
	require.Equal(t, []any{0, "role.pause: from a\n", ""}, []any{status, stdout, stderr})
	status, _, stderr = check(config, "-system")
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "rocecn check: source.a: FILE: open FILE: no such file or directory\n")
	status, stdout, stderr = check(there + "[sink.b]\ntype = \"raw\"\n")
	require.Equal(t, []any{0, "role.pause: from a\nnot used: sink.b\n", ""}, []any{status, stdout, stderr})
	for _, c := range []struct{ name, at string }{{"", "all interfaces"},
		{`interfaces = ["wan0", "wan1"]`, "wan0, wan1"}} {
		t.Run(c.name, func(t *testing.T) {
			status, stdout, stderr = check("[role.border]\nenabled = true\ninstall = \"nft\"\n" + c.name)
			require.Equal(t, []any{0, "role.border: by nftables at " + c.at + "\nAmbientCapabilities=CAP_NET_ADMIN\n",
				""},
				[]any{status, stdout, stderr})
		})
	}
	status, _, stderr = check("[agent]\nhttp = \"203.0.113.9:9479\"\n"+there, "-system") // an address of another host
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "rocecn check: agent.http: listen tcp 203.0.113.9:9479: ")
	busy := wiretest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer busy.Close()
	status, _, stderr = check("[agent]\nhttp = \""+busy.Addr().String()+"\"\n"+there, "-system")
	require.Zero(t, status)
	require.Regexp(t, "^rocecn check: warning: agent.http: .*: right if it is by the agent, which runs\n$", stderr)
	status, _, stderr = check(there + "pe = []\n")
	require.Equal(t, 2, status)
	require.Contains(t, stderr, "line 10: role.pause.pe: unknown key")
	status = Check(t.Context(), nil, nil, new(bytes.Buffer), new(bytes.Buffer))
	require.Equal(t, 2, status)
	status = Run(t.Context(), []string{"-config", written(t, "a", config)}, nil, new(bytes.Buffer), new(bytes.Buffer))
	require.Equal(t, 1, status) // a missing capture is a permanent error
}

// check does not write to a capture.
func TestCheckCaptureSink(t *testing.T) {
	name := filepath.Join(t.TempDir(), "sent.pcap")
	check := func() (status int, stderr string) {
		var output bytes.Buffer
		config := written(t, "agent.toml", fmt.Sprintf(`
[source.in]
type = "capture"
file = %q
[sink.out]
type = "capture"
file = %q
[role.receiver]
enabled = true
sources = ["in"]
sink = "out"
%s`, wiretest.Path(t, "messages.pcap"), name, everyRole["receiver"]))
		status = Check(t.Context(), []string{"-config", config, "-system"}, nil, io.Discard, &output)
		return status, output.String()
	}
	status, stderr := check()
	require.Zero(t, status, stderr)
	require.NoFileExists(t, name)
	require.NoError(t, os.WriteFile(name, []byte("old"), 0o600))
	status, stderr = check()
	require.Zero(t, status, stderr)
	require.Equal(t, "old", string(octetsOf(t, name)))
	name = filepath.Join(name+".d", "sent.pcap")
	status, stderr = check()
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "rocecn check: sink.out: open "+name+": no such file or directory\n")
}

// A damaged capture is an error after the packets before the damage.
func TestDamagedCapture(t *testing.T) {
	octets := octetsOf(t, wiretest.Path(t, "messages.pcap"))
	file := written(t, "cut.pcap", string(octets[:len(octets)-5]))
	var stdout, stderr bytes.Buffer
	status := Run(t.Context(), []string{"-dry-run", "-config", written(t, "agent.toml", `
[source.a]
type = "capture"
file = "`+file+`"
[role.border]
enabled = true
sources = ["a"]
`)}, nil, &stdout, &stderr)
	require.Equal(t, 1, status)
	require.Contains(t, stderr.String(), "the file breaks off")
	require.Greater(t, strings.Count(stdout.String(), "\n"), 10)
}

// A dry run ends quietly when its reader closes the pipe, and with an error when it cannot write.
func TestDryRunIsNotRead(t *testing.T) {
	config := written(t, "agent.toml", `
[source.a]
type = "capture"
file = "`+wiretest.Path(t, "messages.pcap")+`"
[source.b]
type = "udp"
listen = ["127.0.0.1:11022"]
[role.border]
enabled = true
sources = ["a", "b"]
`)
	ctx, cancel := context.WithTimeout(t.Context(), wiretest.Patience)
	defer cancel()
	var stderr bytes.Buffer
	in, out := io.Pipe()
	in.Close()
	require.Zero(t, Run(ctx, []string{"-dry-run", "-config", config}, nil, out, &stderr), stderr.String())
	require.NoError(t, ctx.Err())
	require.NotContains(t, stderr.String(), "closed")
	in, out = io.Pipe()
	in.CloseWithError(syscall.ENOSPC)
	require.Equal(t, 1, Run(ctx, []string{"-dry-run", "-config", config}, nil, out, &stderr))
	require.NoError(t, ctx.Err())
	require.Contains(t, stderr.String(), `msg="the agent failed" error="no space left on device"`)
}

// No sink may overwrite another file of the configuration, by any name, whether it exists or not.
func TestSameFiles(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	require.NoError(t, os.Mkdir("sub", 0o700))
	require.NoError(t, os.Symlink("sub", "link"))
	require.NoError(t, os.WriteFile("there.pcap", nil, 0o600))
	require.NoError(t, os.Link("there.pcap", "hard.pcap"))
	require.NoError(t, os.Symlink("sub/not.pcap", "not.pcap"))
	require.NoError(t, os.Symlink("loop.pcap", "loop.pcap"))
	const two = "[sink.a]\ntype = \"capture\"\nfile = \"ONE\"\n[TWO.b]\ntype = \"capture\"\nfile = \"OTHER\"\n"
	for _, c := range []struct{ one, two, other, message string }{
		{"a.pcap", "source", "./a.pcap", "line 3: sink.a.file: the file is already used by source.b"},
		{"a.pcap", "sink", "a.pcap", "line 6: sink.b.file: the file is already used by sink.a"},
		{"a.pcap", "sink", folder + "/a.pcap", "line 6: sink.b.file: the file is already used by sink.a"},
		{"sub/a.pcap", "sink", "link/a.pcap", "line 6: sink.b.file: the file is already used by sink.a"},
		{"there.pcap", "sink", "hard.pcap", "line 6: sink.b.file: the file is already used by sink.a"},
		{"not.pcap", "sink", "sub/not.pcap", "line 6: sink.b.file: the file is already used by sink.a"},
		{"loop.pcap", "sink", "a.pcap", ""},
		{"a.pcap", "sink", "sub/../agent.toml", "line 6: sink.b.file: the file is already used by this configuration"},
		{"sub/a.pcap", "sink", "a.pcap", ""},
		{"sub/a.pcap", "source", "a.pcap", ""},
		{"there.pcap", "sink", "a.pcap", ""},
		{"/dev/null", "sink", "/dev/null", ""},
	} {
		config := strings.NewReplacer("ONE", c.one, "TWO", c.two, "OTHER", c.other).Replace(two)
		require.NoError(t, os.WriteFile("agent.toml", []byte(config), 0o600))
		_, err := readFile(t.Context(), filepath.Join(folder, "agent.toml"))
		if c.message == "" {
			require.NoError(t, err, config)
		} else {
			require.EqualError(t, err, c.message)
		}
	}
}

// The kernel's counters have one for each kind of message, also for a kind added later.
func TestEveryKindIsCountedInTheKernel(t *testing.T) {
	for kind := message.KindOther; kind.String() != fmt.Sprintf("Kind(%d)", uint8(kind)); kind++ {
		require.Less(t, int(kind), len(kernelCounts{}.sent), kind)
	}
}

// Each kind that a role may send has a metric: a new kind is in kinds or here.
func TestEveryKindSentHasAMetric(t *testing.T) {
	others := []message.Kind{message.KindOther, message.KindError, message.KindData, message.KindAck,
		message.KindUnknownOption,
		message.KindPFC, message.KindPause}
	for kind := message.KindOther; kind.String() != fmt.Sprintf("Kind(%d)", uint8(kind)); kind++ {
		require.NotEqual(t, slices.Contains(others, kind), slices.Contains(kinds, kind), kind)
	}
}

// The agent keeps the promises of docs/stability.md: metrics with their labels, and fields of /status.
func TestPromised(t *testing.T) {
	config := `
[source.in]
type = "psample"
group = 1
levels = [10, 20]
[source.also]
type = "psample"
group = 2
[sink.out]
type = "raw"
`
	for role, keys := range everyRole {
		if strings.Contains(role, " ") { // a second role of its kind
			continue
		}
		config += "[role." + role + "]\nenabled = true\nsources = [\"in\"]\n"
		if role == "switch" {
			config += "observe = [\"also\"]\n"
		}
		config += sinkOf(role) + keys
	}
	s := prepared(t, config)
	// Its counters after packets have arrived.
	s.parts[0].published.Store(&[]queue{{name: "swp1"}})
	for _, a := range s.actors {
		a.outcomes[node.NoAction].Add(1)
		if a.rates != nil {
			a.rateStats.Store(new(reaction.TableStats))
		}
	}
	facts := map[string]bool{}
	wiretest.Metrics(string(s.formatMetrics()), func(name, what string) {
		facts[fmt.Sprintf("metric %s %s", name, what)] = true
	})

	text := wiretest.Must(json.Marshal(s.buildStatus()))(t)
	var status any
	require.NoError(t, json.Unmarshal(text, &status))
	wiretest.Fields("", status, func(path, kind string) { facts[fmt.Sprintf("status %s %s", path, kind)] = true })
	wiretest.Promised(t, "agent.txt", facts)
}

// The uncommented keys of the reference file have the values of their defaults. Only keys that a source or sink
// requires are examples.
func TestReferenceHasDefaults(t *testing.T) {
	f := wiretest.Must(parseFile([]byte(reference)))(t)
	require.Empty(t, f.roles)

	ten := agentConfig{}
	decisions := ten.decisionLimit()
	ten.Log.Level, ten.Log.Format, ten.Log.Decisions = "info", "text", &decisions
	require.Equal(t, ten, f.agent)
	for name, s := range f.sources {
		least := []byte("type = \"" + s.Type + "\"\n")
		for _, key := range []string{"interfaces", "listen", "group", "file", "levels"} {
			if !slices.Contains(config.Keys(s.source), key) && (key != "levels" || s.Type != "qdisc") {
				continue
			}
			line := regexp.MustCompile(`(?s)\[source\.` + name + `\].*?\n(` + key + ` = [^\n]*)`)
			least = append(least, line.FindStringSubmatch(reference)[1]+"\n"...)
		}
		other, err := parseFile(append([]byte("[source.x]\n"), least...))
		require.NoError(t, err, "%s: %s", name, least)
		require.Equal(t, s.source, other.sources["x"].source)
		require.Nil(t, other.sources["x"].Level)
		require.Equal(t, s.levelThresholds(), other.sources["x"].levelThresholds())
		require.True(t, s.Required == nil || *s.Required)
	}
	for _, s := range f.sinks {
		require.Zero(t, s.PerSecond)
	}
	// Disabled roles: they are equal with and without the keys of the file.
	require.Equal(t, []string{"agent"}, regexp.MustCompile(`\nmode = "(.*?)"`).FindStringSubmatch(reference)[1:])
	require.Equal(t, []string{"report"}, regexp.MustCompile(`\nact = "(.*?)"`).FindStringSubmatch(reference)[1:])
}

// The reference file has all keys, except keys of roles that docs/roles explains, and is valid with its examples.
func TestReferenceHasAllKeys(t *testing.T) {
	has := func(key string) {
		t.Helper()
		require.Regexp(t, `(?m)^(# )?`+key+` = `, reference)
	}
	for _, key := range config.Keys(agentConfig{}) {
		if key != "log" {
			has(key)
		}
	}
	for _, key := range config.Keys(sourceCommon{}) {
		has(key)
	}
	for _, key := range config.Keys(sinkCommon{}) {
		has(key)
	}
	for _, key := range config.Keys(roles.Agent{}) {
		has(key)
	}
	for kind, s := range sources {
		require.Contains(t, reference, `type = "`+kind+`"`)
		for _, key := range config.Keys(s()) {
			has(key)
		}
	}
	for kind, s := range sinks {
		require.Contains(t, reference, `type = "`+kind+`"`)
		for _, key := range config.Keys(s()) {
			has(key)
		}
	}
	for _, name := range roles.Names() {
		require.Contains(t, reference, "\n[role."+name+"]\nenabled = false\n")
	}

	on := regexp.MustCompile(`(?m)^# ([a-z_]+ = )`).ReplaceAllString(reference, "$1")
	on = strings.ReplaceAll(on, "enabled = false", "enabled = true")
	on = strings.Replace(on, `install = "none"`, `install = "nft"`, 1)
	f := wiretest.Must(parseFile([]byte(on)))(t)
	require.Len(t, f.roles, 7)
	require.Empty(t, f.listWarnings())
	require.Contains(t, f.formatSummary(), "\nnot used: source.asic, source.rehearsal, source.rejections, sink.file\n")
	require.Contains(t, f.formatSummary(),
		"AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_NET_BIND_SERVICE CAP_NET_RAW CAP_PERFMON\n")

	var out, stderr bytes.Buffer
	require.Zero(t, Run(t.Context(), []string{"-reference"}, nil, &out, &stderr))
	require.Equal(t, reference, out.String())

	// As written, no role is on, and the file is valid.
	out.Reset()
	require.Zero(t, Check(t.Context(), []string{"-config", written(t, "agent.toml", reference)}, nil, &out, &stderr))
	require.Equal(t, []string{"no role is on\n", ""}, []string{out.String(), stderr.String()})
}

// The configurations on the pages of the roles are valid, without warnings.
func TestDocuments(t *testing.T) {
	docs := filepath.Join(filepath.Dir(wiretest.Path(t)), "docs")
	var blocks [][][]byte
	pages := wiretest.Must(filepath.Glob(filepath.Join(docs, "roles", "*.md")))(t)
	for _, page := range pages {
		blocks = append(blocks, regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllSubmatch(octetsOf(t, page), -1)...)
	}
	require.Len(t, blocks, 11)
	for _, b := range blocks {
		f, err := parseFile(b[1])
		require.NoError(t, err, "%s", b[1])
		require.Len(t, f.roles, 1)
		require.Empty(t, f.listWarnings(), "%s", b[1])
	}
	octets := octetsOf(t, filepath.Join(docs, "running.md"))
	for kind := range sources {
		require.Contains(t, string(octets), "\n| `"+kind+"` |")
	}
	for _, m := range regexp.MustCompile("`(rocecn_[a-z_]+)").FindAllSubmatch(octets, -1) {
		if name := string(m[1]); name != "rocecn_host" {
			border := prepared(t, "[role.border]\nenabled = true\ninstall = \"nft\"")
			require.Contains(t, string(border.formatMetrics()), name)
		}
	}
}

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
		{`line = 1_000_000_000`, `line = 0`, `role.sender.reaction.line: 0: want 1 to 2^50 bits a second`},
		{`line`, `min = 999, line`, `role.sender.reaction.min: 999: want at least 1000 bits a second`},
		{`line`, `min = 2_000_000_000, line`, `role.sender.reaction.min: 2000000000: want 1 to the line rate`},
		{`line`, `max_flows = 65_537, line`, `role.sender.reaction.max_flows: 65537: want 0 to 65536`},
		{`line`, `kind = "swift", line`, `role.sender.reaction.kind: "swift" is neither paper nor`},
		{`line`, `max_pause = "1s", line`, `role.sender.reaction.max_pause: 1s: want 0 to 65.535ms`},
		{`"1ms"`, `"2h"`, `role.sender.reaction.rtt: 2h0m0s: want more than 0, at most 1h`},
		{`line`, `bandwidth = 2_000_000_000_000_000, line`,
			`role.sender.reaction.bandwidth: 2000000000000000: want at most`},
		{`line`, `additive = 2_000_000_000_000_000, line`,
			`role.sender.reaction.additive: 2000000000000000: want 1 to 2^50`},
		{`line`, `hyper = 2_000_000_000_000_000, line`, `role.sender.reaction.hyper: 2000000000000000: want at most`},
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
