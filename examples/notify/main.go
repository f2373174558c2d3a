// Notify sends and receives FCN and proxy messages over UDP sockets.
//
//	notify -listen ADDR [-as fcn|proxy] [-n N]
//	notify -fcn ADDR -label L -level N [-dscp N] [-hops N]
//	notify -proxy ADDR -capture FILE [-frame N] -level N [-dscp N] [-hops N]
//
// ADDR is host:port, as in [::1]:1021. -listen prints what arrives: on port
// 1021 FCN, on 1022 proxy messages, on other ports what -as says; with -n it
// ends after N datagrams. -fcn sends the flow label of a congested flow, -proxy
// the five-tuple of a packet of a capture and the packet itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strconv"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/proxymsg"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the command line.
type options struct {
	listen, fcn, proxy string
	as                 string
	count              int
	label              label
	level              uint
	dscp, hops         uint
	capture            string
	frame              int
}

// label is a flag in any base, as in 0xbeef5.
type label uint32

func (l *label) String() string { return fmt.Sprintf("%#x", uint32(*l)) }
func (l *label) Set(s string) error {
	n, err := strconv.ParseUint(s, 0, 20)
	*l = label(n)
	return err
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("notify", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.listen, "listen", "", "receive on this `address`")
	flags.StringVar(&o.fcn, "fcn", "", "send an FCN to this `address`")
	flags.StringVar(&o.proxy, "proxy", "", "send a proxy message to this `address`")
	flags.StringVar(&o.as, "as", "", "what arrives: `fcn or proxy`; by default what the port says")
	flags.IntVar(&o.count, "n", 0, "end after this `number` of datagrams")
	flags.Var(&o.label, "label", "flow `label` of the congested flow, 20 bits")
	flags.UintVar(&o.level, "level", 0, "congestion `level`, 0 to 7")
	flags.UintVar(&o.dscp, "dscp", 48, "`DSCP` to send with, 0 to 63")
	flags.UintVar(&o.hops, "hops", 64, "hop `limit` to send with, 1 to 255")
	flags.StringVar(&o.capture, "capture", "", "`file` that holds the congested packet")
	flags.IntVar(&o.frame, "frame", 1, "`number` of the congested packet in it, from 1")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	usage := func(text string) int {
		fmt.Fprintln(stderr, "notify:", text)
		return 2
	}
	switch {
	case flags.NArg() > 0:
		return usage("arguments left over: " + flags.Arg(0))
	case o.dscp > 63:
		return usage("-dscp is over 63")
	case o.hops < 1 || o.hops > 255:
		return usage("-hops is not in 1 to 255")
	case o.fcn != "" && o.label == 0:
		return usage("-fcn needs -label, which is not 0")
	case o.level > fcn.MaxLevel:
		return usage("-level is over 7")
	case o.frame < 1:
		return usage("-frame is below 1")
	}
	var err error
	switch {
	case o.listen != "" && o.fcn == "" && o.proxy == "":
		err = o.receive(ctx, stdout)
	case o.fcn != "" && o.listen == "" && o.proxy == "":
		err = o.sendFCN(stdout)
	case o.proxy != "" && o.listen == "" && o.fcn == "":
		err = o.sendProxy(stdout)
	default:
		return usage("one of -listen, -fcn and -proxy is needed")
	}
	if err != nil {
		fmt.Fprintln(stderr, "notify:", err)
		return 1
	}
	return 0
}

// kind says what arrives on a port.
func (o *options) kind(port int) (string, error) {
	switch {
	case o.as == "fcn" || o.as == "proxy":
		return o.as, nil
	case o.as != "":
		return "", fmt.Errorf("-as %s is neither fcn nor proxy", o.as)
	case port == fcn.Port:
		return "fcn", nil
	case port == proxymsg.Port:
		return "proxy", nil
	}
	return "", fmt.Errorf("port %d is neither %d nor %d: say -as fcn or -as proxy", port, fcn.Port, proxymsg.Port)
}

// resolve returns the address that a host:port stands for.
func resolve(address string) (netip.AddrPort, error) {
	a, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()), nil
}
