// Package programs runs programs of the system that may not answer.
package programs

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// timeout is the time limit of a query.
const timeout = 5 * time.Second

// ErrNoAnswer is the cause with which a context of [WithTimeout] ends.
var ErrNoAnswer = fmt.Errorf("no answer within %v", timeout)

// WithTimeout returns a context that ends after five seconds, for a query.
func WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, ErrNoAnswer)
}

// Command is like [exec.CommandContext], for a program that may start others. After the program was killed, Wait
// waits for at most a second for children that hold its output.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	return cmd
}
