// Package igptest holds package pnc against the routing daemons of others:
// FRRouting and BIRD flood what it writes in OSPF and IS-IS, and it reads what
// they have in their databases.
package igptest
