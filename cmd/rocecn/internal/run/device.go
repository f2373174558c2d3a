package run

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/rdma"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
)

// deviceInterval is the time between two queries of an RDMA device.
const deviceInterval = time.Second

// readDevice returns the queue pairs of the RDMA device with this name, or of all devices for "any".
func readDevice(ctx context.Context, device string) (*roles.Device, error) {
	if device == anyDevice {
		device = ""
	}
	pairs, err := rdma.Pairs(ctx, device)
	if err != nil {
		return nil, err
	}
	d := &roles.Device{}
	for _, p := range pairs {
		d.Pairs = append(d.Pairs, roles.DevicePair(p))
	}
	addrs, _ := net.InterfaceAddrs() // the addresses of the role stay
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			d.Addrs = append(d.Addrs, prefix.Addr().Unmap())
		}
	}
	return d, nil
}

// Values of the key rdma besides the name of a device. An absent key stands for anyDevice while this host has a device.
const (
	anyDevice = "any"
	noDevice  = "none"
)

// listDevices returns the names of the RDMA devices of this host. Tests change it.
var listDevices = rdma.Devices

// pollDevice queries an RDMA device every deviceInterval until ctx ends, and sends its queue pairs to a channel.
// Each list replaces the one before; after an error the list is empty. If device is "", it queries all devices while
// this host has one.
func pollDevice(ctx context.Context, device string, to chan<- *roles.Device, log *slog.Logger) {
	failed, queried := false, false
	for {
		var d *roles.Device
		var err error
		if device != "" || len(listDevices()) > 0 {
			d, err = readDevice(ctx, cmp.Or(device, anyDevice))
			if err == nil && !queried {
				log.Info("queue pairs are read from the RDMA devices of this host", "pairs", len(d.Pairs))
				queried = true
			}
		}
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
		case to <- d:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(deviceInterval):
		}
	}
}

// startDevices starts polling the devices of all roles that take queue pairs from one. haltWorkers ends it.
func (s *server) startDevices(ctx context.Context) {
	ctx, s.stopDevices = context.WithCancel(ctx)
	for _, a := range s.actors {
		a.device = make(chan *roles.Device, 1)
		if a.usesDevice() {
			go pollDevice(ctx, a.instance.Agent.RDMA, a.device, s.log.With("role", a.instance.Name))
		} else {
			a.device <- nil // forget the pairs of an earlier device
		}
	}
}

// usesDevice reports whether the role takes queue pairs from an RDMA device. By default it does unless its packets are
// those of a capture, which may come from another host.
func (a *actor) usesDevice() bool {
	_, ok := a.Role.(roles.DeviceUser)
	device := a.instance.Agent.RDMA
	return ok && device != noDevice && (device != "" || a.live || a.inKernel)
}

// receiveDevicePairs passes new queue pairs of its device to the role.
func (a *actor) receiveDevicePairs() {
	select {
	case d := <-a.device:
		if r, ok := a.Role.(roles.DeviceUser); ok {
			r.SetDevice(d)
		}
	default:
	}
}

// formatPairs describes the origin of the queue pairs of a role, or returns "".
func (f *file) formatPairs(r *roles.Instance) string {
	var learns, given bool
	switch c := r.Config.(type) {
	case *roles.SenderConfig:
		learns, given = c.Learn, len(c.QPs) > 0
	case *roles.ReceiverConfig:
		learns, given = c.Learn, len(c.QPs) > 0
	case *roles.ProxyConfig:
		learns = true
	default:
		return ""
	}
	device := r.Agent.RDMA
	var from []string
	switch device {
	case noDevice:
	case "", anyDevice:
		from = append(from, "the RDMA devices of this host ("+cmp.Or(strings.Join(listDevices(), ", "), "none now")+")")
	default:
		from = append(from, "the RDMA device "+device)
	}
	if given {
		from = append(from, "the key qps")
	}
	if learns {
		from = append(from, "packets")
	}
	text := fmt.Sprintf("role.%s: queue pairs from %s\n", r.Name, cmp.Or(strings.Join(from, ", "), "nowhere"))
	if learns && (device == noDevice || device == "" && len(listDevices()) == 0) {
		text += fmt.Sprintf("role.%s: queue pairs that send the same PSNs at the same time, as those of NCCL, cannot "+
			"be learned from packets, unless the connection manager connects them, or each has its own UDP source "+
			"port and learn_port is true\n", r.Name)
	}
	return text
}
