package neighbour

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"golang.org/x/sys/unix"
)

var ne = binary.NativeEndian

// A system holds the netlink sockets of a Watch.
type system struct {
	events, requests *netlink.Socket
	device           int32
	requestedAt      time.Time // last request for neighbours with waiting packets
}

// Open opens a watch for packets that leave by the interface or VRF with this index, or by any route if it is 0.
// It needs no capability.
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

// Close closes the watch, and returns the number of packets that still wait.
func (w *Watch) Close() (waiting uint64) {
	w.events.Close()
	w.requests.Close()
	return w.countWaiting()
}

// Poll returns the fate of packets since the last call, and reports whether routes or interfaces have changed.
func (w *Watch) Poll(now time.Time) (f Fate, rerouted bool, err error) {
	if rerouted, err = w.readEvents(&f); err != nil {
		return f, rerouted, err
	}
	if rerouted || len(w.destinations) >= maxDestinations {
		w.forgetRoutes()
	}
	for requested := 0; len(w.unresolved) > 0 && requested < maxRequests; {
		to := w.unresolved[len(w.unresolved)-1]
		w.unresolved = w.unresolved[:len(w.unresolved)-1]
		if w.destinations[to].waiting.Packets == 0 { // the kernel rejected all of them
			delete(w.destinations, to)
			continue
		}
		w.resolveDestination(to, &f)
		requested++
	}
	if now.Sub(w.requestedAt) >= time.Second { // in case an event was lost
		w.requestedAt = now
		for h, n := range w.hops {
			if n.waiting.Packets > 0 {
				w.requestNeighbour(h, n, &f)
			}
		}
	}
	return f, rerouted, nil
}

// readEvents reads a limited number of events, so that the sink does not wait for long.
func (w *Watch) readEvents(f *Fate) (rerouted bool, err error) {
	const maxEvents = 64
	for range maxEvents {
		datagrams, err := w.events.Receive()
		switch {
		case err == unix.EAGAIN:
			return rerouted, nil
		case err == unix.ENOBUFS: // an unknown event was lost
			rerouted, w.requestedAt = true, time.Time{}
			continue
		case err == unix.EINTR:
			continue
		case err != nil:
			return rerouted, err
		}
		for _, b := range datagrams {
			for m, b, ok := netlink.SplitMessage(b); ok; m, b, ok = netlink.SplitMessage(b) {
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

// validStates are the states in which the kernel sends packets to a neighbour.
const validStates = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_NOARP |
	unix.NUD_PERMANENT

// updateNeighbour applies a message about a neighbour.
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

// decodeNeighbour decodes struct ndmsg and its attributes: family 8, padding 24, interface 32, state 16, flags 8,
// type 8.
func decodeNeighbour(b []byte) (h hop, state uint16, ok bool) {
	if len(b) < unix.SizeofNdMsg {
		return h, 0, false
	}
	h.interfaceIndex, state = int32(ne.Uint32(b[4:])), ne.Uint16(b[8:])
	b = b[unix.SizeofNdMsg:]
	for kind, data, b, more := netlink.SplitAttribute(b); more; kind, data, b, more = netlink.SplitAttribute(b) {
		if kind == unix.NDA_DST {
			h.address, ok = netip.AddrFromSlice(data)
		}
	}
	return h, state, ok
}

// resolveDestination looks up the next hop of a destination.
func (w *Watch) resolveDestination(to netip.Addr, f *Fate) {
	n := w.destinations[to]
	h, found := w.lookUpRoute(to)
	if !found { // no event will come for it, nor for a packet that has lost its route since
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

// lookUpRoute returns the next hop to a destination, if it is one that needs a neighbour.
func (w *Watch) lookUpRoute(to netip.Addr) (h hop, found bool) {
	// family 8, length of destination 8, of source 8, TOS 8, table 8, protocol 8, scope 8, type 8, flags 32
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
		for kind, data, b, ok := netlink.SplitAttribute(b); ok; kind, data, b, ok = netlink.SplitAttribute(b) {
			switch {
			case kind == unix.RTA_OIF && len(data) == 4:
				h.interfaceIndex = int32(ne.Uint32(data))
			case kind == unix.RTA_GATEWAY:
				h.address, _ = netip.AddrFromSlice(data)
			case kind == unix.RTA_VIA && len(data) > 2: // family 16, address
				h.address, _ = netip.AddrFromSlice(data[2:])
			case kind == unix.RTA_ENCAP: // the next hop of the tunnel itself is another one
				found = false
			}
		}
	})
	return h, found && err == nil && h.interfaceIndex != 0 && h.address.IsValid()
}

// requestNeighbour queries the kernel for the state of a neighbour.
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
	if err == unix.ENOENT { // if the interface uses neighbours, the entry has expired
		f.settleNeighbour(n, !w.usesNeighbours(h.interfaceIndex))
	}
}

// usesNeighbours reports whether an interface resolves hardware addresses. It returns true for a missing
// interface, by which no packet could have left.
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
		for kind, data, b, ok := netlink.SplitAttribute(b); ok; kind, data, b, ok = netlink.SplitAttribute(b) {
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
