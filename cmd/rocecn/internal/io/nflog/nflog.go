// Package nflog receives packets that a rule of nftables logs. The agent of a host receives Fast CNPs that way:
// Linux does not know their option and would reject them by ICMPv6 before a socket receives them. [Rules] returns
// such rules.
package nflog

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
)

// Rules returns a table of this name for nft, which replaces an existing one. It logs packets to this host with
// destination options and the UDP port of RoCEv2 to the group, and drops them. It does the same for packets that
// are forwarded out of the given ports. Without an agent the packets are dropped as well.
func Rules(table string, group uint16, ports ...string) string {
	chain := func(hook, where string) string {
		return fmt.Sprintf(`	chain %[1]s {
		type filter hook %[1]s priority filter; policy accept;
		%[2]sexthdr dst exists udp dport %[3]d log group %[4]d queue-threshold 1 drop
	}
`, hook, where, rocev2.Port, group)
	}
	chains := chain("input", "")
	if len(ports) > 0 {
		chains += chain("forward", `oifname { "`+strings.Join(ports, `", "`)+`" } `)
	}
	return fmt.Sprintf("table inet %[1]s\ndelete table inet %[1]s\ntable inet %[1]s {\n%[2]s}\n", table, chains)
}

// Types of messages and attributes (linux/netfilter/nfnetlink_log.h).
const (
	subsystem = 4 << 8    // NFNL_SUBSYS_ULOG
	logged    = subsystem // NFULNL_MSG_PACKET, 0
	configure = subsystem | 1

	attrTime     = 3
	attrIn       = 4
	attrOut      = 5
	attrPayload  = 9
	attrSequence = 12
)

// headerSize is the length of struct nfgenmsg: family 8, version 8, group 16.
const headerSize = 4

// An entry is a logged packet.
type entry struct {
	group       uint16
	packet      netio.Packet
	sequence    uint32
	hasSequence bool
}

// decodeMessage decodes a message. It returns false if it is not a packet.
func (e *entry) decodeMessage(m netlink.Message) bool {
	if m.Type != logged || len(m.Data) < headerSize {
		return false
	}
	*e = entry{group: binary.BigEndian.Uint16(m.Data[2:])}
	p, payload := &e.packet, false
	p.Link, p.Unit, p.Origin = capture.Raw, time.Nanosecond, netio.OriginLogged
	for kind, data, rest, ok := netlink.SplitAttribute(m.Data[headerSize:]); ok; kind, data, rest, ok =
		netlink.SplitAttribute(rest) {
		switch {
		case kind == attrPayload:
			p.Data, p.OrigLen, payload = data, uint32(len(data)), true
		case kind == attrTime && len(data) >= 16: // seconds 64, microseconds 64
			seconds, micros := binary.BigEndian.Uint64(data), binary.BigEndian.Uint64(data[8:])
			p.Time = time.Unix(int64(seconds), int64(micros%1e6)*1000).UTC()
		case kind == attrIn && len(data) >= 4:
			p.Interface = int(binary.BigEndian.Uint32(data))
		case kind == attrOut && len(data) >= 4:
			p.Egress = int(binary.BigEndian.Uint32(data))
		case kind == attrSequence && len(data) >= 4:
			e.sequence, e.hasSequence = binary.BigEndian.Uint32(data), true
		}
	}
	return payload
}
