package netio

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// udpSink implements [SocketSink].
type udpSink struct {
	local, remote netip.AddrPort
	conn          *net.UDPConn
	failed        atomic.Uint64
}

// DialUDP returns a sink for datagrams to an address and port, such as
// "[::1]:1021"; the host may be a name. dscp is 0 to 63 and hopLimit 1 to 255.
// It works on every system and needs no privileges.
func DialUDP(address string, dscp, hopLimit uint8) (SocketSink, error) {
	to, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	conn, err := net.DialUDP("udp", nil, to)
	if err != nil {
		return nil, err
	}
	u := &udpSink{local: addrPortOf(conn.LocalAddr()), remote: addrPortOf(conn.RemoteAddr()), conn: conn}
	if u.remote.Addr().Is4() {
		c := ipv4.NewConn(conn)
		err = errors.Join(c.SetTOS(int(dscp)<<2), c.SetTTL(int(hopLimit)))
	} else {
		c := ipv6.NewConn(conn)
		err = errors.Join(c.SetTrafficClass(int(dscp)<<2), c.SetHopLimit(int(hopLimit)))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return u, nil
}

func addrPortOf(a net.Addr) netip.AddrPort {
	ap := a.(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// Local implements [SocketSink].
func (u *udpSink) Local() netip.AddrPort { return u.local }

// Remote implements [SocketSink].
func (u *udpSink) Remote() netip.AddrPort { return u.remote }

// Send implements [Sink].
func (u *udpSink) Send(data []byte) error {
	_, err := u.conn.Write(data)
	if err != nil { // perhaps that which a datagram before has met: this one was not sent
		_, err = u.conn.Write(data)
	}
	if err != nil {
		u.failed.Add(1)
	}
	return err
}

// Flush does nothing.
func (u *udpSink) Flush() error { return nil }

// Failed implements [Sink].
func (u *udpSink) Failed() uint64 { return u.failed.Load() }

// Close implements [Sink].
func (u *udpSink) Close() error { return u.conn.Close() }
