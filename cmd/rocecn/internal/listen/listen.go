// Package listen is the command that receives FCN or proxy messages on a UDP
// socket and prints them.
package listen

import (
	"context"
	"fmt"
	"io"
	"net/netip"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

var usage = fmt.Sprintf(`usage: rocecn listen [-as fcn|proxy] [-n N] ADDR
ADDR is host:port, as in [::]:%[1]d. Datagrams to port %[1]d are FCN, to %[2]d proxy
messages, to other ports as given by -as.
`, fcn.Port, proxymsg.Port)

// Run is the command: it returns the exit status.
func Run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := cli.Flags("listen", usage, stderr)
	as := flags.String("as", "", "kind of the messages: `fcn or proxy`; by default the one of the port")
	count := flags.Int("n", 0, "end after this `number` of datagrams; 0: when interrupted")
	addresses, err := cli.Parse(flags, args)
	switch {
	case err != nil:
		return cli.Unparsed(err)
	case len(addresses) != 1:
		flags.Usage()
		return cli.Misused
	case *as != "" && *as != "fcn" && *as != "proxy":
		return cli.Misuse(stderr, "listen", fmt.Errorf("-as %s: want fcn or proxy", *as))
	case *count < 0:
		return cli.Misuse(stderr, "listen", fmt.Errorf("-n %d: want 0 or more", *count))
	}
	return cli.End(stderr, "listen", receiveDatagrams(ctx, addresses[0], *as, *count, stdout, stderr))
}

// receiveDatagrams prints the datagrams that arrive until ctx ends or, unless count is 0, that many
// datagrams have arrived, and prints the number of datagrams that the kernel dropped.
func receiveDatagrams(ctx context.Context, address, as string, count int, stdout, stderr io.Writer) error {
	in, err := netio.ListenUDP(address)
	if err != nil {
		return err
	}
	defer in.Close()
	defer func() { cli.PrintDropped(stderr, "listen", in.Lost(), "datagram") }()
	kind, err := kindOf(as, in.Local().Port())
	if err != nil {
		return err
	}
	poll, err := netio.NewPoll(ctx, in)
	if err != nil {
		return err
	}
	defer poll.Close()
	if _, err := fmt.Fprintf(stdout, "listening for %s on %v\n", kind, in.Local()); err != nil {
		return err
	}
	for n := 0; ; {
		_, packets, err := poll.Next(-1)
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		for i := range packets {
			var d rocev2.Datagram
			if d.DecodeIP(packets[i].Data) != nil {
				continue
			}
			from := netip.AddrPortFrom(d.Src, d.SrcPort)
			if _, err := fmt.Fprintf(stdout, "%v (to %v, dscp %d, ecn %d, hop limit %d): %s\n",
				from, d.Dst, d.DSCP(), d.ECN(), d.HopLimit, describeMessage(kind, d.Data)); err != nil {
				return err
			}
			if n++; n == count {
				return nil
			}
		}
	}
}

// kindOf returns the kind of the messages that arrive on a port.
func kindOf(as string, port uint16) (string, error) {
	switch {
	case as != "":
		return as, nil
	case port == fcn.Port:
		return "fcn", nil
	case port == proxymsg.Port:
		return "proxy", nil
	}
	return "", fmt.Errorf("port %d: want %d, %d, or the flag -as fcn or -as proxy",
		port, fcn.Port, proxymsg.Port)
}

// describeMessage returns a line about the message in a datagram.
func describeMessage(kind string, data []byte) string {
	if kind == "fcn" {
		var m fcn.Message
		if err := m.Decode(data); err != nil {
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
