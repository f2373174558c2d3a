// Package nftables detects changes of the nftables rules, and reads their counters.
package nftables

import (
	"encoding/binary"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"golang.org/x/sys/unix"
)

// A Ruleset is the set of all rules of a network namespace. It is for one goroutine.
type Ruleset struct{ socket *netlink.Socket }

// Open opens the rules of the network namespace of the calling thread. Generation needs CAP_NET_ADMIN.
func Open() (*Ruleset, error) {
	socket, err := netlink.Open(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, err
	}
	return &Ruleset{socket}, nil
}

// Generation returns a number that changes with each change of a rule. Changes by packets, such as of counters, do
// not count.
func (r *Ruleset) Generation() (generation uint32, err error) {
	const ask = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN
	header := []byte{unix.AF_UNSPEC, 0, 0, 0} // family 8, version 8, resource 16
	err = r.socket.Request(ask, 0, header, func(m netlink.Message) {
		if len(m.Data) < len(header) {
			return
		}
		b := m.Data[len(header):]
		for kind, data, b, ok := netlink.SplitAttribute(b); ok; kind, data, b, ok = netlink.SplitAttribute(b) {
			if kind == unix.NFTA_GEN_ID && len(data) == 4 {
				generation = binary.BigEndian.Uint32(data)
			}
		}
	})
	return generation, err
}

// Close closes the socket.
func (r *Ruleset) Close() error { return r.socket.Close() }
