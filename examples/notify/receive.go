package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/proxymsg"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// receive prints what arrives until ctx ends or o.count datagrams have come.
func (o *options) receive(ctx context.Context, stdout io.Writer) error {
	addr, err := resolve(o.listen)
	if err != nil {
		return err
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	local := conn.LocalAddr().(*net.UDPAddr)
	kind, err := o.kind(local.Port)
	if err != nil {
		return err
	}
	read, err := reader(conn, addr.Addr())
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "listening for %s on %v\n", kind, local)
	buf := make([]byte, 64<<10)
	for n := 0; o.count == 0 || n < o.count; n++ {
		data, from, how, err := read(buf)
		if errors.Is(err, net.ErrClosed) && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%v (%s): %s\n", from, how, describe(kind, data))
	}
	return nil
}

// reader returns a function that reads one datagram, and says who sent it and
// how the network treated it, as the control messages of the socket tell.
func reader(conn *net.UDPConn, local netip.Addr) (func([]byte) ([]byte, net.Addr, string, error), error) {
	if local.Is4() {
		p := ipv4.NewPacketConn(conn) // its control messages do not tell the TOS
		if err := p.SetControlMessage(ipv4.FlagTTL|ipv4.FlagDst, true); err != nil {
			return nil, err
		}
		return func(buf []byte) ([]byte, net.Addr, string, error) {
			n, cm, from, err := p.ReadFrom(buf)
			how := "no control message"
			if cm != nil {
				how = fmt.Sprintf("to %v, ttl %d", cm.Dst, cm.TTL)
			}
			return buf[:n], from, how, err
		}, nil
	}
	p := ipv6.NewPacketConn(conn)
	if err := p.SetControlMessage(ipv6.FlagTrafficClass|ipv6.FlagHopLimit|ipv6.FlagDst, true); err != nil {
		return nil, err
	}
	return func(buf []byte) ([]byte, net.Addr, string, error) {
		n, cm, from, err := p.ReadFrom(buf)
		how := "no control message"
		if cm != nil && cm.Dst.To4() != nil { // IPv4, of which these control messages do not tell
			how = fmt.Sprintf("to %v", cm.Dst)
		} else if cm != nil {
			how = fmt.Sprintf("to %v, dscp %d, ecn %d, hop limit %d", cm.Dst, cm.TrafficClass>>2, cm.TrafficClass&3, cm.HopLimit)
		}
		return buf[:n], from, how, err
	}, nil
}

// describe says in a line what a datagram holds.
func describe(kind string, data []byte) string {
	if kind == "fcn" {
		var m fcn.Message
		if err := m.UnmarshalBinary(data); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("flow label %#05x congested, level %d", m.FlowLabel, m.Level)
	}
	var m proxymsg.Message
	if err := m.Decode(data, 0); err != nil {
		return err.Error()
	}
	text := m.String()
	if h, err := m.BTH(); err == nil {
		text += fmt.Sprintf(": %v to queue pair %#x", h.Opcode, h.DestQP)
	}
	return text
}
