package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the outputs in the documents anew")

// TestDocuments runs every console line that begins with $ in a shell in the root of the module, and compares its
// output with the document.
func TestDocuments(t *testing.T) {
	root := filepath.Dir(wiretest.Path(t))
	self := wiretest.Must(os.Executable())(t)
	bin := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(bin, "rocecn")))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	shell := func(command string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "sh", "-c", "exec 2>&1\n"+strings.ReplaceAll(command, "/tmp/", bin+"/"))
		cmd.Dir = root
		cmd.Env = append(os.Environ(), isTool+"=1", "GORACE=atexit_sleep_ms=0", "PATH="+bin+":"+os.Getenv("PATH"),
			"LC_ALL=C")
		return cmd
	}
	names := []string{"docs/tool.md"}
	for role := range roles.All {
		names = append(names, "docs/roles/"+role+".md")
	}
	names = append(names, "docs/capturing.md") // last, as it needs tools
	for _, name := range names {
		if name == "docs/capturing.md" {
			wiretest.Tool(t, "editcap")
			wiretest.Tool(t, "tcpdump")
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
	readme := string(octetsOf(t, filepath.Join(filepath.Dir(wiretest.Path(t)), "README.md")))
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
