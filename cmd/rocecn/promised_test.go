package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// promised has what docs/stability.md promises of the tool, a fact a line. With -update what is new is added. From
// 1.0.0 on nothing leaves it, but by hand what the revision of a draft takes along.
const promised = "api/tool.txt"

// What is promised of the tool is still there.
func TestToolHolds(t *testing.T) {
	wiretest.Once(t)
	have := map[string]bool{}
	for _, collect := range []func(*testing.T, func(format string, args ...any)){flags, fields, metrics, keys} {
		before := len(have)
		collect(t, func(format string, args ...any) { have[fmt.Sprintf(format, args...)] = true })
		require.Greater(t, len(have), before+20)
	}
	file := wiretest.Path(t, promised)
	was := strings.FieldsFunc(string(octetsOf(t, file)), func(r rune) bool { return r == '\n' })
	for _, fact := range was {
		require.True(t, have[fact], "%s: %s", promised, fact)
		delete(have, fact)
	}
	if *update {
		all := slices.Sorted(slices.Values(slices.AppendSeq(was, maps.Keys(have))))
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(all, "\n")+"\n"), 0o644))
	}
}

// output returns what the tool prints.
func output(t *testing.T, args ...string) string {
	var out bytes.Buffer
	require.Zero(t, run(t.Context(), args, strings.NewReader(""), &out, io.Discard), args)
	require.NotEmpty(t, out.Bytes(), args)
	return out.String()
}

// flags finds the commands and their flags.
func flags(t *testing.T, fact func(string, ...any)) {
	for _, c := range commands {
		fact("command %s", c.name)
		var help bytes.Buffer
		require.Zero(t, c.run(t.Context(), []string{"-h"}, strings.NewReader(""), io.Discard, &help))
		for _, flag := range regexp.MustCompile(`(?m)^  (-\S+)`).FindAllStringSubmatch(help.String(), -1) {
			fact("flag %s %s", c.name, flag[1])
		}
	}
}

// fields finds the fields of JSON in what is printed about captures, and what type they have.
func fields(t *testing.T, fact func(string, ...any)) {
	real := func(name string) []string {
		return []string{wiretest.Path(t, "real", name+".eth0.pcap.gz"), wiretest.Path(t, "real", name+".eth1.pcap.gz")}
	}
	captures, err := filepath.Glob(wiretest.Path(t, "*.pcap"))
	require.NoError(t, err)
	for _, args := range [][]string{
		append([]string{"inspect", "-json", "-all", "-pairs"}, captures...),
		append([]string{"flows", "-json", "-paths"}, captures...),
		append([]string{"flows", "-json"}, real("write4-loss1")...),
		append([]string{"flows", "-json"}, real("write4-red-ect")...),
		append([]string{"flows", "-json", "-interval", "1s"}, real("w4-reddrop-q4")[:1]...),
		append([]string{"flows", "-json", "-compare"}, real("r6-loss2")...),
		append([]string{"pairs", "-json"}, captures...),
	} {
		for line := range strings.Lines(output(t, args...)) {
			var object any
			require.NoError(t, json.Unmarshal([]byte(line), &object), line)
			eachField("", object, func(path, kind string) { fact("json %s %s %s", args[0], path, kind) })
		}
	}
}

// eachField calls f with the path and the type of every field in a value.
func eachField(path string, value any, f func(path, kind string)) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			eachField(path+"."+name, member, f)
		}
	case []any:
		for _, element := range v {
			eachField(path+"[]", element, f)
		}
	case string:
		f(path, "string")
	case float64:
		f(path, "number")
	case bool:
		f(path, "bool")
	}
}

// metrics finds the metrics of flows, with their labels, and the names of those of the agent.
func metrics(t *testing.T, fact func(string, ...any)) {
	text := output(t, "flows", "-prometheus", wiretest.Path(t, "tour.pcap"), wiretest.Path(t, "rxe-verbs6.pcap"))
	for _, sample := range regexp.MustCompile(`(?m)^(rocecn_\w+)(?:\{(.*)\})?`).FindAllStringSubmatch(text, -1) {
		labels := regexp.MustCompile(`(\w+)="`).FindAllString(sample[2], -1)
		fact("metric flows %s{%s}", sample[1], strings.ReplaceAll(strings.Join(labels, ","), `="`, ""))
	}
	of := string(octetsOf(t, "internal/run/http.go"))
	for _, name := range regexp.MustCompile(`"(rocecn_\w+[a-z])"`).FindAllStringSubmatch(of, -1) {
		fact("metric run %s", name[1])
	}
}

// keys finds the keys of the configuration: in the reference file, which has all but those of roles, and on the page
// of roles. Tests hold that both are complete.
func keys(t *testing.T, fact func(string, ...any)) {
	section := ""
	for line := range strings.Lines(output(t, "run", "-reference")) {
		if m := regexp.MustCompile(`^\[(\w+)(?:\.(\w+))?`).FindStringSubmatch(line); m != nil {
			section = m[1]
			if m[1] == "agent" && m[2] != "" {
				section += "." + m[2]
			}
		}
		if m := regexp.MustCompile(`^(?:# )?(\w+) = ("\w+")?`).FindStringSubmatch(line); m != nil {
			if m[1] == "type" {
				section = strings.Fields(section)[0] + " " + m[2]
			}
			fact("key %s %s", section, m[1])
		}
	}
	roles := map[string]string{
		"The congested node": "switch", "The receiver": "receiver", "The sender": "sender", "The ingress PE": "ingress",
		"The proxy": "proxy", "The border": "border", "The one that pauses": "pause",
	}
	role := ""
	for line := range strings.Lines(string(octetsOf(t, wiretest.Path(t, "../docs/roles.md")))) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			role = roles[strings.TrimSpace(title)]
		}
		if m := regexp.MustCompile("^\\| ((?:`[a-z_0-9]+`(?:, )?)+) \\|").FindStringSubmatch(line); m != nil {
			for _, key := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(m[1], -1) {
				require.NotEmpty(t, role, line)
				fact("key %s %s", role, key[1])
			}
		}
	}
}
