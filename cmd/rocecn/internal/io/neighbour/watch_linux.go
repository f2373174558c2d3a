package neighbour

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"golang.org/x/sys/unix"
)

var ne = binary.NativeEndian

// A system is what the kernel is asked by.
type system struct {
	events, requests *netlink.Socket
	device           int32
	asked            time.Time // for neighbours that packets wait for
}

// Open opens a watch for packets that leave by the interface or VRF with this number,
// 0 if the routes say by which. It needs no capability.
func Open(device int) (*Watch, error) {
	w := &Watch{destinations: map[netip.Addr]*neighbour{}, hops: map[hop]*neighbour{}}
	w.device = int32(device)
	var err error
	if w.events, err = netlink.Open(unix.NETLINK_ROUTE); err != nil {
		return nil, err
	}
	if w.requests, err = netlink.Open(unix.NETLINK_ROUTE); err != nil {
		w.events.Close()
		return nil, err
	}
	for _, group := range []uint32{
		unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_LINK,
	} {
		if err := w.events.Join(group); err != nil {
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

// Close closes the watch. It returns how many packets wait still.
func (w *Watch) Close() (waiting uint64) {
	w.events.Close()
	w.requests.Close()
	return w.countWaiting()
}

// Poll tells what has become of packets since it was last called, and whether routes
// or interfaces have changed.
func (w *Watch) Poll(now time.Time) (f Fate, rerouted bool, err error) {
	if rerouted, err = w.readEvents(&f); err != nil {
		return f, rerouted, err
	}
	if rerouted || len(w.destinations) >= maxDestinations {
		w.forgetRoutes()
	}
	for asked := 0; len(w.unresolved) > 0 && asked < maxRequests; {
		to := w.unresolved[len(w.unresolved)-1]
		w.unresolved = w.unresolved[:len(w.unresolved)-1]
		if w.destinations[to].waiting.Packets == 0 { // the kernel has refused all of it
			delete(w.destinations, to)
			continue
		}
		w.resolveDestination(to, &f)
		asked++
	}
	if now.Sub(w.asked) >= time.Second { // what was not heard of
		w.asked = now
		for h, n := range w.hops {
			if n.waiting.Packets > 0 {
				w.requestNeighbour(h, n, &f)
			}
		}
	}
	return f, rerouted, nil
}

// readEvents reads what has changed, unless it is so much that a sink would have to wait.
func (w *Watch) readEvents(f *Fate) (rerouted bool, err error) {
	const atOnce = 64
	for range atOnce {
		datagrams, err := w.events.Receive()
		switch {
		case err == unix.EAGAIN:
			return rerouted, nil
		case err == unix.ENOBUFS: // whatever it was that is lost
			rerouted, w.asked = true, time.Time{}
			continue
		case err == unix.EINTR:
			continue
		case err != nil:
			return rerouted, err
		}
		for _, b := range datagrams {
			for m, b, ok := netlink.Cut(b); ok; m, b, ok = netlink.Cut(b) {
				switch m.Type {
				case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
					w.updateNeighbour(m, f)
				default:
					rerouted = true
				}
			}
		}
	}
	return rerouted, nil
}

// valid are the states in which the kernel sends packets to a neighbour.
const validStates = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_NOARP |
	unix.NUD_PERMANENT

// updateNeighbour takes note of what a message says of a neighbour.
func (w *Watch) updateNeighbour(m netlink.Message, f *Fate) {
	h, state, ok := decodeNeighbour(m.Data)
	n := w.hops[h]
	switch {
	case !ok || n == nil:
	case m.Type == unix.RTM_DELNEIGH || state&unix.NUD_FAILED != 0:
		f.settleNeighbour(n, false)
	case state&validStates != 0:
		f.settleNeighbour(n, true)
	default:
		n.known = false
	}
}

// decodeNeighbour returns what a struct ndmsg and its attributes say: family 8, padding 24,
// interface 32, state 16, flags 8, type 8.
func decodeNeighbour(b []byte) (h hop, state uint16, ok bool) {
	if len(b) < unix.SizeofNdMsg {
		return h, 0, false
	}
	h.interfaceIndex, state = int32(ne.Uint32(b[4:])), ne.Uint16(b[8:])
	b = b[unix.SizeofNdMsg:]
	for kind, data, b, more := netlink.CutAttribute(b); more; kind, data, b, more = netlink.CutAttribute(b) {
		if kind == unix.NDA_DST {
			h.address, ok = netip.AddrFromSlice(data)
		}
	}
	return h, state, ok
}

// resolveDestination finds out by which neighbour a destination is reached.
func (w *Watch) resolveDestination(to netip.Addr, f *Fate) {
	n := w.destinations[to]
	h, found := w.lookUpRoute(to)
	if !found { // nothing will ever be heard of it, nor of a packet whose route has gone since it was sent
		f.settleNeighbour(n, true)
		return
	}
	known := w.hops[h]
	if known == nil {
		w.hops[h] = n
		w.requestNeighbour(h, n, f)
		return
	}
	if known.waiting = known.waiting.Add(n.waiting); known.known {
		f.settleNeighbour(known, true)
	}
	w.destinations[to] = known
}

// lookUpRoute returns the next hop on the way to a destination, if there is one whose
// neighbour matters.
func (w *Watch) lookUpRoute(to netip.Addr) (h hop, found bool) {
	// family 8, octets of destination 8, of source 8, TOS 8, table 8, protocol 8, scope 8, type 8, flags 32
	request := make([]byte, unix.SizeofRtMsg)
	request[0], request[1] = addressFamily(to), uint8(to.BitLen())
	request = netlink.AppendAttribute(request, unix.RTA_DST, to.AsSlice()...)
	if w.device != 0 {
		request = netlink.AppendAttribute(request, unix.RTA_OIF, ne.AppendUint32(nil, uint32(w.device))...)
	}
	h.address = to
	err := w.requests.Request(unix.RTM_GETROUTE, 0, request, func(m netlink.Message) {
		b := m.Data
		if m.Type != unix.RTM_NEWROUTE || len(b) < unix.SizeofRtMsg {
			return
		}
		found = b[7] == unix.RTN_UNICAST
		b = b[unix.SizeofRtMsg:]
		for kind, data, b, ok := netlink.CutAttribute(b); ok; kind, data, b, ok = netlink.CutAttribute(b) {
			switch {
			case kind == unix.RTA_OIF && len(data) == 4:
				h.interfaceIndex = int32(ne.Uint32(data))
			case kind == unix.RTA_GATEWAY:
				h.address, _ = netip.AddrFromSlice(data)
			case kind == unix.RTA_VIA && len(data) > 2: // family 16, address
				h.address, _ = netip.AddrFromSlice(data[2:])
			case kind == unix.RTA_ENCAP: // the tunnel's own next hop is not this one
				found = false
			}
		}
	})
	return h, found && err == nil && h.interfaceIndex != 0 && h.address.IsValid()
}

// requestNeighbour asks the kernel for a neighbour.
func (w *Watch) requestNeighbour(h hop, n *neighbour, f *Fate) {
	request := make([]byte, unix.SizeofNdMsg)
	request[0] = addressFamily(h.address)
	ne.PutUint32(request[4:], uint32(h.interfaceIndex))
	request = netlink.AppendAttribute(request, unix.NDA_DST, h.address.AsSlice()...)
	err := w.requests.Request(unix.RTM_GETNEIGH, 0, request, func(m netlink.Message) {
		if m.Type == unix.RTM_NEWNEIGH {
			w.updateNeighbour(m, f)
		}
	})
	if err == unix.ENOENT { // where addresses are resolved it was there, and has been let go
		f.settleNeighbour(n, !w.usesNeighbours(h.interfaceIndex))
	}
}

// usesNeighbours says whether an interface has neighbours whose hardware addresses must be found. One that is gone has none
// that a packet could have left by.
func (w *Watch) usesNeighbours(interfaceIndex int32) bool {
	// family 8, padding 8, type 16, interface 32, flags 32, change 32
	request := make([]byte, unix.SizeofIfInfomsg)
	ne.PutUint32(request[4:], uint32(interfaceIndex))
	all := true
	_ = w.requests.Request(unix.RTM_GETLINK, 0, request, func(m netlink.Message) {
		b := m.Data
		if m.Type != unix.RTM_NEWLINK || len(b) < unix.SizeofIfInfomsg {
			return
		}
		flags, hasAddress := ne.Uint32(b[8:]), false
		b = b[unix.SizeofIfInfomsg:]
		for kind, data, b, ok := netlink.CutAttribute(b); ok; kind, data, b, ok = netlink.CutAttribute(b) {
			hasAddress = hasAddress || kind == unix.IFLA_ADDRESS && len(data) > 0
		}
		all = hasAddress && flags&(unix.IFF_NOARP|unix.IFF_LOOPBACK|unix.IFF_POINTOPOINT) == 0
	})
	return all
}

func addressFamily(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
