package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/programs"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/netio"
)

// firstTable is the nftables table of the first border. The tables of further borders append a number.
const firstTable = "rocecn"

// numberedTable matches the tables of further borders.
var numberedTable = regexp.MustCompile(`(?m)^table inet (` + firstTable + `_[0-9]+)$`)

// listBorders returns the borders with rules that the agent installs.
func (f *file) listBorders() (all []*roles.Instance) {
	for _, r := range f.roles {
		if r.Role == "border" && r.Agent.Install == "nft" {
			all = append(all, r)
		}
	}
	return all
}

// checkBorder checks the keys that describe the location of a border.
func checkBorder(r *roles.Instance) error {
	a := &r.Agent
	switch all := slices.Index(a.Interfaces, "any"); {
	case a.Install != "" && a.Install != "nft" && a.Install != "none":
		return config.Wrong("install", "%q: want none or nft", a.Install)
	case a.Install != "nft":
		return nil
	case a.Sink != "":
		return config.Wrong("sink", "the kernel forwards packets across the border, not the agent: want no sink")
	case all >= 0:
		return config.Wrong(config.Index("interfaces", all), "any: want names of interfaces, or no key for all")
	case len(a.Interfaces) > 0:
		return checkInterfaces(a.Interfaces)
	}
	return nil
}

// missingBorderInterfaces returns an error for each interface of a border that does not exist. nftables would
// accept its name, and the rule would match no packet.
func (f *file) missingBorderInterfaces() (all []error) {
	for _, r := range f.listBorders() {
		for i, number := range interfaceIndexes(r.Agent.Interfaces) {
			if number == 0 {
				all = append(all, fmt.Errorf("role.%s: %s: %w", r.Name, r.Agent.Interfaces[i], netio.ErrNoInterface))
			}
		}
	}
	return all
}

// tryBorders returns the errors that would keep the borders from working.
func (f *file) tryBorders() error {
	all := f.missingBorderInterfaces()
	rules, err := f.buildBorderRules()
	if err == nil && rules.text != "" {
		_, err = runNFT(rules.text, "-c", "-f", "-")
	}
	if err != nil {
		all = append(all, fmt.Errorf("role.border: %w", err))
	}
	return errors.Join(all...)
}

// borderRules are the nftables rules of all borders.
type borderRules struct {
	text   string   // rules for one transaction, or "" without a border
	tables []string // tables of the borders, which the transaction replaces
	gone   []string // tables of former borders, which the transaction deletes
}

// buildBorderRules returns the rules for all borders of a file.
func (f *file) buildBorderRules() (rules borderRules, err error) {
	borders := f.listBorders()
	if len(borders) == 0 {
		return rules, nil
	}
	for i, r := range borders {
		table := firstTable
		if i > 0 {
			table = fmt.Sprintf("%s_%d", firstTable, i)
		}
		text, err := formatBorderTable(r, table)
		if err != nil {
			return rules, err
		}
		rules.text += text
		rules.tables = append(rules.tables, table)
	}
	there, err := runNFT("", "list", "tables", "inet")
	if err != nil {
		return rules, err
	}
	for _, m := range numberedTable.FindAllStringSubmatch(there, -1) {
		if !slices.Contains(rules.tables, m[1]) {
			rules.text += "delete table inet " + m[1] + "\n"
			rules.gone = append(rules.gone, m[1])
		}
	}
	return rules, nil
}

// formatBorderTable returns the rules of a border as a table of this name.
func formatBorderTable(r *roles.Instance, table string) (string, error) {
	border, err := r.Config.(*roles.BorderConfig).Rules()
	if err != nil {
		return "", r.LocateError(err)
	}
	const policy = "policy accept;\n"
	text := border.NFT(table)
	if names := r.Agent.Interfaces; len(names) > 0 {
		set := `{ "` + strings.Join(names, `", "`) + `" }`
		only := "\t\tiifname != " + set + " oifname != " + set + " return\n"
		text = strings.Replace(text, policy, policy+only, 1)
	}
	return text, nil
}

// nftTimeout is the longest time that nft may take. Tests change it.
var nftTimeout = 10 * time.Second

// runNFT runs nft with rules as its input, and returns its output.
func runNFT(rules string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), nftTimeout)
	defer cancel()
	cmd := programs.Command(ctx, "nft", args...)
	cmd.Stdin = strings.NewReader(rules)
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay): // a child process holds its output
		return string(out), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("nft: no answer within %v", nftTimeout)
	}
	switch text := bytes.TrimSpace(out); {
	case bytes.Contains(text, []byte("Operation not permitted")):
		return "", fmt.Errorf("nft: %w: CAP_NET_ADMIN is needed", fs.ErrPermission) // nft's own text asks for root
	case len(text) > 0:
		err = fmt.Errorf("%w: %s", err, text)
	}
	return "", fmt.Errorf("nft: %w", err)
}
