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

// runStop runs the command that ends the congestion, at most for a second.
func (x *trial) runStop() {
	command := x.profile.Congestion.Stop
	if len(command) == 0 {
		return
	}
	stop, err := x.rig.start(command)
	if err != nil {
		x.err = err
		return
	}
	x.wait(time.Second, func() bool { return false })
	stop()
}
