package conform

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// start implements [rig]. The function that it returns kills a command that still runs, with the programs that it has
// started.
func (r *networkRig) start(command []string) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(r.ctx)
	c, err := newCommand(ctx, command)
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	return func() error {
		defer cancel()
		select {
		case err := <-ended: // before stop: its status counts
			return c.explain(err)
		default:
			cancel()
			c.explain(<-ended) // the tester ended it
			return nil
		}
	}, nil
}

// finish implements [rig]. It also runs the command after an interrupt.
func (r *networkRig) finish(command []string, limit time.Duration, receive func() bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), limit)
	defer cancel()
	c, err := newCommand(ctx, command)
	if err != nil {
		return err
	}
	if err = c.Start(); err == nil {
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		for len(ended) == 0 && receive() {
		}
		err = <-ended
	}
	err = c.explain(err)
	if ctx.Err() != nil {
		return fmt.Errorf("it still ran after %v", limit)
	}
	return err
}

// A command is a program of the operator. Its error output is a file, which a program that it leaves in the background
// may keep open.
type command struct {
	*exec.Cmd
	messages *os.File
}

// newCommand returns a command. explain closes its file.
func newCommand(ctx context.Context, args []string) (*command, error) {
	messages, err := os.CreateTemp("", "rocecn-conform-*")
	if err != nil {
		return nil, err
	}
	os.Remove(messages.Name())
	c := &command{exec.CommandContext(ctx, args[0], args[1:]...), messages}
	c.Stderr = messages
	killAsGroup(c.Cmd)
	return c, nil
}

// explain adds the first line of the messages to an error.
func (c *command) explain(err error) error {
	defer c.messages.Close()
	first := make([]byte, 256)
	n, _ := c.messages.ReadAt(first, 0)
	line, _, _ := strings.Cut(strings.TrimSpace(string(first[:n])), "\n")
	if err == nil || line == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, line)
}

// finish runs a command to its end, and receives meanwhile, so that a bridge forwards.
func (x *trial) finish(command []string, limit time.Duration) error {
	return x.rig.finish(command, limit, func() bool {
		if x.ctx.Err() != nil || x.err != nil {
			return false
		}
		x.receiveUntil(x.rig.now().Add(10 * time.Millisecond))
		return true
	})
}

// stopTimeout is the time for the command that ends the congestion. TestMain extends it for busy machines.
var stopTimeout = time.Second

// runStop runs the command that ends the congestion.
func (x *trial) runStop() {
	command := x.profile.Congestion.Stop
	if len(command) == 0 {
		return
	}
	x.keepError("congestion.stop", x.finish(command, stopTimeout))
}

// keepError keeps the first error of the tester and of the commands of the profile.
func (x *trial) keepError(key string, err error) {
	if err != nil && x.err == nil {
		x.err = fmt.Errorf("%s: %w", key, err)
	}
}

// whenEnabled completes the outcome of a case about a device that is off: a pass also needs that the device, once it is
// enabled, reacts to the same packets.
func (x *trial) whenEnabled(o outcome, reacts func() bool) outcome {
	d := &x.profile.Device
	if o.verdict != pass {
		return o
	}
	x.require(len(d.Enable) > 0,
		unclear("%s; it is not known whether the device reacts when it is enabled: want device.enable", o.seen))
	defer func() {
		x.onlyForwards = true
		x.keepError("device.disable", x.finish(d.Disable, x.profile.Time.Case))
	}()
	begin := x.rig.now()
	x.onlyForwards = true
	err := x.finish(d.Enable, x.profile.Time.Case)
	x.onlyForwards = false
	x.deadline = x.deadline.Add(x.rig.now().Sub(begin))
	x.require(err == nil, unclear("device.enable: %v", err))
	for first := true; first || x.err == nil && x.hasTime(max(2*x.profile.Time.Settle, 500*time.Millisecond)); {
		if reacts() {
			return passed("%s, and a reaction after device.enable", o.seen)
		}
		first = false
		x.settle() // it may need some time to begin
	}
	return unclear("%s, but also no reaction after device.enable", o.seen)
}
