package bmp

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/proxies"
	"github.com/rocecn/rocecn/pnc"
)

// A Table has the proxies that routers report. It keeps those of a lost session for a time, unless the router reports
// something else after it has connected again. All methods may be called by several goroutines.
type Table struct {
	codes pnc.Codes

	mu       sync.RWMutex // guards the fields below
	settings Settings
	proxies  *proxies.Table
	views    map[viewID]*view
	sessions []*Session // open sessions
	held     int        // advertisements of lost sessions
	unused   int        // advertisements in views that are not the best ones of their session
	expiry   time.Time  // no advertisement expires before; zero if none expires
	lastView uint32     // number of the latest view
	counts   Counts
}

// Counts are counters of a Table.
type Counts struct {
	Messages  uint64 // BMP messages
	Malformed uint64 // BMP messages, BGP messages and NHC attributes that could not be decoded
	Invalid   uint64 // advertisements of a prefix or proxy that pnc.Advertisement.Validate rejects
	Full      uint64 // advertisements, and messages about peers, beyond a limit
	Rejected  uint64 // connections beyond a limit, or from addresses that are not accepted
}

// A viewID identifies the report of one router about the routes of one BGP peer.
type viewID struct {
	router        netip.Addr
	peerType      uint8
	distinguisher uint64
	peer          netip.Addr
	kind          viewKind
}

// A viewKind is the point in the router from which it reports routes, the best one first.
type viewKind uint8

const (
	locRIB viewKind = iota
	postPolicy
	prePolicy
	noView
)

// A view has the advertisements of proxies that a router reported about one peer.
type view struct {
	id      viewID
	number  uint32
	session *Session                          // session that reports the view, or nil if it is lost
	reports [families]bool                    // the session has announced a route
	addPath map[bgp.Family]bgp.BGPAddPathMode // families of routes with path identifiers; never changed
	routes  map[route]advertised
	used    int // number of routes with their proxy in the table
}

// A route of a view. A peer has several routes to a prefix if they have path identifiers (RFC 7911).
type route struct {
	prefix netip.Prefix
	path   uint32 // path identifier, or 0
}

// advertised is the proxy of a route.
type advertised struct {
	proxy  netip.Addr
	metric uint32
	used   bool      // it is in the table, since its view is the best one of its session
	until  time.Time // time of its removal; zero while its session is open
}

// A family is an address family of unicast routes.
type family uint8

const (
	ipv4 family = iota
	ipv6
	families
)

func familyOf(p netip.Prefix) family {
	if p.Addr().Is4() {
		return ipv4
	}
	return ipv6
}

// Settings are properties of a Table that can change.
type Settings struct {
	Hold   time.Duration // time for which advertisements of a lost session are kept
	Accept *acl.List     // addresses of routers; nil: all
}

// NewTable returns an empty table. code is the code of the PNC characteristic.
func NewTable(code uint16, s Settings) *Table {
	return &Table{
		codes: pnc.Codes{NHC: code}, settings: s, views: map[viewID]*view{},
		proxies: proxies.New(proxies.Config{MaxAdvertisements: MaxProxies}),
	}
}

// Code returns the code of the PNC characteristic.
func (t *Table) Code() uint16 { return t.codes.NHC }

// Configure changes the settings. Hold applies to sessions that are lost later. Sessions of routers that are no longer
// accepted end with their next message.
func (t *Table) Configure(s Settings) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settings = s
}

// acceptsRouter reports whether a router may connect.
func (t *Table) acceptsRouter(router netip.Addr) bool {
	return t.settings.Accept == nil || t.settings.Accept.Contains(router.WithZone(""))
}

// Lookup returns the proxy of a sender; ok is false if there is none. The longest prefix counts. If several routes to
// it have proxies, the order is: routes of open sessions, routes from a Loc-RIB, highest LOCAL_PREF, shortest AS_PATH,
// lowest address of the proxy.
func (t *Table) Lookup(sender netip.Addr) (proxy netip.Addr, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.proxies.Lookup(sender)
}

// Advance removes advertisements at the end of their hold time. Call it every second, or more often.
func (t *Table) Advance(now time.Time) {
	t.mu.RLock()
	due := !t.expiry.IsZero() && !now.Before(t.expiry)
	t.mu.RUnlock()
	if !due {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expiry = time.Time{}
	for _, v := range t.views {
		for r, a := range v.routes {
			if a.until.IsZero() {
				continue
			}
			if !now.Before(a.until) {
				t.removeProxy(v, r)
			} else {
				t.expireAt(a.until)
			}
		}
		t.removeIfUnused(v)
	}
}

// expireAt makes Advance remove advertisements at a time.
func (t *Table) expireAt(at time.Time) {
	if t.expiry.IsZero() || at.Before(t.expiry) {
		t.expiry = at
	}
}

// heldMetric is the metric of advertisements of lost sessions.
const heldMetric = math.MaxUint32

// setProxy sets the proxy of a route. The table has it if use is set.
func (t *Table) setProxy(v *view, r route, proxy netip.Addr, metric uint32, use bool) {
	a := v.newAdvertisement(r, proxy, metric)
	t.removeProxy(v, r)
	switch {
	case a.Validate() != nil:
		t.counts.Invalid++
		return
	case use && t.proxies.Insert(a) != nil, !use && t.unused >= MaxProxies:
		t.counts.Full++
		return
	case use:
		v.used++
	default:
		t.unused++
	}
	v.routes[r] = advertised{proxy: proxy, metric: metric, used: use}
}

func (v *view) newAdvertisement(r route, proxy netip.Addr, metric uint32) pnc.Advertisement {
	return pnc.Advertisement{Prefix: r.prefix, Proxy: proxy, Metric: metric, Originator: v.originator(r.path)}
}

// removeProxy removes the proxy of a route, if it has one.
func (t *Table) removeProxy(v *view, r route) {
	a, ok := v.routes[r]
	if !ok {
		return
	}
	if !a.until.IsZero() {
		t.held--
	}
	if a.used {
		t.proxies.Withdraw(v.originator(r.path), r.prefix)
		v.used--
	} else {
		t.unused--
	}
	delete(v.routes, r)
}

// useRoutes puts the proxies of a view and family into the table, or takes them out of it and keeps them in the view.
// It removes those of an earlier session that are no longer used.
func (t *Table) useRoutes(v *view, of family, use bool) {
	for r, a := range v.routes {
		switch {
		case familyOf(r.prefix) != of || a.used == use:
		case !a.until.IsZero():
			t.removeProxy(v, r)
		default:
			t.setProxy(v, r, a.proxy, a.metric, use)
		}
	}
}

// holdRoutes keeps the advertisements of a view, which its session no longer reports, for the hold time.
func (t *Table) holdRoutes(v *view, now time.Time) {
	until := now.Add(t.settings.Hold)
	for r, a := range v.routes {
		switch {
		case !a.until.IsZero(): // since an earlier session
		case t.settings.Hold <= 0 || !a.used:
			t.removeProxy(v, r)
		default:
			a.until = until
			v.routes[r] = a
			t.held++
			t.expireAt(until)
			_ = t.proxies.Insert(v.newAdvertisement(r, a.proxy, heldMetric)) // replaces the one with another metric
		}
	}
}

// removeRoutes removes the advertisements of a view, of one family, and only those of an earlier session if held is
// set.
func (t *Table) removeRoutes(v *view, of family, held bool) {
	for r, a := range v.routes {
		if familyOf(r.prefix) == of && (!held || !a.until.IsZero()) {
			t.removeProxy(v, r)
		}
	}
}

// removeIfUnused removes a view that has neither a session nor advertisements.
func (t *Table) removeIfUnused(v *view) {
	if v.session == nil && len(v.routes) == 0 {
		delete(t.views, v.id)
	}
}

// originator returns the originator of the advertisements with a path identifier.
func (v *view) originator(path uint32) pnc.Originator {
	return pnc.Originator{Protocol: pnc.ProtocolBGP, ID: [8]byte{
		byte(v.number >> 24), byte(v.number >> 16), byte(v.number >> 8), byte(v.number),
		byte(path >> 24), byte(path >> 16), byte(path >> 8), byte(path),
	}}
}

// Len returns the number of advertisements in the table.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.proxies.Stats().Advertisements
}

// Status is the state of a Table.
type Status struct {
	Counts
	Proxies  int // advertisements
	Held     int // advertisements of lost sessions
	Prefixes int // prefixes with a proxy
	Peers    int // BGP peers of the connected routers
	Routers  []RouterStatus
}

// RouterStatus is the state of an open session.
type RouterStatus struct {
	Address netip.Addr
	Name    string // sysName of the router, or "" if it did not send one
	Since   time.Time
	Peers   int // BGP peers
	Proxies int // advertisements in the table
}

// Status returns the state, with routers in order of their addresses.
func (t *Table) Status() Status {
	t.mu.RLock()
	defer t.mu.RUnlock()
	stats := t.proxies.Stats()
	s := Status{Counts: t.counts, Proxies: stats.Advertisements, Held: t.held, Prefixes: stats.Prefixes}
	at := make(map[*Session]int, len(t.sessions))
	for i, open := range t.sessions {
		at[open] = i
		s.Routers = append(s.Routers, RouterStatus{Address: open.router, Name: open.name, Since: open.since})
	}
	peers := make(map[viewID]bool, len(t.views))
	for id, v := range t.views {
		if v.session == nil {
			continue
		}
		r := &s.Routers[at[v.session]]
		r.Proxies += v.used
		if id.kind = 0; !peers[id] { // both views of a peer
			peers[id] = true
			r.Peers++
			s.Peers++
		}
	}
	slices.SortStableFunc(s.Routers, func(a, b RouterStatus) int {
		return cmp.Or(a.Address.Compare(b.Address), a.Since.Compare(b.Since))
	})
	return s
}
