package roles

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/node/congested"
)

// routing has the keys of a switch that learns proxies from BGP (PROXY section 5.4).
type routing struct {
	ProxiesFrom string         `json:"proxies_from"` // config, the default, or routing
	RoutingHold *time.Duration `json:"routing_hold"` // absent: 90 s
	PNCCode     *uint16        `json:"pnc_code"`     // code of the PNC characteristic

	table congested.Proxies // proxies from routing, or nil
}

// maxRoutingHold is the maximum of routing_hold.
const maxRoutingHold = 24 * time.Hour

func (r *routing) checkKeys(enabled bool) error {
	if err := checkWord("proxies_from", r.ProxiesFrom, "config", "routing"); err != nil {
		return err
	}
	switch hold := r.Hold(); {
	case !r.FromRouting():
		return rejectKeys(`is for proxies_from = "routing"`, []presentKey{
			{"routing_hold", r.RoutingHold != nil}, {"pnc_code", r.PNCCode != nil},
		})
	case hold < 0 || hold > maxRoutingHold:
		return config.Wrong("routing_hold", "%v: want a duration from 0s to %v", hold, maxRoutingHold)
	case r.PNCCode == nil && enabled:
		return config.Wrong("pnc_code", "missing: want the code of the PNC characteristic in your network, "+
			"1 to 65535, because none is assigned")
	case r.PNCCode != nil && *r.PNCCode == 0:
		return config.Wrong("pnc_code", "0: want 1 to 65535")
	}
	return nil
}

// FromRouting reports whether the switch learns proxies from BGP. Apply rejects any other word than config and routing.
func (r *routing) FromRouting() bool { return r.ProxiesFrom != "" && r.ProxiesFrom != "config" }

// Code returns the code of the PNC characteristic, or 0 if there is none.
func (r *routing) Code() uint16 {
	if r.PNCCode == nil {
		return 0
	}
	return *r.PNCCode
}

// Hold returns the time for which proxies are kept after a session is lost.
func (r *routing) Hold() time.Duration {
	if r.RoutingHold == nil {
		return 90 * time.Second
	}
	return *r.RoutingHold
}

// UseRouting sets the table of proxies from BGP. It must come before Apply.
func (r *routing) UseRouting(table congested.Proxies) { r.table = table }

// withList returns the proxies from BGP, and for senders without one, the configured proxies.
func (r *routing) withList(list congested.Proxies) congested.Proxies {
	if !r.FromRouting() || r.table == nil {
		return list
	}
	return orderedProxies{r.table, list}
}

// orderedProxies are proxies from several sources, of which the first that knows a sender counts.
type orderedProxies []congested.Proxies

func (all orderedProxies) Lookup(sender netip.Addr) (proxy netip.Addr, ok bool) {
	for _, p := range all {
		if proxy, ok = p.Lookup(sender); ok {
			return proxy, true
		}
	}
	return netip.Addr{}, false
}
