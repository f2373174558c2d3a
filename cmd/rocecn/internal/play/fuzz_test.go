package play

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/stretchr/testify/require"
)

// everyRole are configurations of all roles, as full as can be.
func everyRole() map[string]string {
	return map[string]string{
		"switch": switchWith(fastCNPForAll +
			`, "rate": {"per_second": 1e3, "burst": 2}, "own_record": {"node_id": 5}`),
		"receiver": receiverWith(receiverPairs + `, "interval": "50us", "learn": true`),
		"sender": senderWith(acceptSwitch + senderPairs +
			`, "window": "1ms", "option_types": ["0x83", 132], "learn": true`),
		"proxy": proxyWith(cnpForAll +
			`, "rate_in": {"per_second": 5}, "rate_in_source": {"per_second": 4, "burst": 2}, "per_flow": "1s"`),
		"ingress": ingressWith(`, "idle": "3s", "max_flows": 9, "rate_in_source": {"per_second": 9, "burst": 2}`),
		"border":  `{"enabled": true, "options": [158, "0x9f"], "cnp": true}`,
		"pause":   pauseWith(`, "max_pause": "50us", "rate_in": {"per_second": 2, "burst": 3}, "fcn_port": 5`),
	}
}

// knownError requires that an error names a key that the role has, or has not, and
// says something about it.
func knownError(t *testing.T, c config, err error) {
	t.Helper()
	var wrong *keyError
	if !errors.As(err, &wrong) {
		t.Fatalf("no key in %q", err)
	}
	require.NotEmpty(t, wrong.why)
	first, _, _ := strings.Cut(strings.ReplaceAll(wrong.key, "[", "."), ".")
	if strings.HasPrefix(wrong.why, "unknown key") || wrong.why == "is given twice" || wrong.key == "" {
		return // any name at all, or the configuration as a whole
	}
	require.Contains(t, keysOf(c), first, "%v", err)
}

// rewritten returns JSON for a value with the members of its objects in the other
// order.
func rewritten(value any) string {
	switch v := value.(type) {
	case object:
		var members []string
		for _, m := range slices.Backward(v) {
			members = append(members, rewritten(m.key)+" : "+rewritten(m.value))
		}
		return "{\n" + strings.Join(members, ",") + "}"
	case []any:
		var all []string
		for _, e := range v {
			all = append(all, rewritten(e))
		}
		return "[" + strings.Join(all, ",\t") + "]"
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // numbers, text, true, false, null
	}
	return string(text)
}

// Whatever a configuration says: an error that names a key, or a configuration. It
// is the same one whatever the order of its keys and the blanks between them, and
// a role comes of it or an error that names a key. What is not enabled is off.
func FuzzConfig(f *testing.F) {
	for name, octets := range everyRole() {
		f.Add(name, []byte(octets))
		f.Add(name, []byte(strings.Replace(octets, "true", "false", 1)))
	}
	frame := packet(f)
	f.Fuzz(func(t *testing.T, name string, octets []byte) {
		if roles[name] == nil || name == "echo" {
			return
		}
		c := roles[name]()
		if err := decode(octets, c); err != nil {
			knownError(t, c, err)
			return
		}
		d := json.NewDecoder(bytes.NewReader(octets))
		d.UseNumber()
		value, err := readValue(d, "")
		require.NoError(t, err)
		again := roles[name]()
		require.NoError(t, decode([]byte(rewritten(value)), again))
		require.Equal(t, c, again)

		r, err := c.role()
		if err != nil {
			knownError(t, c, err)
			return
		}
		if !enabled(value) {
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

// keysOf returns the keys of a configuration.
func keysOf(c config) []string { return keys(reflect.TypeOf(c).Elem()) }

// enabled says whether a configuration has "enabled": true.
func enabled(value any) bool {
	for _, m := range value.(object) {
		if m.key == "enabled" {
			return m.value == true
		}
	}
	return false
}

// played shows a frame to a role, and returns the lines and the packets of OUT.
func played(t *testing.T, name string, r role, record *capture.Record) (lines []map[string]any, out []capture.Record) {
	t.Helper()
	var printed, packets bytes.Buffer
	p := player{name: name, role: r, lines: bufio.NewWriter(&printed), out: bufio.NewWriter(&packets)}
	p.summary.frames++
	p.show(record)
	require.NoError(t, p.end())
	for l := range bytes.Lines(printed.Bytes()) {
		var m map[string]any
		require.NoError(t, json.Unmarshal(l, &m))
		lines = append(lines, m)
	}
	p.summary.print(io.Discard)
	return lines, records(t, packets.Bytes())
}

// Whatever a frame is: each of the seven roles, on and off, says something that
// can be printed, or nothing, and sends no more than it says.
func FuzzFrame(f *testing.F) {
	for _, name := range []string{"ioam-linux618-two.pcap", "messages.pcap", "rxe-vlan4.pcap"} {
		for _, c := range wiretest.Capture(f, name)[:1] {
			f.Add(c.Data, uint8(0))
		}
	}
	for _, c := range wiretest.Capture(f, "messages.pcap") {
		f.Add(c.Data, uint8(0))
	}
	for _, ip := range [][]byte{
		packet(f), packet(f, opcode(bth.RCAcknowledge)), fastCNPFrom(f, switchAddr, packet(f)), aPPFC(f, switchAddr,
			receiverAddr, ppfc.Stop, 100),
		proxyMessage(f, packet(f), switchAddr, proxyAddr), anFCN(f, 7, coreAddr, peAddr), back(f, udOf(f, 34)),
		udOf(f, 34),
	} {
		f.Add(ip, uint8(1))
		f.Add(ip[:len(ip)*2/3], uint8(1|cutShort))
	}
	type actor struct {
		name string
		on   bool
		role role
	}
	var actors []actor
	all := everyRole()
	require.Len(f, all, 7)
	for name := range maps.Keys(roles) {
		require.True(f, name == "echo" || all[name] != "", "%s is not played", name)
	}
	for name, octets := range all {
		for _, on := range []bool{true, false} {
			if !on {
				octets = strings.Replace(octets, `"enabled": true`, `"enabled": false`, 1)
			}
			c := roles[name]()
			require.NoError(f, decode([]byte(octets), c))
			r, err := c.role()
			require.NoError(f, err)
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
