package conform

import (
	"context"
	"errors"
	"fmt"
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

// finish implements [rig]. It also runs the command after an interrupt.
func (r *networkRig) finish(command []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), time.Second)
	defer cancel()
	err := exec.CommandContext(ctx, command[0], command[1:]...).Run()
	if status := (*exec.ExitError)(nil); errors.As(err, &status) {
		return nil
	}
	return err
}

// runStop runs the command that ends the congestion.
func (x *trial) runStop() {
	command := x.profile.Congestion.Stop
	if len(command) == 0 {
		return
	}
	if err := x.rig.finish(command); err != nil && x.err == nil {
		x.err = fmt.Errorf("congestion.stop: %w", err)
	}
}
