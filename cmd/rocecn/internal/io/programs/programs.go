// Package programs makes commands of programs of the system, which may not answer.
package programs

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// patience is how long a program may take that is asked for something.
const patience = 5 * time.Second

// ErrNoAnswer is the cause with which a context of [Patient] ends.
var ErrNoAnswer = fmt.Errorf("no answer within %v", patience)

// WithTimeout returns a context for asking programs, which ends after five seconds.
func WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, patience, ErrNoAnswer)
}

// Command is [exec.CommandContext] for a program that may have begun others, and left them behind when it was ended:
// for those the wait is a second, though they hold its output.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	return cmd
}
