// Package bgptest holds package pnc against BGP speakers of others: GoBGP and
// ExaBGP originate the attribute, FRRouting, BIRD and GoBGP pass it on. It is a
// module of its own, so that GoBGP is no dependency of the library.
package bgptest
