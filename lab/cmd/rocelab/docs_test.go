package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab/scenario"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the outputs in the document anew")

// The documents show the output of the tool: every line of a console block that begins with $ is a command, in the root
// of its module.
func TestDocument(t *testing.T) {
	wiretest.Once(t)
	wiretest.Alone(t)
	t.Chdir("../..")
	requireDocumented(t, "docs/laboratory.md", 4)
	requireDocumented(t, "docs/checks.md", 1)
}

// requireDocumented compares the console blocks of a file with the output of their commands, or writes it.
func requireDocumented(t *testing.T, file string, count int) {
	t.Helper()
	text := wiretest.Must(os.ReadFile(file))(t)
	blocks := 0
	made := regexp.MustCompile("(?s)```console\n.*?```").ReplaceAllStringFunc(string(text), func(block string) string {
		blocks++
		out := bytes.NewBufferString("```console\n")
		for line := range strings.Lines(block) {
			if args, ok := strings.CutPrefix(line, "$ rocelab "); ok {
				out.WriteString(line)
				var messages bytes.Buffer // progress among them, on a slow machine
				status := command(t.Context(), strings.Fields(args), strings.NewReader(""), out, &messages)
				require.Equal(t, 0, status, messages.String())
			}
		}
		return out.String() + "```"
	})
	require.Equal(t, count, blocks)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(made), 0o644))
		return
	}
	require.Equal(t, string(text), made, "go test ./cmd/rocelab -update")
}

// The scenarios of the documents are right.
func TestScenarios(t *testing.T) {
	files := wiretest.Must(filepath.Glob("../../docs/scenarios/*.json"))(t)
	require.Len(t, files, 12)
	for _, file := range files {
		text := wiretest.Must(os.ReadFile(file))(t)
		s, err := scenario.Read(text)
		require.NoError(t, err, file)
		require.LessOrEqual(t, bytes.Count(text, []byte("\n")), 30)
		require.NotEmpty(t, s.Name)
	}
}
