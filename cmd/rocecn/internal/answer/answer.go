// Package answer is the command that reads a capture of RoCEv2 traffic and
// writes a capture of the Fast CNPs that a congested switch would send for it.
//
//	rocecn answer [-every N] [-per-flow TIME] [-rate N] [-ecn] [-inner-source] [-long refuse|trim|fallback] -source ADDR IN OUT
//
// IN is a pcap or pcapng capture of Ethernet, raw IP, Linux cooked or BSD
// loopback packets, packed with gzip or not; OUT becomes a pcap capture; - stands
// for standard input and output. From the root of the module:
//
//	$ rocecn answer -source 2001:db8:ffff::5 testdata/ioam-linux618-hpcc.pcap /tmp/fastcnp.pcap
//	$ rocecn inspect /tmp/fastcnp.pcap
//	$ tcpdump -i eth0 -U -w - udp port 4791 | rocecn answer -ecn -source 2001:db8:ffff::5 - - | rocecn inspect -
//
// RoCEv2 data packets over IPv6 match; with -ecn, only those whose outermost IP
// header is marked CE. For each, or with -every for each N-th, a Fast CNP goes to the packet's
// source: with option 2 if the packet carries an IOAM trace, else with option
// 1. Acknowledgements and notifications are answered by none, and neither is
// IPv4, for which there is no Fast CNP. Neither is what comes in a tunnel, whose
// inner source a switch need not reach, unless -inner-source is given.
//
// It is the switch role of rocecn play with flags instead of a file: limits hold
// by the time of the capture, and a sender whose ICMPv6 error in IN says that it
// does not understand a Fast CNP that was sent gets no more of them.
//
// What is written has the time of the packet that it answers. In a capture of
// Ethernet it also has that packet's MAC addresses, swapped, and its VLAN tags;
// otherwise it is raw IP.
//
// A summary goes to standard error. The exit status is 1 when IN could not be
// read to its end or OUT not be written, 2 when the arguments are wrong.
package answer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
)

const usage = `usage: rocecn answer [-every N] [-per-flow TIME] [-rate N] [-ecn] [-inner-source] [-long refuse|trim|fallback] -source ADDR IN OUT
IN is a pcap or pcapng capture, gzip or not, OUT a pcap capture; - for standard input and output.
`

// Run is the command: it returns the exit status.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	var n node
	flags := cli.Flags("answer", usage, stderr)
	flags.TextVar(&n.config.Self6, "source", netip.Addr{}, "IPv6 `address` of the switch, from which the Fast CNPs come")
	flags.IntVar(&n.every, "every", 1, "answer every `N`-th matching packet")
	flags.BoolVar(&n.config.InnerSource, "inner-source", false, "answer packets that come in a tunnel too, to the source inside it")
	flags.DurationVar(&n.perFlow, "per-flow", 0, "least `time` between two Fast CNPs about one flow")
	flags.Float64Var(&n.config.Rate.PerSecond, "rate", 0, "Fast CNPs a second at most, one at once; 0 sets no limit")
	flags.BoolVar(&n.onlyCE, "ecn", false, "only packets marked CE match")
	flags.Func("long", "`what` to do with an IOAM trace that is too long for option 2: refuse, then there is no Fast CNP; "+
		"trim, which leaves its free space out; fallback, then option 1 is sent (default refuse)", n.setLong)
	switch err := flags.Parse(args); {
	case err != nil:
		return cli.Unparsed(err)
	case flags.NArg() != 2:
		flags.Usage()
		return cli.Misused
	}
	if err := n.check(); err != nil {
		fmt.Fprintln(stderr, "rocecn answer:", err)
		return cli.Misused
	}
	if err := n.start(); err != nil {
		fmt.Fprintln(stderr, "rocecn answer:", err)
		return cli.Misused
	}

	from, to := flags.Arg(0), flags.Arg(1)
	say := func(name string, err error) { cli.Say(stderr, "answer", name, err) }
	if to != "-" && cli.Same(from, stdin, to) {
		say(to, errors.New("the capture that is read cannot be written"))
		return cli.Misused
	}
	out := bufio.NewWriterSize(stdout, 64<<10)
	// Before it waits for more it hands out what was written, so that the
	// answers to a live capture do not stand in a buffer.
	in, err := cli.Open(ctx, from, stdin, func(int64) error { return out.Flush() })
	if err != nil {
		say(from, err)
		return cli.Failed
	}
	defer in.Close()
	closeOut := func() error { return nil }
	if to != "-" {
		f, err := os.Create(to)
		if err != nil {
			say(to, err)
			return cli.Failed
		}
		out.Reset(f)
		closeOut = f.Close
	}

	err = n.run(in, out)
	broken := out.Flush() // gives the error of a write before, too
	if err := closeOut(); broken == nil {
		broken = err
	}
	switch {
	case cli.Closed(broken):
		return 0
	case broken != nil:
		say(to, broken)
		return cli.Failed
	case err != nil:
		say(from, err)
		status = cli.Failed
	}
	n.count.print(stderr)
	return status
}
