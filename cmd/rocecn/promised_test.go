package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// TestPromised compares the tool with the promises of docs/stability.md. The tests of the packages check the output
// that only the agent, flows -listen and rocecn host print.
func TestPromised(t *testing.T) {
	wiretest.Once(t)
	facts := map[string]bool{}
	for _, find := range []func(*testing.T, func(format string, args ...any)){flags, fields, metrics, sections, keys} {
		find(t, func(format string, args ...any) { facts[fmt.Sprintf(format, args...)] = true })
	}
	wiretest.Promised(t, "tool.txt", facts)
}

// output returns the output of the tool.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var out, messages bytes.Buffer
	require.Zero(t, runCommand(t.Context(), args, strings.NewReader(""), &out, &messages), "%s: %s", args, &messages)
	require.NotEmpty(t, out.Bytes(), args)
	return out.String()
}

// flags finds the commands and their flags, with the word that stands for a value if they have one.
func flags(t *testing.T, fact func(string, ...any)) {
	output(t, "version")
	output(t, "completion")
	fact("command version")
	fact("command completion")
	for _, c := range commands {
		fact("command %s", c.name)
		var help bytes.Buffer
		require.Zero(t, c.run(t.Context(), []string{"-h"}, strings.NewReader(""), io.Discard, &help))
		for _, flag := range regexp.MustCompile(`(?m)^  (-\S+)( \S+)?`).FindAllStringSubmatch(help.String(), -1) {
			value := ""
			if flag[2] != "" {
				value = " VALUE"
			}
			fact("flag %s %s%s", c.name, flag[1], value)
		}
	}
}

// fields finds the JSON fields that are printed about captures, with their types.
func fields(t *testing.T, fact func(string, ...any)) {
	real := func(name string) []string {
		return []string{wiretest.Path(t, "real", name+".eth0.pcap.gz"), wiretest.Path(t, "real", name+".eth1.pcap.gz")}
	}
	captures := wiretest.Must(filepath.Glob(wiretest.Path(t, "*.pcap")))(t)
	for _, args := range [][]string{
		append([]string{"inspect", "-json", "-all", "-pairs"}, captures...),
		append([]string{"flows", "-json", "-paths"}, captures...),
		append([]string{"flows", "-json", "-explain", wiretest.Path(t, "tour.pcap")}, real("write4-loss1")[0]),
		append([]string{"flows", "-json"}, real("write4-red-ect")...),
		append([]string{"flows", "-json", "-interval", "1s"}, real("w4-reddrop-q4")[:1]...),
		append([]string{"flows", "-json", "-compare"}, real("r6-loss2")...),
		{"flows", "-json", "-sflow", ":6343", wiretest.Path(t, "sflow", "ovs.pcap")},
		append([]string{"pairs", "-json"}, captures...),
	} {
		for line := range strings.Lines(output(t, args...)) {
			var object map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &object), line)
			of := args[0] + kindOf(args[0], object)
			wiretest.Fields("", object, func(path, kind string) { fact("json %s %s %s", of, path, kind) })
		}
	}
}

// kindOf returns which of the objects of flows one is: those that are not flows are known by a field.
func kindOf(command string, object map[string]any) string {
	if command != "flows" {
		return ""
	}
	for _, kind := range []string{"unpaired", "pfc", "paths", "compare", "total", "verdict", "sampled"} {
		if _, ok := object[kind]; ok {
			return " " + kind
		}
	}
	return " flow"
}

// metrics finds the metrics of flows, with their labels.
func metrics(t *testing.T, fact func(string, ...any)) {
	text := output(t, "flows", "-prometheus", wiretest.Path(t, "tour.pcap"), wiretest.Path(t, "rxe-verbs6.pcap"))
	wiretest.Metrics(text, func(name, what string) { fact("metric %s %s", name, what) })
}

// sections finds the keys of the agent, of sources and of sinks in the reference file, which a test holds to be
// complete.
func sections(t *testing.T, fact func(string, ...any)) {
	kind := regexp.MustCompile(`(?m)^type = "(\w+)"`)
	key := regexp.MustCompile(`(?m)^(?:# )?(\w+) = `)
	for section := range strings.SplitSeq(output(t, "run", "-reference"), "\n[") {
		name, text, _ := strings.Cut(section, "]")
		if name = strings.Split(name, ".")[0]; name != "agent" && name != "source" && name != "sink" {
			continue
		}
		if m := kind.FindStringSubmatch(text); m != nil {
			name += " " + m[1]
		}
		for _, m := range key.FindAllStringSubmatch(text, -1) {
			fact("key %s %s", name, m[1])
		}
	}
}

// keys finds the keys of roles, those of tables in them too.
func keys(t *testing.T, fact func(string, ...any)) {
	var each func(role, path string, of reflect.Type)
	each = func(role, path string, of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		for i := range of.NumField() {
			f := of.Field(i)
			switch key := f.Tag.Get("json"); {
			case f.Anonymous:
				each(role, path, f.Type)
			case key != "":
				fact("key role %s %s", role, path+key)
				each(role, path+key+".", f.Type)
			}
		}
	}
	for name, of := range roles.All {
		each(name, "", reflect.TypeOf(of()))
	}
	for _, key := range config.Keys(roles.Agent{}) {
		fact("key role of any kind %s", key)
	}
}

var update = flag.Bool("update", false, "write the outputs in the documents again")

// TestDocuments runs every console line that begins with $ in a shell in the root of the module, and compares its
// output with the document. The shell finds the programs linked here, and no other program is found.
func TestDocuments(t *testing.T) {
	root := wiretest.Root(t)
	self := wiretest.Must(os.Executable())(t)
	bin := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(bin, "rocecn")))
	link := func(names ...string) {
		for _, name := range names {
			require.NoError(t, os.Symlink(wiretest.Tool(t, name), filepath.Join(bin, name)))
		}
	}
	link("cat", "cut", "grep", "head", "sed")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	shell := func(command string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "sh", "-c", "exec 2>&1\n"+strings.ReplaceAll(command, "/tmp/", bin+"/"))
		cmd.Dir = root
		cmd.Env = append(os.Environ(), isTool+"=1", "GORACE=atexit_sleep_ms=0", "PATH="+bin, "LC_ALL=C")
		return cmd
	}
	names := []string{"docs/tool.md"}
	for role := range roles.All {
		names = append(names, "docs/roles/"+role+".md")
	}
	names = append(names, "docs/capturing.md") // last, as it needs tools
	for _, name := range names {
		if name == "docs/capturing.md" {
			link("editcap", "tcpdump")
		}
		file := filepath.Join(root, name)
		document := string(octetsOf(t, file))
		parts := regexp.MustCompile("(?s)```console\n.*?```").FindAllStringIndex(document, -1)
		require.NotEmpty(t, parts)
		var listener func() string // of the command that waits for the next one
		listenerAt := 0
		outputs := make([]string, len(parts))
		for i, at := range parts {
			out := "```console\n"
			for line := range strings.Lines(document[at[0]:at[1]]) {
				command, ok := strings.CutPrefix(line, "$ ")
				if !ok {
					continue
				}
				out += line
				if strings.HasPrefix(command, "rocecn listen") {
					listener, listenerAt = startListener(t, shell("exec "+command)), i
					continue
				}
				b, _ := shell(command).Output()
				out += string(b)
				if len(b) > 0 && b[len(b)-1] != '\n' {
					out += "\n"
				}
				if listener != nil {
					outputs[listenerAt] = strings.TrimSuffix(outputs[listenerAt], "```") + listener() + "```"
					listener = nil
				}
			}
			outputs[i] = strings.ReplaceAll(out, bin+"/", "/tmp/") + "```"
		}
		was := document
		for i := len(parts) - 1; i >= 0; i-- {
			document = document[:parts[i][0]] + outputs[i] + document[parts[i][1]:]
		}
		ephemeral := regexp.MustCompile(`\[::1\]:[3-6]\d{4}`) // another one each time
		masked := ephemeral.ReplaceAllString(document, "[::1]:PORT")
		wasMasked := ephemeral.ReplaceAllString(was, "[::1]:PORT")
		if *update && wasMasked != masked {
			require.NoError(t, os.WriteFile(file, []byte(document), 0o644))
			continue
		}
		require.Equal(t, wasMasked, masked, "%s: run go test ./cmd/rocecn -update", name)
	}
}

// README.md names every command, and none that there is not.
func TestDocumentsNameEveryCommand(t *testing.T) {
	readme := string(octetsOf(t, filepath.Join(wiretest.Root(t), "README.md")))
	for _, name := range commandNames() {
		require.Contains(t, readme, "`rocecn "+name+"`")
	}
	for _, m := range regexp.MustCompile("`rocecn ([a-z]+)[ `]").FindAllStringSubmatch(readme, -1) {
		require.Contains(t, commandNames(), m[1], "README.md")
	}
}

// startListener starts a command that waits for datagrams. end waits until the command ends and returns its whole
// output.
func startListener(t *testing.T, cmd *exec.Cmd) (end func() string) {
	t.Helper()
	out := wiretest.Must(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	r := bufio.NewReader(out)
	first, err := r.ReadString('\n') // it listens now
	require.NoError(t, err)
	return func() string {
		var rest bytes.Buffer
		_, err := io.Copy(&rest, r)
		require.NoError(t, err)
		require.NoError(t, cmd.Wait())
		return first + rest.String()
	}
}
