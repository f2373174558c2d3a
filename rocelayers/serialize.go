package rocelayers

import (
	"encoding/binary"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/answer"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// SerializeLayers is gopacket.SerializeLayers for packets that have an ICRC, and for the other messages of this
// package. The layers are in wire order, from the outermost to the payload, with or without an [ICRC] layer at the end.
//
// With ComputeChecksums it computes the ICRC in the Coverage of the ICRC layer, by default AsSent, and then the
// checksum of the UDP layer around the BTH, which covers the ICRC. A UDP Checksum of 0 stays 0, as RoCEv2 senders send
// it, unless SetNetworkLayerForChecksum was called. It sets the ICRC layer's Value, the BTH's ICRC and the Checksum to
// the values written.
//
// Around an [FCN] or a [Proxy] it always computes the UDP checksum, without SetNetworkLayerForChecksum, and never
// writes 0, which would mean no checksum. The IP packet of a Proxy may have 576 octets over IPv4 and 1280 over IPv6
// (D9); a longer one is of rocecn.ErrRange.
//
// The lengths of IP and UDP must be right then, by FixLengths or as given. Lengths that do not end the packet at the
// end of the message are an error. So are, with rocecn.ErrRange, a packet that is too long for an IPv4 or UDP header
// before it, including outer headers of tunnels, for which FixLengths would truncate the length to 16 bits, and a
// message that only a jumbogram could carry. On error nothing is in w.
//
// Fields that one layer repeats from another must agree with it. A [CNP], [FastCNP] or [PPFC] repeats the Header of the
// BTH, or has a zero one; the Option of a FastCNP is also in a Destination Options layer. If they differ, for example
// because only one of the two was changed, the error is of rocecn.ErrRange.
//
// Without ComputeChecksums, and for all other layers, it does the same as gopacket's function.
func SerializeLayers(w gopacket.SerializeBuffer, opts gopacket.SerializeOptions,
	ls ...gopacket.SerializableLayer) error {
	err := agree(ls)
	switch {
	case err != nil:
	case opts.ComputeChecksums:
		err = serialize(w, opts, ls)
	default:
		err = gopacket.SerializeLayers(w, opts, ls...)
	}
	if err != nil {
		_ = w.Clear()
	}
	return err
}

func serialize(w gopacket.SerializeBuffer, opts gopacket.SerializeOptions, ls []gopacket.SerializableLayer) error {
	if err := w.Clear(); err != nil {
		return err
	}
	c := none
	for i := len(ls) - 1; i >= 0; i-- {
		if isMessage(ls[i]) {
			c = findCarriage(ls, i)
			if _, ok := ls[i].(*BTH); ok && c == none {
				return errNoCarrier
			}
		}
		if i == c.ipAt && len(w.Bytes()) > 0xFFFF { // gopacket would make it a jumbogram
			return wireerr.TooLong
		}
		o := opts
		o.ComputeChecksums = i != c.udpAt && i != c.bthAt
		if err := ls[i].SerializeTo(w, o); err != nil {
			return err
		}
		w.PushLayer(ls[i].LayerType())
		if opts.FixLengths && wrapped(ls[i], w.Bytes()) {
			return wireerr.TooLong
		}
		if i == c.ipAt {
			if err := c.putChecksums(w.Bytes()); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrapped reports whether a layer at the start of octets had its length truncated to the 16 bits of its field. This
// includes layers around the message, such as the outer IPv4 header of a tunnel. A length of 0 is that of a jumbogram
// (RFC 2675).
func wrapped(l gopacket.SerializableLayer, octets []byte) bool {
	if len(octets) <= 0xFFFF {
		return false
	}
	switch l.(type) {
	case *layers.IPv4:
		return true
	case *layers.UDP, *UDP:
		return binary.BigEndian.Uint16(octets[4:]) != 0
	}
	return false
}

// prepend puts octets before the contents of b, unless err is set.
func prepend(b gopacket.SerializeBuffer, octets []byte, err error) error {
	if err != nil {
		return err
	}
	space, err := b.PrependBytes(len(octets))
	copy(space, octets)
	return err
}

// isMessage reports whether a layer is a message with checksums that gopacket cannot compute.
func isMessage(l gopacket.SerializableLayer) bool {
	switch l.(type) {
	case *BTH, *FCN, *Proxy:
		return true
	}
	return false
}

// carriage is the layers that a message's checksums have to do with, and their
// places in the list of layers.
type carriage struct {
	ipAt, udpAt, bthAt int // of IP in IP the innermost; -1 for none

	udp   *layers.UDP
	proxy bool
	bth   *BTH  // nil for other messages, which have no ICRC
	icrc  *ICRC // where the BTH's goes
}

var none = carriage{ipAt: -1, udpAt: -1, bthAt: -1}

// findCarriage returns the carriage of the message at a place in the list, none
// where UDP and IP layers are not the next ones before it.
func findCarriage(ls []gopacket.SerializableLayer, at int) carriage {
	c := none
	switch l := ls[at].(type) {
	case *Proxy:
		c.proxy = true
	case *BTH:
		c.bthAt, c.bth, c.icrc = at, l, &l.ICRC
		for _, next := range ls[at+1:] {
			if l, ok := next.(*ICRC); ok {
				c.icrc = l
			}
		}
	}
	for i := at - 1; i >= 0 && !isMessage(ls[i]); i-- {
		switch l := ls[i].(type) {
		case *layers.UDP:
			c.udpAt, c.udp = i, l
		case *UDP:
			c.udpAt, c.udp = i, &l.UDP
		case *layers.IPv4, *layers.IPv6, *IPv6:
			if c.udp == nil {
				return none
			}
			c.ipAt = i
			return c
		}
	}
	return none
}

// putChecksums puts ICRC and UDP checksum into the finished IP packet. It ends with the
// message, so its length fields must end there, too.
func (c *carriage) putChecksums(ip []byte) error {
	var d rocev2.Datagram
	if err := d.DecodeIP(ip); err != nil {
		return err
	}
	if len(d.Data) == 0 || &d.Data[len(d.Data)-1] != &ip[len(ip)-1] || len(d.IP) < len(ip) {
		return errLengths
	}
	if c.proxy && len(ip) > proxyLimit(ip) {
		return errProxyLimit
	}
	if c.bth != nil {
		if err := icrc.Write(ip, c.icrc.Coverage); err != nil {
			return err
		}
		c.icrc.Value = binary.LittleEndian.Uint32(ip[len(ip)-icrcSize:])
		c.bth.ICRC.Value = c.icrc.Value
		if !wantsChecksum(c.udp) {
			return nil
		}
	}
	at := len(ip) - len(d.Data) - wire.UDPSize
	clear(ip[at+6 : at+wire.UDPSize])
	ipudp.PutChecksum(ip, at)
	c.udp.Checksum = binary.BigEndian.Uint16(ip[at+6:])
	return nil
}

// proxyLimit returns the maximum length of the IP packet of a message to a proxy, including the IP header and extension
// headers (D9).
func proxyLimit(ip []byte) int {
	if !wire.IsIPv6(ip) {
		return answer.ProxyIPv4
	}
	return answer.ProxyIPv6
}

// wantsChecksum reports whether the UDP checksum is to be computed.
func wantsChecksum(udp *layers.UDP) bool {
	if udp.Checksum != 0 {
		return true
	}
	probe := *udp // fails if no network layer was set, which cannot be seen
	return probe.SerializeTo(gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{ComputeChecksums: true}) == nil
}
