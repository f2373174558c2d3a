package bmp

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/netip"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/packet/bmp"

	"github.com/rocecn/rocecn/pnc"
)

// ReadMessage reads the next message of a stream. It appends to b[:0] and returns io.EOF at the end of the stream,
// io.ErrUnexpectedEOF inside a message, and another error if the octets are no BMP message of version 3, of at most
// MaxMessage octets: then the rest of the stream cannot be read.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+
//	|    Version    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Message Length                         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Msg. Type   |
//	+-+-+-+-+-+-+-+-+
func ReadMessage(r *bufio.Reader, b []byte) ([]byte, error) {
	header, err := r.Peek(bmp.BMP_HEADER_SIZE)
	if err != nil {
		if len(header) > 0 && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return b[:0], err
	}
	n := binary.BigEndian.Uint32(header[1:])
	switch {
	case header[0] != bmp.BMP_VERSION:
		return b[:0], fmt.Errorf("BMP version %d: want %d", header[0], bmp.BMP_VERSION)
	case n < bmp.BMP_HEADER_SIZE || n > MaxMessage:
		return b[:0], fmt.Errorf("BMP message of %d octets: want %d to %d", n, bmp.BMP_HEADER_SIZE, MaxMessage)
	}
	if int(n) > cap(b) {
		b = make([]byte, n)
	}
	b = b[:n]
	if _, err := io.ReadFull(r, b); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return b[:0], err
	}
	return b, nil
}

// MessageTime returns the time at which a router received the routes in a message; ok is false for a message without
// a time.
func MessageTime(message []byte) (at time.Time, ok bool) {
	const offset = bmp.BMP_HEADER_SIZE + 34 // in the per-peer header (RFC 7854 section 4.2)
	if len(message) < offset+8 || !hasPeer(message) {
		return time.Time{}, false
	}
	seconds := binary.BigEndian.Uint32(message[offset:])
	micros := binary.BigEndian.Uint32(message[offset+4:])
	return time.Unix(int64(seconds), int64(micros)*1000), seconds != 0
}

// hasPeer reports whether a message has a per-peer header.
func hasPeer(message []byte) bool {
	switch message[bmp.BMP_HEADER_SIZE-1] {
	case bmp.BMP_MSG_INITIATION, bmp.BMP_MSG_TERMINATION:
		return false
	}
	return true
}

// decodeMessage decodes a message. m is nil if it has no information about proxies, or cannot be decoded. With an
// error, a Route Monitoring message may have the routes that could be decoded.
func decodeMessage(
	message []byte, options func(bmp.BMPPeerHeader) []*bgp.MarshallingOption,
) (m *bmp.BMPMessage, err error) {
	switch message[bmp.BMP_HEADER_SIZE-1] {
	case bmp.BMP_MSG_INITIATION, bmp.BMP_MSG_TERMINATION, bmp.BMP_MSG_PEER_UP_NOTIFICATION,
		bmp.BMP_MSG_PEER_DOWN_NOTIFICATION, bmp.BMP_MSG_ROUTE_MONITORING:
	default: // statistics, mirrored routes, unknown types
		return nil, nil
	}
	m, err = bmp.ParseBMPMessageWithOptions(message, options)
	if err != nil && m != nil && m.Header.Type != bmp.BMP_MSG_ROUTE_MONITORING {
		m = nil
	}
	return m, err
}

// updateOf returns the UPDATE in a Route Monitoring message; ok is false if there is none.
func updateOf(m *bmp.BMPRouteMonitoring) (u *bgp.BGPUpdate, ok bool) {
	if m.BGPUpdate == nil {
		return nil, false
	}
	u, ok = m.BGPUpdate.Body.(*bgp.BGPUpdate)
	return u, ok
}

// negotiateAddPath returns the families of routes with path identifiers (RFC 7911 section 4): the router has announced
// that it can receive them, and its peer that it can send them.
func negotiateAddPath(m *bmp.BMPPeerUpNotification) map[bgp.Family]bgp.BGPAddPathMode {
	sent, received := addPathModes(m.SentOpenMsg), addPathModes(m.ReceivedOpenMsg)
	var all map[bgp.Family]bgp.BGPAddPathMode
	for of, mode := range sent {
		if mode&bgp.BGP_ADD_PATH_RECEIVE != 0 && received[of]&bgp.BGP_ADD_PATH_SEND != 0 {
			if all == nil {
				all = map[bgp.Family]bgp.BGPAddPathMode{}
			}
			all[of] = bgp.BGP_ADD_PATH_RECEIVE
		}
	}
	return all
}

// addPathModes returns the ADD-PATH capability of an OPEN message.
func addPathModes(m *bgp.BGPMessage) map[bgp.Family]bgp.BGPAddPathMode {
	open, ok := m.Body.(*bgp.BGPOpen)
	if !ok {
		return nil
	}
	modes := map[bgp.Family]bgp.BGPAddPathMode{}
	for _, o := range open.OptParams {
		parameter, ok := o.(*bgp.OptionParameterCapability)
		if !ok {
			continue
		}
		for _, c := range parameter.Capability {
			if paths, ok := c.(*bgp.CapAddPath); ok {
				for _, tuple := range paths.Tuples {
					modes[tuple.Family] = tuple.Mode
				}
			}
		}
	}
	return modes
}

// attributes are the path attributes of an UPDATE that matter here.
type attributes struct {
	nextHop    netip.Addr // next hop of the routes in the NLRI field, which are IPv4
	reach      *bgp.PathAttributeMpReachNLRI
	unreach    *bgp.PathAttributeMpUnreachNLRI
	nhc        []byte // value of the attribute NHC, or nil
	localPref  uint32
	pathLength int // length of AS_PATH
}

// defaultLocalPref is the usual LOCAL_PREF of routes without the attribute.
const defaultLocalPref = 100

func readAttributes(u *bgp.BGPUpdate) attributes {
	all := attributes{localPref: defaultLocalPref}
	for _, a := range u.PathAttributes {
		switch a := a.(type) {
		case *bgp.PathAttributeNextHop:
			all.nextHop = a.Value
		case *bgp.PathAttributeMpReachNLRI:
			all.reach = a
		case *bgp.PathAttributeMpUnreachNLRI:
			all.unreach = a
		case *bgp.PathAttributeLocalPref:
			all.localPref = a.Value
		case *bgp.PathAttributeAsPath:
			for _, segment := range a.Value {
				all.pathLength += segment.ASLen()
			}
		case *bgp.PathAttributeUnknown:
			if a.Type == pnc.AttributeNHC {
				all.nhc = a.Value
			}
		}
	}
	return all
}

// rankRoutes returns the metric of routes by the first steps of the decision process (RFC 4271 section 9.1): the
// highest LOCAL_PREF, then the shortest AS_PATH.
func (a *attributes) rankRoutes() uint32 {
	return (math.MaxUint16-min(a.localPref, math.MaxUint16))<<8 | uint32(min(a.pathLength, math.MaxUint8))
}

// unicastFamily returns the family of unicast routes; ok is false for other routes.
func unicastFamily(of bgp.Family) (f family, ok bool) {
	switch of {
	case bgp.RF_IPv4_UC:
		return ipv4, true
	case bgp.RF_IPv6_UC:
		return ipv6, true
	}
	return 0, false
}

// routeOf returns the route of an unicast prefix.
func routeOf(n bgp.PathNLRI) route {
	prefix, ok := n.NLRI.(*bgp.IPAddrPrefix)
	if !ok {
		return route{}
	}
	return route{prefix.Prefix.Masked(), n.ID}
}
