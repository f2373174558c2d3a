package run

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
)

// digestInterval is the time between two lines of the log about decisions of a role with the same action, reason and
// kind, and the time for which agent.log.decisions limits the lines of all roles.
const digestInterval = 10 * time.Second

// A decisionKind has the fields that the decisions of one line have in common.
type decisionKind struct {
	action node.Action
	reason node.Reason
	kind   message.Kind
}

// A digest counts the decisions of a role for the log: one line for each decisionKind, the first within
// housekeepingInterval, later one every digestInterval.
type digest struct {
	groups []decisionGroup
	latest int // index of the group of the last decision
}

// A decisionGroup are the decisions of one decisionKind since its last line.
type decisionGroup struct {
	decisionKind
	count    uint64
	loggedAt time.Time // time of the last line
	rate     uint64    // rate of the flow of the last decision in bits a second, if rated is set
	rated    bool
}

// digestSlots is the number of groups of a role that have a flow in their lines. Roles have fewer in practice.
const digestSlots = 16

// add counts a decision, and returns the index of its group.
func (g *digest) add(d *node.Decision) int {
	kind := decisionKind{d.Action, d.Reason, d.Message}
	if g.latest >= len(g.groups) || g.groups[g.latest].decisionKind != kind {
		g.latest = g.findGroup(kind)
	}
	g.groups[g.latest].count++
	return g.latest
}

// findGroup returns the index of a group, which it adds if it is new. Actions, reasons and kinds of messages bound the
// number of groups.
func (g *digest) findGroup(kind decisionKind) int {
	for i := range g.groups {
		if g.groups[i].decisionKind == kind {
			return i
		}
	}
	g.groups = append(g.groups, decisionGroup{decisionKind: kind})
	return len(g.groups) - 1
}

// nextDue returns the index of the group that is due for a line and has waited longest, or -1. With all, every group
// with decisions is due.
func (g *digest) nextDue(now time.Time, all bool) int {
	due := -1
	for i := range g.groups {
		one := &g.groups[i]
		if one.count == 0 || !all && now.Sub(one.loggedAt).Abs() < digestInterval {
			continue
		}
		if due < 0 || one.loggedAt.Before(g.groups[due].loggedAt) {
			due = i
		}
	}
	return due
}

// A lineBudget limits the lines about decisions of all roles: a token bucket that holds limit lines and fills in
// digestInterval. The first line of a group may empty it to -limit, so it is rarely delayed.
type lineBudget struct {
	mu     sync.Mutex
	limit  int // lines in digestInterval; 0: none
	tokens float64
	at     time.Time // time of tokens
}

// setLimit changes the limit, and fills the bucket.
func (b *lineBudget) setLimit(limit int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit, b.tokens = limit, float64(limit)
}

// takeLine reports whether a line may be logged. With all, every line may, unless the limit is 0.
func (b *lineBudget) takeLine(now time.Time, first, all bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	full := float64(b.limit)
	b.tokens = min(full, b.tokens+full*max(0, now.Sub(b.at).Seconds())/digestInterval.Seconds())
	b.at = now
	if b.limit <= 0 || b.tokens < 1 && !all && !(first && b.tokens > -full) {
		return false
	}
	b.tokens--
	return true
}

// logDigest logs the lines about decisions that are due, or with all the lines about all decisions without a line.
func (a *actor) logDigest(now time.Time, all bool) {
	for {
		i := a.digest.nextDue(now, all)
		if i < 0 || !a.server.budget.takeLine(now, a.digest.groups[i].loggedAt.IsZero(), all) {
			return
		}
		group := &a.digest.groups[i]
		all := attrs{slog.String("role", a.instance.Name), slog.String("action", group.action.String())}
		all.addText("reason", group.reason.String())
		if group.kind != message.KindOther {
			all.addText("kind", group.kind.String())
		}
		addNumber(&all, "count", &group.count)
		a.seen.addTopFlow(&all, i)
		if group.rated {
			addNumber(&all, "rate_bps", &group.rate)
		}
		a.server.log.LogAttrs(context.Background(), slog.LevelInfo, "decisions", all...)
		group.count, group.loggedAt = 0, now
	}
}
