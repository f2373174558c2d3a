package conform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// Each reference is a valid profile, also with every line that is commented out but those of another choice, and the
// references together have every key.
func TestReference(t *testing.T) {
	for _, role := range roleNames {
		t.Run(role, func(t *testing.T) {
			text := reference(role)
			p := wiretest.Must(readProfile([]byte(text), ""))(t)
			require.Equal(t, role, p.Device.Role)
			full := regexp.MustCompile(`(?m)^# (\[.*|[a-z_]+ = .*)$`).ReplaceAllString(text, "$1")
			full = regexp.MustCompile(`(?m)^(start|stop) = .*\n`).ReplaceAllString(full, "")
			wiretest.Must(readProfile([]byte(full), ""))(t)
		})
	}
	text := reference("")
	for _, table := range []any{device{}, limits{}, codePoints{}, port{}, hosts{}, congestion{}, times{}, pair{}} {
		for _, key := range config.Keys(table) {
			if key != "limits" {
				require.Regexp(t, `(?m)^(# )?`+key+` = `, text)
			}
		}
	}
}

// An error of a profile names the key, the value and the wanted values.
func TestProfileErrors(t *testing.T) {
	for _, c := range []struct{ name, text, instead, want string }{
		{"role", `role = "switch"`, `role = "hub"`, `device.role: "hub": want border, ingress, pause, proxy`},
		{"no role", `role = "switch"`, ``, "device.role: missing: want border"},
		{"unknown key", `name = `, `nmae = `, "device.nmae: unknown key; known are name, role"},
		{"unknown table", "[hosts]", "[host]", "host: unknown key; known are device"},
		{"addresses", `addresses = ["2001:db8:ffff::5", "2001:db8:1::1", "2001:db8:2::1", "2001:db8:3::1"]`, "",
			"device.addresses: missing"},
		{"multicast", `"2001:db8:ffff::5"`, `"ff02::1"`, "device.addresses[0]: ff02::1: want a unicast address"},
		{"text for an address", `"2001:db8:ffff::5"`, `"five"`, `device.addresses[0]: "five": want an address`},
		{"supports", `"option1", "option2", "fcn"`, `"option3"`,
			`device.supports[0]: "option3": want option1, option2`},
		{"per_flow", `per_flow = "20ms"`, `per_flow = 20`, "device.limits.per_flow: want a duration as text"},
		{"total", "total = 20_000", "total = 0", `device.limits.total: "0": want more than 0`},
		{"side", `side = "control"`, `side = "left"`, `port[2].side: "left": want sender, receiver or control`},
		{"no side", `side = "receiver"`, `side = "control"`, `port: no port with side "receiver"`},
		{"interface twice", `interface = "t1"`, `interface = "t0"`, "port[1].interface: t0 is named twice"},
		{"vlan", `side = "control"`, "side = \"control\"\nvlan = 4095", "port[2].vlan: 4095: want 1 to 4094"},
		{"mac", `side = "control"`, "side = \"control\"\nmac = \"01:00:5e:00:00:01\"", "port[2].mac: "},
		{"hosts", `receiver = ["2001:db8:f::/64", "10.15.0.0/16"]`, "", "hosts.receiver: missing"},
		{"narrow", `"10.15.0.0/16"`, `"10.15.0.0/30"`, "hosts.receiver[1]: 10.15.0.0/30: want a single address, or"},
		{"by", `by = "overload"`, `by = "hope"`, `congestion.by: "hope": want overload, command or none`},
		{"rate", `rate = "20M"`, `rate = "fast"`, `congestion.rate: "fast": want 1 to 10^12 bits a second`},
		{"no rate", `rate = "20M"`, ``, "congestion.rate: missing"},
		{"for", `for = "700ms"`, `for = "11s"`, "congestion.for: 11s: want more than 0s, at most 10s"},
		{"command", `by = "overload"`, `by = "command"`, "congestion.start: missing"},
		{"start", `by = "overload"`, "by = \"overload\"\nstart = [\"x\"]", `congestion.by: "overload": want "command"`},
		{"settle", `settle = "250ms"`, `settle = "6s"`, "time.settle: 6s: want 10ms to half of time.case"},
		{"case", `case = "10s"`, `case = "1h"`, "time.case: 1h0m0s: want 100ms to 10m0s"},
		{"option type", "[time]", "[code_points]\noption_types = [30]\n[time]",
			"code_points.option_types[0]: 30: want a type with act 10 and chg 0"},
		{"port", "[time]", "[code_points]\nfcn_port = 4791\n[time]",
			"code_points.fcn_port: 4791: want a port that no other message has"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Contains(t, switchProfile, c.text)
			_, err := readProfile([]byte(strings.Replace(switchProfile, c.text, c.instead, 1)), "")
			require.ErrorContains(t, err, c.want)
			if !strings.Contains(c.want, "missing") {
				require.ErrorContains(t, err, "line ")
			}
		})
	}
}

// The limits of a value are valid, and the next value is not.
func TestProfileLimits(t *testing.T) {
	const times, port, role = "case = \"10s\"\nsettle = \"250ms\"\n", `interface = "t1"`, `role = "switch"`
	const points, on, off = "[code_points]\n", "\nenable = [\"on\"]", "\ndisable = [\"off\"]"
	pair := func(destQP, srcQP int, dst string) string {
		const keys = "[[pair]]\nsrc = \"2001:db8::1\"\ndst = %q\ndest_qp = %d\nsrc_qp = %d"
		return fmt.Sprintf(keys, dst, destQP, srcQP)
	}
	for _, c := range []struct {
		name, key      string
		text           string // that is replaced; "": a table is added
		valid, invalid string
	}{
		{"VLANs of one interface", "port[1].interface", port, "interface = \"t0\"\nvlan = 8", `interface = "t0"`},
		{"highest VLAN", "port[1].vlan", port, port + "\nvlan = 4094", port + "\nvlan = 4095"},
		{"lowest rate", "congestion.rate", `rate = "20M"`, `rate = "1"`, `rate = "0.9"`},
		{"highest rate", "congestion.rate", `rate = "20M"`, `rate = "1000G"`, `rate = "1000.1G"`},
		{"longest congestion", "congestion.for", `for = "700ms"`, `for = "10s"`, `for = "10.001s"`},
		{"lowest total", "device.limits.total", "total = 20_000", "total = 0.1", "total = 0"},
		{"highest total", "device.limits.total", "total = 20_000", `total = "1G"`, `total = "1.1G"`},
		{"shortest case", "time.case", times, "case = \"100ms\"\nsettle = \"50ms\"\n",
			"case = \"99ms\"\nsettle = \"49ms\"\n"},
		{"longest case", "time.case", times, "case = \"10m\"\n", "case = \"10m1ms\"\n"},
		{"shortest settle", "time.settle", times, "settle = \"10ms\"\n", "settle = \"9ms\"\n"},
		{"longest settle", "time.settle", times, "settle = \"5s\"\n", "settle = \"5001ms\"\n"},
		{"smallest prefix", "hosts.receiver[1]", "10.15.0.0/16", "10.15.0.0/24", "10.15.0.0/25"},
		{"single address", "hosts.receiver[1]", "10.15.0.0/16", "2001:db8:ffff::6/128", "2001:db8:ffff::5/128"},
		{"lowest option type", "code_points.option_types[0]", "", points + "option_types = [128]",
			points + "option_types = [127]"},
		{"highest option type", "code_points.option_types[0]", "", points + "option_types = [159]",
			points + "option_types = [160]"},
		{"option types", "code_points.option_types", "", points + "option_types = [158, 159]",
			points + "option_types = [157, 158, 159]"},
		{"lowest port", "code_points.fcn_port", "", points + "fcn_port = 1", points + "fcn_port = 0"},
		{"two ports", "code_points.proxy_port", "", points + "proxy_port = 1020", points + "proxy_port = 1021"},
		{"source queue pair", "pair[0]", "", pair(1, 0xFFFFFF, "2001:db8::2"), pair(1, 0x1000000, "2001:db8::2")},
		{"destination queue pair", "pair[0]", "", pair(0xFFFFFF, 1, "2001:db8::2"),
			pair(0x1000000, 1, "2001:db8::2")},
		{"family of a pair", "pair[0]", "", pair(1, 1, "2001:db8::2"), pair(1, 1, "192.0.2.2")},
		{"commands", "device.enable", role, role + on + off, role + on},
		{"empty command", "device.disable", role, role + on + off, role + on + "\ndisable = []"},
	} {
		t.Run(c.name, func(t *testing.T) {
			read := func(value string) error {
				text := c.text
				if text == "" {
					text, value = "[time]", value+"\n[time]"
				}
				require.Contains(t, switchProfile, text)
				_, err := readProfile([]byte(strings.Replace(switchProfile, text, value, 1)), "")
				return err
			}
			require.NoError(t, read(c.valid))
			require.ErrorContains(t, read(c.invalid), c.key+": ")
		})
	}
}

// supports is completed by the message of the role and by IPv6, unless it is empty.
func TestImpliedAbilities(t *testing.T) {
	for _, c := range []struct{ name, role, given, want string }{
		{"proxy", "proxy", `["ipv4"]`, "ipv4 proxy"},
		{"ingress", "ingress", `["fcn"]`, "fcn ipv6"},
		{"switch", "switch", `["option1"]`, "option1 ipv6"},
		{"off", "proxy", `[]`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := regexp.MustCompile(`(?m)^supports = .*$`).ReplaceAllString(reference(c.role), "supports = "+c.given)
			p := wiretest.Must(readProfile([]byte(text), ""))(t)
			require.Equal(t, c.want, strings.Join(*p.Device.Supports, " "))
		})
	}
}

// Arguments and profiles that are wrong give status 2, and nothing is opened.
func TestMisuse(t *testing.T) {
	file := wiretest.File(t, "profile.toml", switchProfile)
	bad := wiretest.File(t, "bad.toml", "[device]\n")
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no profile", nil, "-profile: not set"},
		{"no such file", []string{"-profile", file + "x"}, "no such file"},
		{"invalid", []string{"-profile", bad}, "device.role: missing"},
		{"role", []string{"-profile", file, "-role", "hub"},
			`-role "hub": want border|ingress|pause|proxy|receiver|sender|switch`},
		{"another role", []string{"-profile", file, "-role", "border", "-case", "F99"},
			`-case "F99": want ids of cases`},
		{"case", []string{"-profile", file, "-yes", "-case", "F01.1,F99.1"},
			`-case "F99.1": want ids of cases of the role`},
		{"others", []string{"-profile", file, "more"}, `"more": want only flags`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, messages bytes.Buffer
			open := func(context.Context, *profile) (rig, error) { return nil, errors.New("opened") }
			require.Equal(t, 2, runWith(t.Context(), c.args, &out, &messages, open))
			require.Contains(t, messages.String(), c.want)
			require.Empty(t, out.String())
		})
	}
}
