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
	w := &Watch{to: map[netip.Addr]*neighbour{}, hops: map[hop]*neighbour{}}
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
	return w.waits()
}

// Look tells what has become of packets since it was last called, and whether routes
// or interfaces have changed.
func (w *Watch) Look(now time.Time) (f Fate, rerouted bool, err error) {
	if rerouted, err = w.read(&f); err != nil {
		return f, rerouted, err
	}
	if rerouted || len(w.to) >= maxDestinations {
		w.forget()
	}
	for asked := 0; len(w.fresh) > 0 && asked < maxAsked; {
		to := w.fresh[len(w.fresh)-1]
		w.fresh = w.fresh[:len(w.fresh)-1]
		if w.to[to].waiting.Packets == 0 { // the kernel has refused all of it
			delete(w.to, to)
			continue
		}
		w.resolve(to, &f)
		asked++
	}
	if now.Sub(w.asked) >= time.Second { // what was not heard of
		w.asked = now
		for h, n := range w.hops {
			if n.waiting.Packets > 0 {
				w.ask(h, n, &f)
			}
		}
	}
	return f, rerouted, nil
}

// read reads what has changed, unless it is so much that a sink would have to wait.
func (w *Watch) read(f *Fate) (rerouted bool, err error) {
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
					w.neighbour(m, f)
				default:
					rerouted = true
				}
			}
		}
	}
	return rerouted, nil
}

// valid are the states in which the kernel sends packets to a neighbour.
const valid = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_NOARP |
	unix.NUD_PERMANENT

// neighbour takes note of what a message says of a neighbour.
func (w *Watch) neighbour(m netlink.Message, f *Fate) {
	h, state, ok := decode(m.Data)
	n := w.hops[h]
	switch {
	case !ok || n == nil:
	case m.Type == unix.RTM_DELNEIGH || state&unix.NUD_FAILED != 0:
		f.becomes(n, false)
	case state&valid != 0:
		f.becomes(n, true)
	default:
		n.known = false
	}
}

// decode returns what a struct ndmsg and its attributes say: family 8, padding 24,
// interface 32, state 16, flags 8, type 8.
func decode(b []byte) (h hop, state uint16, ok bool) {
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

// resolve finds out by which neighbour a destination is reached.
func (w *Watch) resolve(to netip.Addr, f *Fate) {
	n := w.to[to]
	h, found := w.route(to)
	if !found { // nothing will ever be heard of it, nor of a packet whose route has gone since it was sent
		f.becomes(n, true)
		return
	}
	known := w.hops[h]
	if known == nil {
		w.hops[h] = n
		w.ask(h, n, f)
		return
	}
	if known.waiting = known.waiting.Plus(n.waiting); known.known {
		f.becomes(known, true)
	}
	w.to[to] = known
}

// route returns the next hop on the way to a destination, if there is one whose
// neighbour matters.
func (w *Watch) route(to netip.Addr) (h hop, found bool) {
	// family 8, octets of destination 8, of source 8, TOS 8, table 8, protocol 8, scope 8, type 8, flags 32
	request := make([]byte, unix.SizeofRtMsg)
	request[0], request[1] = family(to), uint8(to.BitLen())
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

// ask asks the kernel for a neighbour.
func (w *Watch) ask(h hop, n *neighbour, f *Fate) {
	request := make([]byte, unix.SizeofNdMsg)
	request[0] = family(h.address)
	ne.PutUint32(request[4:], uint32(h.interfaceIndex))
	request = netlink.AppendAttribute(request, unix.NDA_DST, h.address.AsSlice()...)
	err := w.requests.Request(unix.RTM_GETNEIGH, 0, request, func(m netlink.Message) {
		if m.Type == unix.RTM_NEWNEIGH {
			w.neighbour(m, f)
		}
	})
	if err == unix.ENOENT { // where addresses are resolved it was there, and has been let go
		f.becomes(n, !w.resolves(h.interfaceIndex))
	}
}

// resolves says whether an interface has neighbours whose hardware addresses must be found. One that is gone has none
// that a packet could have left by.
func (w *Watch) resolves(interfaceIndex int32) bool {
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

func family(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
