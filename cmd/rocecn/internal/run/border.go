package run

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
)

// firstTable is the table of nftables of the first border; others have its number besides.
const firstTable = "rocecn"

// ofOther matches the tables of other borders than the first.
var ofOther = regexp.MustCompile(`(?m)^table inet (` + firstTable + `_[0-9]+)$`)

// rules returns the rules of nftables for all borders that are to be installed, a table each, in place of those that
// are there, in one transaction; empty if there is none. Tables of borders that there are no more are deleted.
func (f *file) rules() (string, error) {
	var text strings.Builder
	n := 0
	for _, r := range f.roles {
		if r.Role != "border" || r.Agent.Install != "nft" {
			continue
		}
		table := firstTable
		if n > 0 {
			table = fmt.Sprintf("%s_%d", firstTable, n)
		}
		n++
		rules, err := rulesOf(r, table)
		if err != nil {
			return "", err
		}
		text.WriteString(rules)
	}
	if n == 0 {
		return "", nil
	}
	there, err := nft("", "list", "tables", "inet")
	if err != nil {
		return "", err
	}
	for _, m := range ofOther.FindAllStringSubmatch(there, -1) {
		if !strings.Contains(text.String(), "\ntable inet "+m[1]+" {") {
			fmt.Fprintf(&text, "delete table inet %s\n", m[1])
		}
	}
	return text.String(), nil
}

// rulesOf returns the rules of a border, in place of a table of this name.
func rulesOf(r *roles.Instance, table string) (string, error) {
	border, err := r.Config.(roles.Border).Rules()
	if err != nil {
		return "", r.At(err)
	}
	const policy = "policy accept;\n"
	text := border.NFT(table)
	if names := r.Agent.Interfaces; len(names) > 0 {
		set := `{ "` + strings.Join(names, `", "`) + `" }`
		only := "\t\tiifname != " + set + " oifname != " + set + " return\n"
		text = strings.Replace(text, policy, policy+only, 1)
	}
	return fmt.Sprintf("table inet %[1]s\ndelete table inet %[1]s\n%s", table, text), nil
}

// install installs the rules of the borders of a file, also if it has done so before: they may have been deleted.
func (s *server) install(f *file) error {
	if s.dry {
		return nil
	}
	text, err := f.rules()
	if err != nil || text == "" {
		return err // what is installed stays: the border does not open because an agent has ended
	}
	if _, err := nft(text, "-f", "-"); err != nil {
		return err
	}
	s.mu.Lock()
	s.border = text
	s.mu.Unlock()
	s.log.Info("border: the rules of table inet " + firstTable + " are installed")
	return nil
}

// nft runs nft with rules as its input, and returns what it says.
func nft(rules string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nft", args...)
	cmd.Stdin = strings.NewReader(rules)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("nft: %w: %s", err, bytes.TrimSpace(out))
	}
	return string(out), nil
}
