package repo

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// A process may end just before its signal: with set -e a kill in a trap would then end the trap, and the script would
// fail although all is well. Each kill in a trap has an alternative, or comes after set +e.
func TestTraps(t *testing.T) {
	wiretest.Once(t)
	trap := regexp.MustCompile(`(?m)^\s*trap ('[^']*'|"[^"]*"|\w+)`)
	traps := 0
	for _, name := range shellScripts(t) {
		text := string(wiretest.Must(os.ReadFile(name))(t))
		for _, m := range trap.FindAllStringSubmatch(text, -1) {
			body := strings.Trim(m[1], `'"`)
			traps++
			between := func(r rune) bool { return strings.ContainsRune(" ;&|", r) }
			for _, word := range strings.FieldsFunc(body, between) {
				body += "\n" + functionBody(text, word)
			}
			for line := range strings.Lines(body) {
				require.False(t, failsInTrap(body, line), "%s: trap %s: want || true after %q", name, m[1],
					strings.TrimSpace(line))
			}
		}
	}
	require.Greater(t, traps, 10)
}

// failsInTrap reports whether a line of a trap fails if a process has ended.
func failsInTrap(body, line string) bool {
	kills := regexp.MustCompile(`\b(pkill|kill|wait)\b`).MatchString(line)
	return kills && !strings.Contains(line, "||") && !strings.Contains(body, "set +e") &&
		!regexp.MustCompile(`^\s*(#|wait$)`).MatchString(strings.TrimRight(line, "\n"))
}

// functionBody returns the body of a function of a script, or "".
func functionBody(text, name string) string {
	m := regexp.MustCompile(`(?ms)^` + regexp.QuoteMeta(name) + `\(\) \{\n(.*?)^\}`).FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return m[1]
}

// shellScripts returns the scripts of the repository.
func shellScripts(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() == ".git" {
				return fs.SkipDir
			}
			return err
		}
		octets, err := os.ReadFile(name)
		if err == nil && regexp.MustCompile(`\A#!/(usr/)?bin/(env )?(ba)?sh\n`).Match(octets) {
			names = append(names, name)
		}
		return err
	})
	require.NoError(t, err)
	return names
}

// A kill without an alternative is found, in a trap itself and in its function.
func TestFailsInTrap(t *testing.T) {
	const script = "end() {\n\tstop\n\tkill \"$pid\"\n}\ntrap end EXIT\n"
	for _, c := range []struct {
		name, body, line string
		want             bool
	}{
		{"kill", "kill $pid", "kill $pid", true},
		{"with an alternative", "kill $pid || true", "kill $pid || true", false},
		{"after set +e", "set +e\nkill $pid", "kill $pid", false},
		{"function", functionBody(script, "end"), "\tkill \"$pid\"\n", true},
		{"no process", "rm -rf x", "rm -rf x", false},
		{"wait for all", "wait", "wait", false},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, failsInTrap(c.body, c.line)) })
	}
}
