package run

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/rdma"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
)

// deviceInterval is the time between two queries of the RDMA devices.
const deviceInterval = time.Second

// A devicePoller reads the queue pairs of the RDMA devices of this host for all roles that take them from there.
type devicePoller struct {
	users  []deviceUser
	reader rdma.Reader
	log    *slog.Logger
	last   *deviceState // nil before the first query
}

// A deviceUser is a role that takes queue pairs from RDMA devices.
type deviceUser struct {
	device string                        // value of the key rdma
	pairs  *atomic.Pointer[roles.Device] // nil while they are unknown
}

// A deviceState is the result of a query of the RDMA devices.
type deviceState struct {
	present bool // this host has an RDMA device
	queried bool
	err     error
	pairs   []rdma.Pair
	addrs   []netip.Addr // addresses of this host
}

// run queries the devices every deviceInterval until ctx ends.
func (p *devicePoller) run(ctx context.Context) {
	for {
		s := p.queryDevices(ctx)
		if ctx.Err() != nil {
			return
		}
		p.update(s)
		select {
		case <-ctx.Done():
			return
		case <-time.After(deviceInterval):
		}
	}
}

// queryDevices reads the queue pairs of all devices. Without a device it does so only if a role names one.
func (p *devicePoller) queryDevices(ctx context.Context) (s deviceState) {
	s.present = len(listDevices()) > 0
	s.queried = s.present || slices.ContainsFunc(p.users, func(u deviceUser) bool { return u.device != "" })
	if !s.queried {
		return s
	}
	if s.pairs, s.err = p.reader.Pairs(ctx); s.err != nil {
		return s
	}
	addrs, _ := net.InterfaceAddrs() // the addresses of the role stay
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			s.addrs = append(s.addrs, prefix.Addr().Unmap())
		}
	}
	return s
}

// update passes the queue pairs to the roles if they have changed since the last query. After an error they are
// unknown. A role without the key rdma uses all devices while this host has one.
func (p *devicePoller) update(s deviceState) {
	var before deviceState
	first := p.last == nil
	if !first {
		before = *p.last
	}
	p.last = &s
	switch {
	case s.err != nil && before.err == nil:
		p.log.Warn("the queue pairs of the RDMA devices cannot be read", "error", s.err)
	case s.err == nil && before.err != nil:
		p.log.Info("the queue pairs of the RDMA devices can be read again")
	case s.queried && !before.queried:
		p.log.Info("queue pairs are read from the RDMA devices of this host", "pairs", len(s.pairs))
	}
	if !first && s.present == before.present && s.queried == before.queried && (s.err == nil) == (before.err == nil) &&
		slices.Equal(s.pairs, before.pairs) && slices.Equal(s.addrs, before.addrs) {
		return
	}
	devices := map[string]*roles.Device{}
	for _, u := range p.users {
		if s.err != nil || !s.queried || u.device == "" && !s.present {
			u.pairs.Store(nil)
			continue
		}
		name := cmp.Or(u.device, anyDevice)
		if devices[name] == nil {
			var pairs []roles.DevicePair
			for _, pair := range s.pairs {
				if name == anyDevice || name == pair.Device {
					pairs = append(pairs, roles.DevicePair{QP: pair.QP, RemoteQP: pair.RemoteQP, Remote: pair.Remote})
				}
			}
			devices[name] = roles.NewDevice(pairs, s.addrs)
		}
		u.pairs.Store(devices[name])
	}
}

// Values of the key rdma besides the name of a device. An absent key stands for anyDevice while this host has a device.
const (
	anyDevice = "any"
	noDevice  = "none"
)

// listDevices returns the names of the RDMA devices of this host. Tests change it.
var listDevices = rdma.Devices

// startDevices starts polling the RDMA devices for all roles that take queue pairs from there. haltWorkers ends it.
func (s *server) startDevices(ctx context.Context) {
	ctx, s.stopDevices = context.WithCancel(ctx)
	p := &devicePoller{log: s.log}
	for _, a := range s.actors {
		a.devicePairs = new(atomic.Pointer[roles.Device]) // a poller that was stopped may still write to the old one
		device := a.instance.Agent.RDMA
		if origin := cmp.Or(device, anyDevice); !a.usesDevice() || origin != a.pairsOrigin {
			a.receivedPairs, a.pairsOrigin = nil, origin // forget the pairs of an earlier device
		}
		if a.usesDevice() {
			p.users = append(p.users, deviceUser{device, a.devicePairs})
		}
		a.devicePairs.Store(a.receivedPairs)
		if r, ok := a.Role.(roles.DeviceUser); ok { // may be a new role
			r.SetDevice(a.receivedPairs)
		}
	}
	if len(p.users) > 0 {
		go p.run(ctx)
	}
}

// usesDevice reports whether the role takes queue pairs from an RDMA device. By default it does unless its packets are
// those of a capture, which may come from another host.
func (a *actor) usesDevice() bool {
	_, ok := a.Role.(roles.DeviceUser)
	device := a.instance.Agent.RDMA
	return ok && device != noDevice && (device != "" || a.live || a.inKernel)
}

// receiveDevicePairs passes changed queue pairs of its device to the role.
func (a *actor) receiveDevicePairs() {
	if a.devicePairs == nil { // no worker was started
		return
	}
	d := a.devicePairs.Load()
	if d == a.receivedPairs {
		return
	}
	a.receivedPairs = d
	if r, ok := a.Role.(roles.DeviceUser); ok {
		r.SetDevice(d)
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
