package run

import (
	"context"
	"log/slog"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/rdma"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
)

// deviceInterval is the time between two queries of an RDMA device.
const deviceInterval = time.Second

// readDevicePairs returns the queue pairs of the RDMA device with this name, or of all devices for "any".
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

// pollDevice queries an RDMA device every deviceInterval until ctx ends, and sends its queue pairs to a channel.
// Each list replaces the one before; after an error the list is empty.
func pollDevice(ctx context.Context, device string, to chan<- []roles.DevicePair, log *slog.Logger) {
	failed := false
	for {
		all, err := readDevicePairs(ctx, device)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failed:
			log.Warn("queue pairs of the RDMA device cannot be read", "error", err)
		case err == nil && failed:
			log.Info("queue pairs of the RDMA device can be read again")
		}
		failed = err != nil
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

// startDevices starts polling the devices of all roles that have one. haltWorkers ends it.
func (s *server) startDevices(ctx context.Context) {
	ctx, s.stopDevices = context.WithCancel(ctx)
	for _, a := range s.actors {
		a.device = make(chan []roles.DevicePair, 1)
		if device := a.instance.Agent.RDMA; device != "" {
			go pollDevice(ctx, device, a.device, s.log.With("role", a.instance.Name))
		} else {
			a.device <- nil // forget the pairs of an earlier device
		}
	}
}

// receiveDevicePairs passes new queue pairs of its device to the role.
func (a *actor) receiveDevicePairs() {
	select {
	case all := <-a.device:
		if r, ok := a.Role.(*roles.Sender); ok {
			r.SetDevice(all)
		}
	default:
	}
}
