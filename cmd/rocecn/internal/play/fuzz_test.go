package play

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/stretchr/testify/require"
)

// fullConfigs are configurations of all roles with nearly every key.
var fullConfigs = map[string]string{
	"switch": `{"enabled": true, "self": ["2001:db8:ffff::5", "192.0.2.9"], "methods": [{"senders": "::/0",
		"method": "fastcnp"}, {"senders": "0.0.0.0/0", "method": "fastcnp"}], "rate": {"per_second": 1e3, "burst": 2},
		"own_record": {"node_id": 5}}`,
	"receiver": `{"enabled": true, "self": ["2001:db8:4::e", "198.51.100.2"], "qps": [{"src": "2001:db8:1::a",
		"dst": "2001:db8:4::e", "dest_qp": 17, "src_qp": 34}, {"src": "198.51.100.1", "dst": "198.51.100.2",
		"dest_qp": 17, "src_qp": 35}], "interval": "50us", "learn": true}`,
	"sender": `{"enabled": true, "self": ["2001:db8:1::a", "198.51.100.1"], "accept": ["2001:db8:ffff::/48"],
		"qps": [{"dst": "2001:db8:4::e", "dest_qp": 17, "qp": 34}, {"dst": "198.51.100.2", "dest_qp": 17, "qp": 35}],
		"window": "1ms", "option_types": ["0x83", 132], "learn": true,
		"reaction": {"line": 100000000000, "rtt": "10us", "max_flows": 2, "idle": "1ms"}}`,
	"proxy": `{"enabled": true, "self": ["2001:db8:1::fe", "198.51.100.254"], "accept": ["2001:db8:ffff::/48",
		"192.0.2.0/24"], "senders": [{"prefix": "::/0", "send": "cnp"}, {"prefix": "0.0.0.0/0", "send": "cnp"}],
		"rate_in": {"per_second": 5}, "rate_in_source": {"per_second": 4, "burst": 2}, "per_flow": "1s"}`,
	"ingress": ingressThrough(`"type": "ipip"`,
		`, "idle": "3s", "max_flows": 9, "rate_in_source": {"per_second": 9, "burst": 2}`),
	"border": `{"enabled": true, "options": [158, "0x9f"], "cnp": true}`,
	"pause": `{"enabled": true, "self": ["2001:db8:1::a", "198.51.100.1"], "accept": ["2001:db8:ffff::/48",
		"192.0.2.9/32"], "qps": [{"dst": "2001:db8:4::e", "dest_qp": 17, "qp": 33}, {"dst": "198.51.100.2",
		"dest_qp": 17, "qp": 34}], "max_pause": "50us", "rate_in": {"per_second": 2, "burst": 3}, "fcn_port": 5}`,
}

// knownError requires that an error names a key that the role has, or has not, and
// says something about it.
func knownError(t *testing.T, name string, err error) {
	t.Helper()
	var wrong *config.Error
	if !errors.As(err, &wrong) {
		t.Fatalf("no key in %q", err)
	}
	require.NotEmpty(t, wrong.Text)
	first, _, _ := strings.Cut(strings.ReplaceAll(wrong.Key, "[", "."), ".")
	if strings.HasPrefix(wrong.Text, "unknown key") || strings.HasPrefix(wrong.Text, "a key of over") ||
		wrong.Text == "is given twice" || wrong.Key == "" {
		return // any name at all, or the configuration as a whole
	}
	known := append(config.Keys(roles.All[name]()), config.Keys(roles.Agent{})...)
	require.Contains(t, known, first, "%v", err)
}

// Reading a configuration returns a configuration or an error that names a key. The result does not depend on the
// order of the keys and the blanks between them. Applying the configuration returns a role or an error that names a
// key. A configuration that is not enabled returns a role that is off.
func FuzzConfig(f *testing.F) {
	for _, name := range slices.Sorted(maps.Keys(fullConfigs)) {
		octets := fullConfigs[name]
		f.Add(name, []byte(octets))
		f.Add(name, []byte(strings.Replace(octets, "true", "false", 1)))
	}
	frame := packet(f)
	f.Fuzz(func(t *testing.T, name string, octets []byte) {
		if roles.All[name] == nil || name == "echo" {
			return
		}
		if first := bytes.TrimLeft(octets, " \t\r\n"); len(first) == 0 || first[0] != '{' {
			return // TOML
		}
		i, err := roles.Read(octets, name)
		if err != nil {
			knownError(t, name, err)
			return
		}
		d := json.NewDecoder(bytes.NewReader(octets))
		d.UseNumber()
		var value map[string]any
		require.NoError(t, d.Decode(&value))
		sorted, err := json.MarshalIndent(value, "", "\t") // by their names
		require.NoError(t, err)
		again := wiretest.Must(roles.Read(sorted, name))(t)
		require.Equal(t, i.Config, again.Config)

		r, err := i.Apply(nil)
		if err != nil {
			knownError(t, name, err)
			return
		}
		if value["enabled"] != true {
			lines, out := played(t, name, r, &capture.Record{Link: capture.Raw, Data: frame,
				OrigLen: uint32(len(frame)),
				Time:    noon, Unit: time.Microsecond})
			for _, l := range lines {
				require.Equal(t, []any{"refused", "disabled"}, []any{l["action"], l["reason"]})
			}
			require.True(t, len(out) == 0 || name == "border" && bytes.Equal(out[0].Data, frame))
		}
	})
}

// played shows a frame to a role, and returns the lines and the packets of OUT.
func played(t *testing.T, name string, r node.Role, record *capture.Record) (
	lines []map[string]any, out []capture.Record,
) {
	t.Helper()
	var printed, packets bytes.Buffer
	p := player{name: name, cause: record, lines: bufio.NewWriter(&printed), out: bufio.NewWriter(&packets)}
	p.setRole(r)
	p.summary.frames++
	p.Receive(record, node.Event{Level: roles.UnknownLevel})
	require.NoError(t, p.closeOutput())
	for l := range bytes.Lines(printed.Bytes()) {
		var m map[string]any
		require.NoError(t, json.Unmarshal(l, &m))
		lines = append(lines, m)
	}
	p.summary.printTo(io.Discard)
	return lines, records(t, packets.Bytes())
}

// Each of the seven roles, on and off, gets any frame. It prints one valid line or none, and sends only packets that
// the line names.
func FuzzFrame(f *testing.F) {
	for _, name := range []string{"ioam-linux618-two.pcap", "messages.pcap", "rxe-vlan4.pcap"} {
		for _, c := range wiretest.Capture(f, name)[:1] {
			f.Add(c.Data, uint8(0))
		}
	}
	for _, c := range wiretest.Capture(f, "messages.pcap") {
		f.Add(c.Data, uint8(0))
	}
	for _, name := range slices.Sorted(maps.Keys(fullConfigs)) {
		for _, c := range readGolden(f, name).cases {
			for _, r := range c.frames {
				if r.Link == capture.Raw && len(r.Data) < 1000 {
					f.Add(r.Data, uint8(1))
					f.Add(r.Data[:len(r.Data)*2/3], uint8(1|cutShort))
				}
			}
		}
	}
	type actor struct {
		name string
		on   bool
		role node.Role
	}
	var actors []actor
	require.Len(f, fullConfigs, 7)
	for name := range maps.Keys(roles.All) {
		require.True(f, name == "echo" || fullConfigs[name] != "", "%s is not played", name)
	}
	for _, name := range slices.Sorted(maps.Keys(fullConfigs)) {
		octets := fullConfigs[name]
		for _, on := range []bool{true, false} {
			if !on {
				octets = strings.Replace(octets, `"enabled": true`, `"enabled": false`, 1)
			}
			i := wiretest.Must(roles.Read([]byte(octets), name))(f)
			r := wiretest.Must(i.Apply(nil))(f)
			actors = append(actors, actor{name, on, r})
		}
	}
	links := [...]uint32{capture.Ethernet, capture.Raw, 113, 276, 0, 108}
	f.Fuzz(func(t *testing.T, octets []byte, how uint8) {
		if len(octets) > 1<<16 {
			return
		}
		record := capture.Record{Link: links[how&^cutShort%6], Data: octets, OrigLen: uint32(len(octets)), Time: noon,
			Unit: time.Microsecond}
		if how&cutShort != 0 {
			record.OrigLen = min(2*record.OrigLen, math.MaxUint16) + 1
		}
		before := bytes.Clone(octets)
		for _, a := range actors {
			lines, out := played(t, a.name, a.role, &record)
			require.Equal(t, before, octets, "%s writes into a frame", a.name)
			require.LessOrEqual(t, len(lines), 1, a.name)
			require.LessOrEqual(t, len(out), 1, a.name)
			action, reason := any(""), any("")
			if len(lines) == 1 {
				require.Equal(t, a.name, lines[0]["role"])
				action, reason = lines[0]["action"], lines[0]["reason"]
				require.Contains(t, []string{"sent", "marked", "forwarded", "learned", "accepted", "dropped", "passed",
					"refused"}, action)
				require.True(t, action != "refused" || reason != "", "%v", lines[0])
			}
			if !a.on {
				require.Contains(t, []any{"", "refused"}, action)
				require.Equal(t, action == "refused", reason == "disabled", "%s: %v", a.name, lines)
				require.True(t, len(out) == 0 || a.name == "border")
				continue
			}
			require.NotEqual(t, "disabled", reason)
			switch a.name {
			case "switch", "receiver", "proxy":
				require.Equal(t, action == "sent", len(out) == 1, "%s: %v", a.name, lines)
			case "sender", "pause":
				require.Empty(t, out, a.name)
			case "ingress":
				switch action {
				case "sent":
					require.Len(t, out, 1)
				case "refused", "learned":
					require.Empty(t, out)
				}
			case "border":
				if action == "dropped" {
					require.Empty(t, out)
				}
			}
		}
	})
}

// cutShort is the bit of FuzzFrame's how that says that the capture has cut the
// frame.
const cutShort = 0x80
