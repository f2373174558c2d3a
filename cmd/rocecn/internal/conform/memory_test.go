package conform

import (
	"bytes"
	"strings"
	"testing"
)

// A subject is a device in memory with its profile, and the cases that do not apply to it, with the reason.
type subject struct {
	name    string
	profile string
	config  string
	model   func(t testing.TB, config string) model
	inapt   map[string]string
}

const hostPort = `
[[port]]
interface = "t0"
side = "receiver"
address = "2001:db8:c::9"
`

// congested is the table of a profile of a device that the tester congests.
const congested = "[congestion]\nby = \"overload\"\nrate = \"20M\"\nfor = \"700ms\"\n"

const quickTimes = "[time]\ncase = \"10s\"\nsettle = \"250ms\"\n"

var subjects = []subject{
	{"switch", strings.NewReplacer(`"icmpv6-learning"]`, `"icmpv6-learning", "mark", "ioam"]`, "pe = ",
		"capable = [\"2001:db8:a:9::/64\"]\npe = ").Replace(switchProfile), `enabled = true
self = ["2001:db8:ffff::5", "10.0.1.1"]
methods = [
	{ senders = "2001:db8:a:1::/64", method = "fastcnp" }, { senders = "2001:db8:a:2::/64", method = "ppfc" },
	{ senders = "2001:db8:a:3::/64", method = "proxy" }, { senders = "2001:db8:a:4::/64", method = "fcn" },
	{ senders = "2001:db8:a:9::/64", method = "fastcnp" }, { senders = "10.10.0.0/18", method = "ppfc" },
	{ senders = "10.10.64.0/18", method = "proxy" }, { senders = "10.10.128.0/18", method = "mark" },
	{ senders = "10.10.192.0/18", method = "fcn" },
]
capable = [{ senders = "2001:db8:a:9::/64", capable = "yes" }]
proxies = [{ senders = "::/0", proxy = "2001:db8:3::9" }, { senders = "0.0.0.0/0", proxy = "2001:db8:3::9" }]
pe = ["2001:db8:a:5::/64"]
ppfc = { alarm = 1, hold = 2, stop = 3 }
per_flow = "20ms"
probe = "1h"
own_record = { node_id = 77, hop_limit = 60, queue_depth = 1234 }
`, func(t testing.TB, config string) model {
		return newRouter(t, "switch", config, "2001:db8:ffff::5", "2001:db8:1::1")
	}, map[string]string{"F42.1": "", "W33.1": "does not use this option"}},
	{"receiver", `
[device]
name = "model"
role = "receiver"
addresses = ["2001:db8:d::1", "10.13.0.1"]
[device.limits]
per_flow = "5ms"
[hosts]
sender = ["2001:db8:a:1::/64", "10.10.0.0/16"]
` + quickTimes + hostPort, `enabled = true
self = ["2001:db8:d::1", "10.13.0.1"]
learn = true
interval = "5ms"
`, func(t testing.TB, config string) model { return newHostModel(t, "receiver", config) },
		map[string]string{"F21.1": "sends no Fast CNPs", "F42.1": ""}},
	{"proxy", `
[device]
name = "model"
role = "proxy"
addresses = ["2001:db8:ffff::5", "2001:db8:1::1", "2001:db8:2::1", "2001:db8:3::1"]
supports = ["proxy", "ipv4", "ipv6"]
[device.limits]
per_flow = "20ms"
total = 200
[hosts]
sender = ["2001:db8:a:1::/64", "10.10.0.0/16"]
receiver = ["2001:db8:f::/64", "10.15.0.0/16"]
` + quickTimes + benchPorts, `enabled = true
self = ["2001:db8:ffff::5", "10.0.1.1"]
accept = ["2001:db8:3::9/128"]
senders = [{ prefix = "::/0", send = "cnp" }, { prefix = "0.0.0.0/0", send = "cnp" }]
per_flow = "20ms"
rate_out = { per_second = 200, burst = 10 }
`, func(t testing.TB, config string) model {
		return newRouter(t, "proxy", config, "2001:db8:ffff::5", "2001:db8:1::1")
	}, map[string]string{"P43.1": ""}},
	{"ingress", `
[device]
name = "model"
role = "ingress"
addresses = ["2001:db8:ffff::5", "2001:db8:1::1", "10.0.1.1", "2001:db8:2::1", "2001:db8:3::1"]
supports = ["fcn", "ipv4", "ipv6"]
[device.limits]
per_flow = "20ms"
idle = "3s"
` + congested + `[hosts]
sender = ["2001:db8:a:1::/64", "10.10.0.0/16"]
receiver = ["2001:db8:f::/64", "10.15.0.0/16"]
` + quickTimes + benchPorts, `enabled = true
tunnel = { type = "ipip", src = "2001:db8:ffff::5", dst = "2001:db8:e::2" }
cnp = ["2001:db8:1::1", "10.0.1.1"]
accept = ["2001:db8:3::9/128"]
per_flow = "20ms"
idle = "3s"
seed = 7
`, func(t testing.TB, config string) model { return newRouter(t, "ingress", config, "2001:db8:ffff::5") },
		map[string]string{"W40.1": ""}},
	{"border", `
[device]
name = "model"
role = "border"
addresses = ["2001:db8:ffff::5"]
[hosts]
sender = ["2001:db8:a:1::/64", "10.10.0.0/16"]
receiver = ["2001:db8:f::/64", "10.15.0.0/16"]
` + quickTimes + benchPorts, "enabled = true\n", func(t testing.TB, config string) model {
		return newRouter(t, "border", config, "2001:db8:ffff::5")
	}, map[string]string{"F42.1": ""}},
	{"sender", `
[device]
name = "model"
role = "sender"
addresses = ["2001:db8:d::1", "10.13.0.1"]
supports = ["option1", "option2", "ipv4", "ipv6", "ppfc-stop", "ppfc-resume", "ppfc-alarm", "ppfc-hold"]
[hosts]
receiver = ["2001:db8:f::/64", "10.15.0.0/16"]
[[pair]]
src = "2001:db8:d::1"
dst = "2001:db8:f::10"
dest_qp = 17
src_qp = 34
[[pair]]
src = "10.13.0.1"
dst = "10.15.0.16"
dest_qp = 19
src_qp = 36
` + quickTimes + hostPort, senderConfig, newSenderModel, map[string]string{"F22.1": "does not use this option",
		"F42.1": "", "X15.2": ""}},
	{"pause", `
[device]
name = "model"
role = "pause"
addresses = ["2001:db8:d::1"]
[hosts]
receiver = ["2001:db8:f::/64"]
` + quickTimes + hostPort, senderConfig, newSenderModel, map[string]string{"X08.1": "", "X08.2": "", "X15.2": ""}},
}

const senderConfig = `enabled = true
self = ["2001:db8:d::1", "10.13.0.1"]
accept = ["2001:db8:c::9/128"]
qps = [{ dst = "2001:db8:f::10", dest_qp = 17, qp = 34 }, { dst = "2001:db8:f::11", dest_qp = 18, qp = 35 },
	{ dst = "10.15.0.16", dest_qp = 19, qp = 36 }]
reaction = { line = 4_000_000, min = 100_000, timer = "100ms", alpha_timer = "200ms", additive = 200_000,
	hyper = 400_000 }
`

func newSenderModel(t testing.TB, config string) model {
	f := flow{src: hostOfText("2001:db8:d::1"), dst: hostOfText("2001:db8:f::10"), class: ect0, opcode: 0x04,
		destQP:  17,
		payload: bytes.Repeat([]byte{0x5A}, 256)}
	g := f
	g.dst, g.destQP, g.srcPort = hostOfText("2001:db8:f::11"), 18, 49153
	h := f
	h.src, h.dst, h.destQP, h.srcPort = hostOfText("10.13.0.1"), hostOfText("10.15.0.16"), 19, 49154
	return newHostModel(t, "sender", config, f, g, h)
}

// Every case passes with a device in memory, or does not apply for the reason given.
func TestInMemory(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			results := map[string]result{}
			var sent stimuli
			var lines strings.Builder
			f := &fault{in: func(_ *memoryRig, port int, frame []byte) []byte {
				sent.add(port, frame)
				return frame
			}}
			runInMemory(t, s.profile, s.model(t, s.config), f, nil, func(r result) {
				results[r.Case] = r
				lines.WriteString(formatResult(&r) + sent.takeAll())
			})
			notPassed(t, results, s.inapt)
			requireResults(t, s.name, lines.String())
		})
	}
}

// benchPorts are the tables of the profile that describe the bench.
const benchPorts = `
[[port]]
interface = "t0"
side = "sender"
address = "2001:db8:1::a"
[[port]]
interface = "t1"
side = "receiver"
address = "2001:db8:2::b"
[[port]]
interface = "t2"
side = "control"
address = "2001:db8:3::9"
`

const switchProfile = `
[device]
name = "rocecn run"
role = "switch"
addresses = ["2001:db8:ffff::5", "2001:db8:1::1", "2001:db8:2::1", "2001:db8:3::1"]
supports = ["option1", "option2", "fcn", "proxy", "ipv4", "ipv6", "ppfc-stop", "ppfc-resume", "ppfc-alarm",
	"ppfc-hold", "levels", "icmpv6-learning"]
[device.limits]
per_flow = "20ms"
total = 20_000
[hosts]
sender = ["2001:db8:a:1::/64", "2001:db8:a:2::/64", "2001:db8:a:3::/64", "2001:db8:a:4::/64", "10.10.0.0/18",
	"10.10.64.0/18", "10.10.128.0/18", "10.10.192.0/18"]
receiver = ["2001:db8:f::/64", "10.15.0.0/16"]
pe = ["2001:db8:a:5::1"]
` + congested + `[time]
case = "10s"
settle = "250ms"
` + benchPorts

// notPassed fails the test for each result that neither passes nor is in allowed, with the reason for which it does not
// apply.
func notPassed(t *testing.T, results map[string]result, allowed map[string]string) {
	t.Helper()
	for id, r := range results {
		reason, ok := allowed[id]
		switch {
		case ok && (r.Verdict != notApplicable || !strings.Contains(r.Seen, reason)):
			t.Errorf("%s: %s, %s: want not_applicable, %s", id, r.Verdict, r.Seen, reason)
		case !ok && r.Verdict != pass:
			t.Errorf("%s: %s: expected %s, seen %s", id, r.Verdict, r.Expected, r.Seen)
		}
	}
}

// subjectProfile returns the profile of a device in memory for a bench, where the device has other addresses.
func subjectProfile(name string, replace ...string) string {
	for _, s := range subjects {
		if s.name == name {
			return strings.NewReplacer(replace...).Replace(s.profile)
		}
	}
	return ""
}
