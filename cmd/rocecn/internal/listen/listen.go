// Package listen is the command that receives FCN or proxy messages on a UDP
// socket and prints them.
//
//	rocecn listen [-as fcn|proxy] [-n N] ADDR
//
// ADDR is host:port, as in [::]:1021. What arrives on port 1021 is FCN, on 1022
// proxy messages, on other ports what -as says. It ends after N datagrams, or
// with an interrupt.
package listen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/proxymsg"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

const usage = `usage: rocecn listen [-as fcn|proxy] [-n N] ADDR
ADDR is host:port, as in [::]:1021.
`

// Run is the command: it returns the exit status.
func Run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := cli.Flags("listen", usage, stderr)
	as := flags.String("as", "", "what arrives: `fcn or proxy`; by default what the port says")
	count := flags.Int("n", 0, "end after this `number` of datagrams; 0: with an interrupt")
	if err := flags.Parse(args); err != nil {
		return cli.Unparsed(err)
	}
	wrong := ""
	switch {
	case flags.NArg() != 1:
		flags.Usage()
		return cli.Misused
	case *as != "" && *as != "fcn" && *as != "proxy":
		wrong = fmt.Sprintf("-as %s is neither fcn nor proxy", *as)
	case *count < 0:
		wrong = fmt.Sprintf("-n %d is below 0", *count)
	}
	if wrong != "" {
		fmt.Fprintln(stderr, "rocecn listen:", wrong)
		return cli.Misused
	}
	return cli.End(stderr, "listen", receive(ctx, flags.Arg(0), *as, *count, stdout))
}

// receive prints what arrives until ctx ends or, unless count is 0, that many
// datagrams have come.
func receive(ctx context.Context, address, as string, count int, stdout io.Writer) error {
	addr, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return err
	}
	conn, err := net.ListenUDP("udp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	local := conn.LocalAddr().(*net.UDPAddr)
	kind, err := kindOf(as, local.Port)
	if err != nil {
		return err
	}
	read, err := reader(conn, addr.AddrPort().Addr().Unmap())
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "listening for %s on %v\n", kind, local); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for n := 0; count == 0 || n < count; n++ {
		data, from, how, err := read(buf)
		if errors.Is(err, net.ErrClosed) && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(stdout, "%v (%s): %s\n", from, how, describe(kind, data)); err != nil {
			return err
		}
	}
	return nil
}

// kindOf says what arrives on a port.
func kindOf(as string, port int) (string, error) {
	switch {
	case as != "":
		return as, nil
	case port == fcn.ExperimentalPort:
		return "fcn", nil
	case port == proxymsg.ExperimentalPort:
		return "proxy", nil
	}
	return "", fmt.Errorf("port %d is neither %d nor %d: say -as fcn or -as proxy", port, fcn.ExperimentalPort, proxymsg.ExperimentalPort)
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
