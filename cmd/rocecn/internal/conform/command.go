package conform

import (
	"context"
	"os/exec"
	"time"
)

// start implements [rig]. A command that still runs after a second is killed.
func (r *networkRig) start(command []string) (stop func(), err error) {
	ctx, cancel := context.WithCancel(r.ctx)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	return func() {
		cancel()
		<-ended
	}, nil
}

// runCommand runs a command to its end, at most for a limit.
func runCommand(r rig, command []string, limit time.Duration) {
	if stop, err := r.start(command); err == nil {
		r.receive(r.now().Add(limit))
		stop()
	}
}
