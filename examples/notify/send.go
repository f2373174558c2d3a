package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/capture"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

func (o *options) sendFCN(stdout io.Writer) error {
	data, err := fcn.Message{FlowLabel: uint32(o.label), Level: uint8(o.level)}.MarshalBinary()
	if err != nil {
		return err
	}
	return o.send(o.fcn, stdout, func(bool) ([]byte, error) { return data, nil })
}

func (o *options) sendProxy(stdout io.Writer) error {
	flow, err := o.congested()
	if err != nil {
		return err
	}
	return o.send(o.proxy, stdout, func(overIPv4 bool) ([]byte, error) {
		m := proxymsg.Message{FiveTuple: flow.FiveTuple, Level: uint8(o.level), Invoking: flow.Outermost}
		m.Cut(overIPv4)
		return m.AppendBinary(nil)
	})
}

// send sends one datagram with the DSCP and hop limit asked for.
func (o *options) send(address string, stdout io.Writer, data func(overIPv4 bool) ([]byte, error)) error {
	addr, err := resolve(address)
	if err != nil {
		return err
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return err
	}
	defer conn.Close()
	overIPv4 := conn.RemoteAddr().(*net.UDPAddr).IP.To4() != nil
	if overIPv4 {
		c := ipv4.NewConn(conn)
		err = errors.Join(c.SetTOS(int(o.dscp)<<2), c.SetTTL(int(o.hops)))
	} else {
		c := ipv6.NewConn(conn)
		err = errors.Join(c.SetTrafficClass(int(o.dscp)<<2), c.SetHopLimit(int(o.hops)))
	}
	if err != nil {
		return err
	}
	b, err := data(overIPv4)
	if err != nil {
		return err
	}
	if _, err := conn.Write(b); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d octets from %v to %v\n", len(b), conn.LocalAddr(), conn.RemoteAddr())
	return nil
}

// congested returns the flow of the packet that -capture and -frame name.
func (o *options) congested() (f rocev2.Flow, err error) {
	if o.capture == "" {
		return f, errors.New("-proxy needs -capture, a file with the congested packet")
	}
	file, err := os.Open(o.capture)
	if err != nil {
		return f, err
	}
	defer file.Close()
	packets, err := capture.Open(file)
	if err != nil {
		return f, fmt.Errorf("%s: %w", o.capture, err)
	}
	var r capture.Record
	for range o.frame {
		if err := packets.Next(&r); err == io.EOF {
			return f, fmt.Errorf("%s has no frame %d", o.capture, o.frame)
		} else if err != nil {
			return f, fmt.Errorf("%s: %w", o.capture, err)
		}
	}
	// r is not read into again: f may alias it.
	if err := f.Decode(r.Data, rocev2.Options{IP: r.IP(), Cut: r.Cut()}); err != nil {
		return f, fmt.Errorf("%s, frame %d: %w", o.capture, o.frame, err)
	}
	return f, nil
}
