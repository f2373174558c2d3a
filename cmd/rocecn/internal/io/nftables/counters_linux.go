package nftables

import (
	"bytes"
	"encoding/binary"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"golang.org/x/sys/unix"
)

// Counters returns the packets that the rules of an inet table have counted, by the comment of the rule. Rules with the
// same comment are added. A table that does not exist has none. It needs CAP_NET_ADMIN.
func (r *Ruleset) Counters(table string) (map[string]uint64, error) {
	const ask = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETRULE
	header := []byte{unix.NFPROTO_INET, 0, 0, 0} // family 8, version 8, resource 16
	name := append([]byte(table), 0)
	counts := map[string]uint64{}
	err := r.socket.Dump(ask, netlink.AppendAttribute(header, unix.NFTA_RULE_TABLE, name...), func(m netlink.Message) {
		if len(m.Data) < len(header) {
			return
		}
		var of, comment string
		packets, counted := uint64(0), false
		eachAttribute(m.Data[len(header):], func(kind uint16, data []byte) {
			switch kind {
			case unix.NFTA_RULE_TABLE: // older kernels list the rules of all tables
				of = string(bytes.TrimRight(data, "\x00"))
			case unix.NFTA_RULE_EXPRESSIONS:
				packets, counted = findCounter(data)
			case unix.NFTA_RULE_USERDATA:
				comment = findComment(data)
			}
		})
		if of == table && counted {
			counts[comment] += packets
		}
	})
	if err == unix.ENOENT {
		return nil, nil
	}
	return counts, err
}

// eachAttribute calls f for each attribute.
func eachAttribute(b []byte, f func(kind uint16, data []byte)) {
	for kind, data, rest, ok := netlink.SplitAttribute(b); ok; kind, data, rest, ok = netlink.SplitAttribute(rest) {
		f(kind, data)
	}
}

// findCounter returns the packets of the counter among the expressions of a rule, and reports whether there is one.
func findCounter(expressions []byte) (packets uint64, ok bool) {
	eachAttribute(expressions, func(_ uint16, expression []byte) {
		name := ""
		eachAttribute(expression, func(kind uint16, data []byte) {
			switch {
			case kind == unix.NFTA_EXPR_NAME:
				name = string(bytes.TrimRight(data, "\x00"))
			case kind == unix.NFTA_EXPR_DATA && name == "counter":
				eachAttribute(data, func(kind uint16, data []byte) {
					if kind == unix.NFTA_COUNTER_PACKETS && len(data) == 8 {
						packets, ok = binary.BigEndian.Uint64(data), true
					}
				})
			}
		})
	})
	return packets, ok
}

// findComment returns the comment in the user data of a rule: fields of type 8, length 8 and a value, of which the
// comment has type 0 and ends with a NUL.
func findComment(data []byte) string {
	for len(data) >= 2 && 2+int(data[1]) <= len(data) {
		if value := data[2 : 2+int(data[1])]; data[0] == 0 {
			return string(bytes.TrimRight(value, "\x00"))
		}
		data = data[2+int(data[1]):]
	}
	return ""
}
