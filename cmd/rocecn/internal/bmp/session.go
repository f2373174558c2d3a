package bmp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/packet/bmp"
)

// A Session passes the messages of one connection of a router to a Table. One goroutine uses it.
type Session struct {
	table  *Table
	router netip.Addr
	since  time.Time
	name   string             // guarded by table.mu
	best   [families]viewKind // best view that the router has reported
}

var (
	errRouters    = fmt.Errorf("%d routers are connected: want at most this many", MaxRouters)
	errUnaccepted = errors.New("the address of the router is not in accept")
)

// Open begins a session of a router. The error is that its address is not accepted, or that there are too many
// sessions.
func (t *Table) Open(router netip.Addr, now time.Time) (*Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.acceptsRouter(router):
		t.counts.Rejected++
		return nil, errUnaccepted
	case len(t.sessions) >= MaxRouters:
		t.counts.Rejected++
		return nil, errRouters
	}
	s := &Session{table: t, router: router, since: now, best: [families]viewKind{noView, noView}}
	t.sessions = append(t.sessions, s)
	return s, nil
}

// Close ends the session. The table keeps its advertisements for the hold time, which begins now.
func (s *Session) Close(now time.Time) {
	t := s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions = slices.DeleteFunc(t.sessions, func(open *Session) bool { return open == s })
	for _, v := range t.views {
		if v.session == s {
			v.session, v.reports = nil, [families]bool{}
			t.holdRoutes(v, now)
			t.removeIfUnused(v)
		}
	}
}

// ErrTerminated is the error of a session that the router has ended.
var ErrTerminated = errors.New("the router has terminated the session")

// Receive handles one message of the router. Messages that cannot be decoded are counted and otherwise ignored. An
// error ends the session: ErrTerminated, or the router is no longer accepted.
func (s *Session) Receive(message []byte, now time.Time) error {
	t := s.table
	m, err := decodeMessage(message, s.listOptions) // without the lock, since it takes the most time
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.acceptsRouter(s.router) {
		return errUnaccepted
	}
	t.counts.Messages++
	if err != nil {
		t.counts.Malformed++
	}
	if m == nil {
		return nil
	}
	switch body := m.Body.(type) {
	case *bmp.BMPInitiation:
		s.setName(body)
	case *bmp.BMPTermination:
		return ErrTerminated
	case *bmp.BMPPeerUpNotification:
		s.beginPeer(&m.PeerHeader, body, now)
	case *bmp.BMPPeerDownNotification:
		s.endPeer(&m.PeerHeader, now)
	case *bmp.BMPRouteMonitoring:
		if update, ok := updateOf(body); ok {
			s.updateRoutes(&m.PeerHeader, update, err != nil)
		}
	}
	return nil
}

// setName keeps the name of the router.
func (s *Session) setName(m *bmp.BMPInitiation) {
	for _, tlv := range m.Info {
		if text, ok := tlv.(*bmp.BMPInfoTLVString); ok && text.Type == bmp.BMP_INIT_TLV_TYPE_SYS_NAME {
			s.name = strings.ToValidUTF8(text.Value[:min(len(text.Value), maxNameLength)], "")
		}
	}
}

// listOptions returns the options with which the BGP messages of a view are decoded.
func (s *Session) listOptions(h bmp.BMPPeerHeader) []*bgp.MarshallingOption {
	o := &bgp.MarshallingOption{
		Use2ByteAS: h.PeerType == bmp.BMP_PEER_TYPE_GLOBAL && h.Flags&bmp.BMP_PEER_FLAG_TWO_AS != 0,
	}
	id, ok := s.viewOf(&h)
	if !ok {
		return []*bgp.MarshallingOption{o}
	}
	s.table.mu.RLock()
	defer s.table.mu.RUnlock()
	if v := s.table.views[id]; v != nil {
		o.AddPath = v.addPath
	}
	return []*bgp.MarshallingOption{o}
}

// viewOf returns the identity of the view that a message is about; ok is false if the table does not use it.
func (s *Session) viewOf(h *bmp.BMPPeerHeader) (id viewID, ok bool) {
	id = viewID{router: s.router, peerType: h.PeerType, distinguisher: h.PeerDistinguisher, peer: h.PeerAddress}
	switch {
	case h.PeerDistinguisher != 0: // a VRF
		return id, false
	case h.PeerType == bmp.BMP_PEER_TYPE_LOCAL_RIB:
		id.kind = locRIB
	case h.PeerType != bmp.BMP_PEER_TYPE_GLOBAL || h.IsAdjRIBOut():
		return id, false
	case h.IsPostPolicy():
		id.kind = postPolicy
	default:
		id.kind = prePolicy
	}
	return id, true
}

// findView returns a view that this session reports, or nil if the limit is reached. A view that no open session
// reports is taken over.
func (s *Session) findView(id viewID) *view {
	t := s.table
	v := t.views[id]
	switch {
	case v == nil && len(t.views) >= MaxPeers:
		t.counts.Full++
		return nil
	case v == nil:
		t.lastView++
		v = &view{id: id, number: t.lastView, routes: map[route]advertised{}}
		t.views[id] = v
	case v.session != nil && v.session != s: // the router has connected again
		return nil
	}
	v.session = s
	return v
}

// beginPeer handles Peer Up: the router reports all routes of the peer again.
func (s *Session) beginPeer(h *bmp.BMPPeerHeader, m *bmp.BMPPeerUpNotification, now time.Time) {
	id, ok := s.viewOf(h)
	if !ok {
		return
	}
	kinds := []viewKind{postPolicy, prePolicy} // Peer Up is for both
	if id.kind == locRIB {
		kinds = []viewKind{locRIB}
	}
	for _, id.kind = range kinds {
		if v := s.table.views[id]; v != nil {
			s.table.holdRoutes(v, now)
			if v.session != s {
				v.session, v.reports = nil, [families]bool{}
			}
		}
		if v := s.findView(id); v != nil {
			v.addPath = negotiateAddPath(m)
		}
	}
}

// endPeer handles Peer Down, which withdraws all routes of a peer (RFC 7854 section 4.9). For a Loc-RIB it only means
// that the router no longer reports it (RFC 9069 section 5.3).
func (s *Session) endPeer(h *bmp.BMPPeerHeader, now time.Time) {
	id, ok := s.viewOf(h)
	if !ok {
		return
	}
	for id.kind = range noView {
		v := s.table.views[id]
		if v == nil || v.session != s {
			continue
		}
		if id.kind == locRIB {
			s.table.holdRoutes(v, now)
		} else {
			for of := range families {
				s.table.removeRoutes(v, of, false)
			}
		}
		v.session, v.reports = nil, [families]bool{}
		s.table.removeIfUnused(v)
	}
	for of := range families {
		s.chooseViews(of)
	}
}

// updateRoutes handles the UPDATE of a Route Monitoring message. A malformed one withdraws its routes (RFC 7606).
func (s *Session) updateRoutes(h *bmp.BMPPeerHeader, u *bgp.BGPUpdate, malformed bool) {
	id, ok := s.viewOf(h)
	if !ok {
		return
	}
	v := s.findView(id)
	if v == nil {
		return
	}
	if end, of := u.IsEndOfRib(); end && !malformed {
		if of, ok := unicastFamily(of); ok {
			s.table.removeRoutes(v, of, true)
		}
		return
	}
	a := readAttributes(u)
	if malformed {
		a.nhc = nil
	}
	s.withdrawRoutes(v, u.WithdrawnRoutes)
	s.announceRoutes(v, ipv4, &a, u.NLRI, a.nextHop)
	if m := a.unreach; m != nil {
		if _, ok := unicastFamily(bgp.NewFamily(m.AFI, m.SAFI)); ok {
			s.withdrawRoutes(v, m.Value)
		}
	}
	if m := a.reach; m != nil {
		if of, ok := unicastFamily(bgp.NewFamily(m.AFI, m.SAFI)); ok {
			s.announceRoutes(v, of, &a, m.Value, m.Nexthop)
		}
	}
}

// withdrawRoutes handles withdrawn routes.
func (s *Session) withdrawRoutes(v *view, routes []bgp.PathNLRI) {
	for _, n := range routes {
		s.table.removeProxy(v, routeOf(n))
	}
}

// announceRoutes handles routes of a family with a next hop.
func (s *Session) announceRoutes(v *view, of family, a *attributes, routes []bgp.PathNLRI, nextHop netip.Addr) {
	if len(routes) == 0 {
		return
	}
	// Other messages do not show that a router reports a view: FRRouting sends End-of-RIB of all views.
	if !v.reports[of] {
		v.reports[of] = true
		s.chooseViews(of)
	}
	proxy, ok := netip.Addr{}, false
	if a.nhc != nil {
		var err error
		if proxy, ok, err = s.table.codes.ReadNHC(a.nhc, nextHop); err != nil {
			s.table.counts.Malformed++ // discard the attribute, keep the route
		}
	}
	metric := a.rankRoutes()
	if v.id.kind == locRIB {
		metric = 0
	}
	for _, n := range routes {
		if ok {
			s.table.setProxy(v, routeOf(n), proxy, metric, v.id.kind == s.best[of])
		} else {
			s.table.removeProxy(v, routeOf(n))
		}
	}
}

// chooseViews makes the table use the routes of the best views of a family that the router reports. It keeps the routes
// of other views: the router does not report them again when the best ones end.
func (s *Session) chooseViews(of family) {
	best := noView
	for _, v := range s.table.views {
		if v.session == s && v.reports[of] {
			best = min(best, v.id.kind)
		}
	}
	if best == s.best[of] {
		return
	}
	s.best[of] = best
	for _, use := range []bool{false, true} { // first make room
		for _, v := range s.table.views {
			if v.session == s && (v.id.kind == best) == use {
				s.table.useRoutes(v, of, use)
			}
		}
	}
}
