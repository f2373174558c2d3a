package roles

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// The documents list every key of every role, and no other ones: those of all roles in tool.md, the others on the page
// of the role.
func TestDocumentedKeys(t *testing.T) {
	docs := filepath.Join(filepath.Dir(wiretest.Path(t)), "docs")
	read := func(name string) string {
		octets := wiretest.Must(os.ReadFile(filepath.Join(docs, filepath.FromSlash(name))))(t)
		return string(octets)
	}
	_, tool, ok := strings.Cut(read("tool.md"), "\n### Its configuration\n")
	require.True(t, ok)
	all := config.Keys(common{})
	require.ElementsMatch(t, all, documentedKeys(tool, "key"))

	for role, makeConfig := range All {
		own := config.Keys(makeConfig())[len(all):] // those of all roles come first
		if role == "ingress" {
			for _, key := range config.Keys(tunnel{}) {
				own = append(own, "tunnel."+key)
			}
		}
		if role == "sender" {
			for _, key := range config.Keys(reactionConfig{}) {
				own = append(own, "reaction."+key)
			}
		}
		require.ElementsMatch(t, own, documentedKeys(read("roles/"+role+".md"), "key of `play`"), role)
	}
	for _, key := range append(config.Keys(ownRecord{}), config.Keys(ownSnapshot{})...) {
		require.Contains(t, read("roles/switch.md"), "`"+key+"`")
	}
}

// documentedKeys returns the keys in the first table that has a head with these words.
func documentedKeys(text, head string) (all []string) {
	_, table, _ := strings.Cut(text, "\n| "+head+" | | default |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		all = append(all, m[1])
	}
	return all
}
