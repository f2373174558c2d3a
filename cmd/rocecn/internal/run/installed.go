package run

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/nftables"
)

// borderState is the state of the border rules in nftables. The rules stay when the agent ends, so that the border
// stays closed.
type borderState struct {
	tables  []string // nil if there is no border
	problem string   // problem of the border that the agent waits for, or ""

	kernel     *nftables.Ruleset
	generation uint32 // generation of the rules when the listing was verified
	listing    string // output of listTables for this generation
	checkedAt  time.Time

	roles   []string               // roles of tables
	dropped map[borderDrops]uint64 // packets dropped by rules that were replaced, and by the present ones as last read
	present map[borderDrops]uint64 // part of dropped by the present rules
	unread  bool                   // the counters could not be read
}

// borderDrops are the packets dropped by rules of a border, as named by their comment.
type borderDrops struct{ role, rule string }

// readDrops returns the counters of the present rules. Only the goroutine that installs rules may call it.
func (b *borderState) readDrops() (map[borderDrops]uint64, error) {
	present := map[borderDrops]uint64{}
	for i, table := range b.tables {
		counts, err := b.kernel.Counters(table)
		if err != nil {
			return nil, err
		}
		for comment, n := range counts {
			rule := strings.ReplaceAll(strings.ToLower(comment), " ", "_")
			present[borderDrops{b.roles[i], rule}] += n
		}
	}
	return present, nil
}

// addDrops adds the counters of the present rules to the drops. Rules that replace others begin at 0.
func (b *borderState) addDrops(present map[borderDrops]uint64) {
	dropped := map[borderDrops]uint64{}
	maps.Copy(dropped, b.dropped)
	for drops, n := range present {
		before := b.present[drops]
		if n < before { // the rule was replaced
			before = 0
		}
		dropped[drops] += n - before
	}
	b.dropped, b.present = dropped, present
}

// isComplete reports whether the rules of all borders are in force.
func (b *borderState) isComplete() bool { return b.tables != nil && b.problem == "" }

// close closes the ruleset.
func (b *borderState) close() {
	if b.kernel != nil {
		b.kernel.Close()
		b.kernel = nil
	}
}

// installBorder puts the border rules of a file into force. It does so on every reload, as the rules may have been
// deleted.
func (s *server) installBorder(f *file) error {
	if s.dry {
		return nil
	}
	defer s.keepWatchdogFed()()
	rules, err := s.applyBorderRules(f)
	if err != nil {
		return fmt.Errorf("role.border: %w", err)
	}
	before := s.border.tables
	s.mu.Lock()
	s.border.tables, s.border.roles = rules.tables, nil
	for _, r := range f.listBorders() {
		s.border.roles = append(s.border.roles, r.Name)
	}
	s.mu.Unlock()
	s.readDrops()
	for _, table := range rules.tables {
		s.log.Info("border: the rules of table inet " + table + " are installed")
	}
	for _, table := range rules.gone {
		s.log.Info("border: table inet " + table + " is deleted: the file no longer has its border")
	}
	if rules.tables == nil {
		for _, table := range before {
			s.log.Warn("border: the file no longer has a border, but its rules stay: nft delete table inet " + table)
		}
	}
	s.setBorderProblem(f.describeMissingInterfaces())
	return nil
}

// applyBorderRules puts the rules of a file into force, if it has any, and records nftables' listing of them. A
// later failure is no error, as the rules are then in force: maintainBorder finds that they are not verified.
func (s *server) applyBorderRules(f *file) (rules borderRules, err error) {
	if rules, err = f.buildBorderRules(); err != nil || rules.text == "" {
		return rules, err
	}
	b := &s.border
	if b.kernel == nil {
		if b.kernel, err = nftables.Open(); err != nil {
			return rules, err
		}
	}
	before, err := b.kernel.Generation()
	if err != nil {
		return rules, err
	}
	s.readDrops()
	if _, err = runNFT(rules.text, "-f", "-"); err != nil {
		return rules, err
	}
	b.generation, b.listing = before, ""
	s.mu.Lock()
	b.present = nil
	s.mu.Unlock()
	listing, err := listTables(rules.tables)
	if err != nil {
		return rules, nil
	}
	// The next generation means that no other program has changed a rule before the listing.
	if generation, err := b.kernel.Generation(); err == nil && generation == before+1 {
		b.generation, b.listing = generation, listing
	}
	return rules, nil
}

// listTables returns the listing of tables by nft, without counters.
func listTables(tables []string) (text string, err error) {
	for _, table := range tables {
		one, err := runNFT("", "-s", "list", "table", "inet", table)
		if err != nil {
			return "", err
		}
		text += one
	}
	return text, nil
}

// hasChanged reports whether the rules have changed since they were verified.
func (b *borderState) hasChanged() bool {
	generation, err := b.kernel.Generation()
	if err == nil && generation == b.generation {
		return false
	}
	listing, err := listTables(b.tables)
	if err != nil || listing != b.listing {
		return true
	}
	b.generation = generation // the change was to other rules
	return false
}

// readDrops reads the counters of the border's rules. It logs an error once, as it is called again and again.
func (s *server) readDrops() {
	b := &s.border
	if b.tables == nil || b.kernel == nil {
		return
	}
	present, err := b.readDrops() // without the lock: the kernel may list many rules
	switch {
	case err != nil && !b.unread:
		s.log.Warn("border: the counters of its rules cannot be read", "error", err)
	case err == nil && b.unread:
		s.log.Info("border: the counters of its rules can be read again")
	}
	if b.unread = err != nil; b.unread {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.addDrops(present)
}

// describeMissingInterfaces returns the missing interfaces of borders, or "".
func (f *file) describeMissingInterfaces() string {
	if err := errors.Join(f.missingBorderInterfaces()...); err != nil {
		return strings.ReplaceAll(err.Error(), "\n", ", ")
	}
	return ""
}

// maintainBorder checks the interfaces of the borders, and installs rules again that were changed or deleted, such
// as by nft flush ruleset.
func (s *server) maintainBorder(now time.Time) {
	b := &s.border
	if b.tables == nil || now.Sub(b.checkedAt) < time.Second {
		return
	}
	b.checkedAt = now
	s.readDrops()
	defer s.keepWatchdogFed()()
	lacks := s.file.describeMissingInterfaces()
	if b.hasChanged() { // such as by another agent with borders
		lacks = "role.border: its rules were changed or deleted by another program, and are installed again"
		if _, err := s.applyBorderRules(s.file); err != nil {
			lacks = "role.border: " + err.Error()
		}
	}
	s.setBorderProblem(lacks)
}

// setBorderProblem records the problem of the border, or "", before it logs it: a reader of the log may query the
// state immediately.
func (s *server) setBorderProblem(lacks string) {
	if lacks == s.border.problem {
		return
	}
	s.mu.Lock()
	s.border.problem = lacks
	s.mu.Unlock()
	switch {
	case lacks != "":
		s.log.Warn("border: incomplete", "lacks", lacks)
	case s.border.tables != nil:
		s.log.Info("border: complete")
	}
}
