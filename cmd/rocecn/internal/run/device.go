package run

import (
	"context"
	"log/slog"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/rdma"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
)

// asked is how often an RDMA device is asked for its queue pairs.
const deviceInterval = time.Second

// readDevicePairs asks the RDMA device of a role for its queue pairs: a name, or any.
func readDevicePairs(ctx context.Context, device string) ([]roles.DevicePair, error) {
	if device == "any" {
		device = ""
	}
	pairs, err := rdma.Pairs(ctx, device)
	if err != nil {
		return nil, err
	}
	all := make([]roles.DevicePair, 0, len(pairs))
	for _, p := range pairs {
		all = append(all, roles.DevicePair(p))
	}
	return all, nil
}

// pollDevice asks an RDMA device time and again until ctx ends, and hands on what it says. What it does not say is not
// known any more.
func pollDevice(ctx context.Context, device string, to chan<- []roles.DevicePair, log *slog.Logger) {
	said := false
	for {
		all, err := readDevicePairs(ctx, device)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !said:
			log.Warn("the RDMA device does not say its queue pairs", "error", err)
		case err == nil && said:
			log.Info("the RDMA device says its queue pairs again")
		}
		said = err != nil
		select {
		case <-ctx.Done():
			return
		case to <- all:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(deviceInterval):
		}
	}
}

// startDevices begins to ask the devices of all roles that have one, until halt.
func (s *server) startDevices(ctx context.Context) {
	ctx, s.stopDevices = context.WithCancel(ctx)
	for _, a := range s.actors {
		a.device = make(chan []roles.DevicePair, 1)
		if device := a.instance.Agent.RDMA; device != "" {
			go pollDevice(ctx, device, a.device, s.log.With("role", a.instance.Name))
		} else {
			a.device <- nil // none, whatever was asked before
		}
	}
}

// receiveDevicePairs tells the role what its device has said since.
func (a *actor) receiveDevicePairs() {
	select {
	case all := <-a.device:
		if r, ok := a.Role.(*roles.Sender); ok {
			r.SetDevice(all)
		}
	default:
	}
}
