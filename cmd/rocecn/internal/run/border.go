package run

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/filter"
)

// rules returns the rules of nftables for a border, in place of those that are there,
// in one transaction.
func rules(r *roles.Instance) (string, error) {
	border, err := r.Config.(interface{ Rules() (filter.Border, error) }).Rules()
	if err != nil {
		return "", r.At(err)
	}
	const table, policy = "rocecn", "policy accept;\n"
	text := border.NFT(table)
	if names := r.Agent.Interfaces; len(names) > 0 {
		set := `{ "` + strings.Join(names, `", "`) + `" }`
		only := "\t\tiifname != " + set + " oifname != " + set + " return\n"
		text = strings.Replace(text, policy, policy+only, 1)
	}
	return fmt.Sprintf("table inet %[1]s\ndelete table inet %[1]s\n%s", table, text), nil
}

// install installs the rules of the border of a file, also if it has done so before:
// they may have been deleted.
func (s *server) install(f *file) error {
	text := ""
	for _, r := range f.roles {
		if r.Role != "border" || r.Agent.Install != "nft" {
			continue
		}
		rules, err := rules(r)
		if err != nil {
			return err
		}
		text = rules
	}
	if text == "" || s.dry {
		return nil // what is installed stays: the border does not open because an agent has ended
	}
	if err := nft(text, "-f", "-"); err != nil {
		return err
	}
	s.mu.Lock()
	s.border = text
	s.mu.Unlock()
	s.log.Info("border: the rules of table inet rocecn are installed")
	return nil
}

// nft runs nft with rules as its input.
func nft(rules string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nft", args...)
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
