package run

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// Two switches with sources of type bmp. The second one has a source, a code and a hold time of its own.
func TestRoutingOfTwoSwitches(t *testing.T) {
	for _, c := range []struct{ name, source, listen, keys, message string }{
		{"the same source", "routers", ":11020", "", ""},
		{"two sources", "more", ":11020", "routing_hold = \"1s\"\n", ""},
		{"the same source, another code", "routers", ":11020", "pnc_code = 9\n",
			"role.switch[1].pnc_code: 9: want 65281, as in role.switch[0], which has the same source"},
		{"the same source, another hold time", "routers", ":11020", "routing_hold = \"1s\"\n",
			"role.switch[1].routing_hold: 1s: want 1m30s, as in role.switch[0], which has the same source"},
		{"two sources with one address", "more", "[::1]:11019", "",
			"source.routers.listen: source.more has [::1]:11019 already"},
		{"both sources for one switch", `routers", "more`, ":11020", "",
			"role.switch[1].observe[1]: more: want one source of type bmp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sources, role, _ := strings.Cut(readConfig("routed"), "[role.switch]\n")
			second := strings.Replace(role, `"routers"`, `"`+c.source+`"`, 1)
			if strings.Contains(c.keys, "pnc_code") {
				second = strings.Replace(second, "pnc_code = 65281\n", "", 1)
			}
			f, err := parseFile([]byte(sources + "[source.more]\ntype = \"bmp\"\nlisten = \"" + c.listen +
				"\"\n[[role.switch]]\n" + role + "[[role.switch]]\n" + second + c.keys))
			if c.message != "" {
				require.ErrorContains(t, err, c.message)
				return
			}
			require.NoError(t, err)
			f.linkTables(nil, nil)
			tables := map[any]bool{}
			f.visitTables(func(_ string, s *bmpSource) { tables[s.table] = true })
			require.Len(t, tables, map[string]int{"routers": 1, "more": 2}[c.source])
		})
	}
}

// A reload that gives the address of a source to another one does not give both its table.
func TestTablesAfterMove(t *testing.T) {
	config := strings.Replace(readConfig("routed"), "[role.switch]", "[[role.switch]]", 1)
	old := wiretest.Must(parseFile([]byte(config)))(t)
	old.linkTables(nil, nil)
	_, role, _ := strings.Cut(config, "[[role.switch]]\n")
	moved := strings.Replace(config, "[::1]:11019", "[::1]:11020", 1)
	f := wiretest.Must(parseFile([]byte(moved + "[[role.switch]]\n" + strings.Replace(role, "routers", "more", 1) +
		"[source.more]\ntype = \"bmp\"\nlisten = \"[::1]:11019\"\n")))(t)
	f.linkTables(old, nil)
	tables := map[string]any{}
	f.visitTables(func(source string, s *bmpSource) { tables[source] = s.table })
	require.Len(t, tables, 2)
	require.NotSame(t, tables["routers"], tables["more"])
	require.Same(t, old.sources["routers"].source.(*bmpSource).table, tables["routers"])
}

// A source that every host can reach causes a warning.
func TestRoutingWarning(t *testing.T) {
	config := strings.Replace(readConfig("routed"), "accept = [\"::1/128\"]\n", "", 1)
	for _, c := range []struct {
		listen string
		warns  bool
	}{{"[::1]:11019", false}, {":11019", true}, {"192.0.2.1:11019", true}} {
		t.Run(c.listen, func(t *testing.T) {
			var stderr bytes.Buffer
			name := wiretest.File(t, "agent.toml", strings.Replace(config, "[::1]:11019", c.listen, 1))
			require.Zero(t, Check(t.Context(), []string{"-config", name}, nil, io.Discard, &stderr), stderr.String())
			warning := "warning: source.routers: every host that reaches " + c.listen + " can redirect notifications"
			require.Equal(t, c.warns, strings.Contains(stderr.String(), warning), stderr.String())
		})
	}
	f := wiretest.Must(parseFile([]byte(readConfig("routed"))))(t)
	require.Empty(t, f.listRoutingWarnings())
}
