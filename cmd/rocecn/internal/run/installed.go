package run

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/nftables"
)

// borderState are the rules of the borders as nftables has them. They stay when the agent ends: the border does not open
// because a program has.
type borderState struct {
	tables  []string // nil: there is no border
	problem string   // what keeps a border from being one, as the agent waits for it; empty: nothing

	kernel     *nftables.Ruleset
	generation uint32 // of the rules, when they were seen to be
	listing    string // this, by the tables
	checkedAt  time.Time
}

// isComplete reports whether all borders are as they should be.
func (b *borderState) isComplete() bool { return b.tables != nil && b.problem == "" }

// close ends the watch.
func (b *borderState) close() {
	if b.kernel != nil {
		b.kernel.Close()
		b.kernel = nil
	}
}

// installBorder puts the rules of the borders of a file into force, also if it has done so before: they may have been
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
	s.border.tables = rules.tables
	s.mu.Unlock()
	for _, table := range rules.tables {
		s.log.Info("border: the rules of table inet " + table + " are installed")
	}
	for _, table := range rules.gone {
		s.log.Info("border: table inet " + table + " is deleted: the file has no border for it any more")
	}
	if rules.tables == nil {
		for _, table := range before {
			s.log.Warn("border: the file has none any more, but its rules stay: nft delete table inet " + table)
		}
	}
	s.setBorderProblem(f.describeMissingInterfaces())
	return nil
}

// applyBorderRules puts the rules of a file into force, if it has any, and takes note of how nftables lists them. What goes wrong
// behind that is no error, as they are in force then: lookAfterBorder finds that they are not known to be ours.
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
	if _, err = runNFT(rules.text, "-f", "-"); err != nil {
		return rules, err
	}
	b.generation, b.listing = before, ""
	listing, err := listTables(rules.tables)
	if err != nil {
		return rules, nil
	}
	// If it is the next generation still, nobody else has changed any rules before they were listed.
	if generation, err := b.kernel.Generation(); err == nil && generation == before+1 {
		b.generation, b.listing = generation, listing
	}
	return rules, nil
}

// listTables returns how nftables lists tables, without counters.
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

// hasChanged reports whether the rules are others by now.
func (b *borderState) hasChanged() bool {
	generation, err := b.kernel.Generation()
	if err == nil && generation == b.generation {
		return false
	}
	listing, err := listTables(b.tables)
	if err != nil || listing != b.listing {
		return true
	}
	b.generation = generation // other rules than ours are others
	return false
}

// describeMissingInterfaces says which interfaces of borders are not there, empty for none.
func (f *file) describeMissingInterfaces() string {
	if err := errors.Join(f.missingBorderInterfaces()...); err != nil {
		return strings.ReplaceAll(err.Error(), "\n", ", ")
	}
	return ""
}

// maintainBorder installs rules again that somebody has changed or deleted, such as by nft flush ruleset, and looks
// whether the interfaces of the borders are there.
func (s *server) maintainBorder(now time.Time) {
	b := &s.border
	if b.tables == nil || now.Sub(b.checkedAt) < time.Second {
		return
	}
	b.checkedAt = now
	defer s.keepWatchdogFed()()
	lacks := s.file.describeMissingInterfaces()
	if b.hasChanged() { // by another agent with borders time and again
		lacks = "role.border: rules that nobody else changes: they were changed or deleted, and are installed again"
		if _, err := s.applyBorderRules(s.file); err != nil {
			lacks = "role.border: " + err.Error()
		}
	}
	s.setBorderProblem(lacks)
}

// setBorderProblem takes note of what keeps a border from being one, empty for nothing, and then says so: who reads the log
// may ask at once.
func (s *server) setBorderProblem(lacks string) {
	if lacks == s.border.problem {
		return
	}
	s.mu.Lock()
	s.border.problem = lacks
	s.mu.Unlock()
	switch {
	case lacks != "":
		s.log.Warn("border: not as it should be", "lacks", lacks)
	case s.border.tables != nil:
		s.log.Info("border: as it should be")
	}
}
