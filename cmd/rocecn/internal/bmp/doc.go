// Package bmp is a monitoring station of the BGP Monitoring Protocol (BMP, RFC 7854). Routers connect to a [Station],
// or play reads a recorded stream, and report the routes of their BGP peers. A [Table] learns from them the proxies of
// senders (PROXY section 5.4):
//
//	Peer Up, Route Monitoring, Peer Down  ──>  Session  ──>  Table.Lookup(sender)
//
// Only the routes of the global routing tables count, for IPv4 and IPv6 unicast: not those of VRFs, and not the routes
// that a router sends to its peers (RFC 8671). A router may report several views of its routes. The table uses the
// best view in each family: the routes that the router has chosen (Loc-RIB, RFC 9069), else the routes of its peers
// after its import policy, else before it. It keeps the other views, and uses them when the best one ends.
//
// BGP messages are decoded by GoBGP.
package bmp

// Limits of a Table and of a Station. Information beyond a limit is counted and ignored.
const (
	MaxRouters    = 64      // connected routers
	MaxPeers      = 4096    // views of BGP peers, of all routers; a peer has two, before and after the import policy
	MaxProxies    = 1 << 16 // advertisements of proxies in the table, and as many in views that are not the best ones
	MaxMessage    = 1 << 18 // octets of a message; a session with a longer one is closed
	maxNameLength = 255     // octets of the name of a router that are kept (RFC 1213: sysName)
)
