package roles

import (
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A DeviceUser is a role that can take the queue pairs of the host's RDMA device.
type DeviceUser interface {
	// SetDevice sets the queue pairs of the host's RDMA devices, or nil if they are unknown.
	SetDevice(d *Device)
}

var _ = []DeviceUser{&Sender{}, &Receiver{}, &Proxy{}}

// A DevicePair is a connected queue pair of the host, as its RDMA device reports it. Remote is the zero Addr if the
// device does not report the remote address.
type DevicePair struct {
	QP, RemoteQP uint32
	Remote       netip.Addr
}

// A Device has the queue pairs of the RDMA devices of a host. It never changes, so that roles can share it.
type Device struct {
	addrs     []netip.Addr            // addresses of the host, besides those of the role
	byRemote  map[uint32][]DevicePair // by the queue pair at the other end
	remotes   map[uint32]netip.Addr   // remote address, by the host's own queue pair
	remoteQPs map[uint32]uint32       // remote queue pair, by the host's own queue pair
}

// NewDevice returns a Device with at most 131,072 of these queue pairs. addrs are the addresses of the host, besides
// those of the roles; the Device keeps the slice.
func NewDevice(all []DevicePair, addrs []netip.Addr) *Device {
	d := &Device{
		addrs: addrs, byRemote: map[uint32][]DevicePair{}, remotes: map[uint32]netip.Addr{},
		remoteQPs: map[uint32]uint32{},
	}
	for _, p := range all[:min(len(all), maxLearned)] {
		d.byRemote[p.RemoteQP] = append(d.byRemote[p.RemoteQP], p)
		d.remotes[p.QP], d.remoteQPs[p.QP] = p.Remote, p.RemoteQP
	}
	return d
}

// Len returns the number of queue pairs of the host.
func (d *Device) Len() int { return len(d.remotes) }

// findSent returns the queue pair that sends a flow of the host: the only one that is connected to this one at the
// other end, by the known address of that end.
func (d *Device) findSent(k *rocev2.FlowKey) (qp uint32, err error) {
	n := 0
	for _, p := range d.byRemote[k.DestQP] {
		if p.Remote == k.Dst {
			return p.QP, nil
		}
		if !p.Remote.IsValid() {
			qp, n = p.QP, n+1
		}
	}
	switch n {
	case 0:
		return 0, qpmap.ErrUnknown
	case 1:
		return qp, nil
	}
	return 0, qpmap.ErrAmbiguous
}

// findReceived returns the queue pair that sends a flow to the host: the one to which the host's queue pair is
// connected, unless that is at another address.
func (d *Device) findReceived(k *rocev2.FlowKey) (qp uint32, err error) {
	if remote, ok := d.remotes[k.DestQP]; !ok || remote.IsValid() && remote != k.Src {
		return 0, qpmap.ErrUnknown
	}
	return d.remoteQPs[k.DestQP], nil
}

// isSelf reports whether an address is the host's own.
func (p *pairs) isSelf(a netip.Addr) bool { return a.IsValid() && (a == p.self4 || a == p.self6) }

// isHost reports whether an address is the host's own, or one of its interfaces.
func (p *pairs) isHost(a netip.Addr) bool { return p.isSelf(a) || slices.Contains(p.device.addrs, a) }

// setDevice sets the queue pairs of the host's device, or nil if they are unknown.
func (p *pairs) setDevice(d *Device) { p.device = d }

// deviceQP returns the queue pair that sends a flow from or to the host, by its device.
func (p *pairs) deviceQP(k *rocev2.FlowKey) (qp uint32, err error) {
	switch {
	case p.device == nil:
		return 0, qpmap.ErrUnknown
	case p.isHost(k.Src):
		return p.device.findSent(k)
	case p.isHost(k.Dst):
		return p.device.findReceived(k)
	}
	return 0, qpmap.ErrUnknown
}

// preferDevice returns the queue pair that sends a flow: of the device if it knows one, otherwise the given result of
// the configured or learned pairs.
func (p *pairs) preferDevice(k *rocev2.FlowKey, pair qpmap.Pair, err error, now time.Time) (qpmap.Pair, error) {
	qp, unknown := p.deviceQP(k)
	switch {
	case unknown == nil && (err != nil || pair.SrcQP != qp):
		return qpmap.Pair{SrcQP: qp, PKey: defaultPKey, Seen: now}, nil
	case unknown == qpmap.ErrAmbiguous && err != nil:
		return qpmap.Pair{}, unknown
	}
	return pair, err
}

// SourceQP returns the queue pair that sends a flow.
func (p *pairs) SourceQP(k qpmap.Key, now time.Time) (pair qpmap.Pair, err error) {
	if err = qpmap.ErrAmbiguous; !p.either[k.FlowKey] {
		pair, err = p.Map.SourceQP(k, now)
	}
	return p.preferDevice(&k.FlowKey, pair, err, now)
}

// SourceQPOf returns the queue pair that has sent a packet of a flow.
func (p *pairs) SourceQPOf(k qpmap.Key, h *bth.Header, now time.Time) (pair qpmap.Pair, err error) {
	if err = qpmap.ErrAmbiguous; !p.either[k.FlowKey] {
		pair, err = p.Map.SourceQPOf(k, h, now)
	}
	return p.preferDevice(&k.FlowKey, pair, err, now)
}

// SourceQPAmid returns the queue pair that sends a flow with which forged packets are mixed.
func (p *pairs) SourceQPAmid(k qpmap.Key, now time.Time) (pair qpmap.Pair, err error) {
	if err = qpmap.ErrAmbiguous; !p.either[k.FlowKey] {
		pair, err = p.Map.SourceQPAmid(k, now)
	}
	return p.preferDevice(&k.FlowKey, pair, err, now)
}

// Connects returns nil if the receiver of a flow has a connection with a queue pair at its source.
func (p *pairs) Connects(k qpmap.Key, now time.Time) error {
	if _, err := p.deviceQP(&k.FlowKey); err == nil {
		return nil
	}
	if p.either[k.FlowKey] {
		return qpmap.ErrAmbiguous
	}
	return p.Map.Connects(k, now)
}

// defaultPKey is the one that all hosts of RoCEv2 have.
const defaultPKey = 0xFFFF
