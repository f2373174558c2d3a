// Package inspect is the command that prints what is in captures of RoCEv2
// traffic, one line a packet: BTH and extended headers, congestion messages of
// every kind, Ethernet flow control, IOAM traces, and whether the ICRC is right.
//
//	rocecn inspect [-json] [-all] [-outer] [-pairs] [-fcn-port N] [-proxy-port N] [-i INTERFACE | FILE…]
//
// It reads pcap and pcapng, packed with gzip or not; the file - is standard
// input. Frames are Ethernet, bare IP, Linux cooked (tcpdump -i any) or BSD
// loopback. On Linux, -i reads an interface live. From the root of the module:
//
//	$ rocecn inspect testdata/messages.pcap
//	$ rocecn inspect -i eth0
//	$ tcpdump -i any -U -w - udp port 4791 | rocecn inspect -
//	$ rocecn inspect -json testdata/*.pcap | jq -c 'select(.icrc.ok == false)'
//
// A line has the number of the packet, the time in UTC, addresses and ports,
// transport and operation, destination queue pair and packet sequence number,
// length of the payload, ICRC, and behind these whatever else there is to say
// (all on one line, which is broken here):
//
//	61  09:50:49.365112  [fd77::2]:58177 > [fd77::1]:4791  RC SEND Last with Immediate  qp=0x000011
//	    psn=16777211  payload=2  icrc ok  imm=0xcafe0007  ackreq  dscp=26
//
// Of the congestion messages it says who reports what about which flow; a trace
// is the packet's way from hop to hop, with the depth of the queue that it met:
//
//	1  09:25:09.019332  [2001:db8:ffff::5]:49152 > [2001:db8:1::a]:4791  Fast CNP  qp=0x000012
//	    psn=0  payload=16  icrc ok  from the network: 2001:db8:1::a > 2001:db8:4::e is congested
//	    trace ns=123: 178 q=0 > 195 q=0 > 212 q=0  dscp=48
//	2  09:50:49.000011  198.51.100.5:49152 > 192.0.2.1:4791  PPFC stop  qp=0x000011 psn=0  payload=12
//	    icrc ok  address=198.51.100.5 port=7 pause=100µs  dscp=48
//	3  09:50:49.000012  [2001:db8:ffff::5]:49152 > [2001:db8:1::1]:1021  FCN  label=0xbeef5 level=7  dscp=48
//	4  09:50:49.000014  [2001:db8:ffff::5]:49152 > [2001:db8:ffff::9]:1022  Proxy message  qp=0x000011 level=3
//	    UDP [2001:db8:1::1]:49152 > [2001:db8:4::e]:4791 is congested  invoking=144  dscp=48
//	5  09:50:49.000024  -  PFC  priority 3 pause=65535 quanta, priority 4 resume
//
// Connection management shows the queue pairs that it joins (key cm in JSON). With
// -pairs every packet shows its sender's queue pair beside the receiver's, once
// that is known, and how: by connection management (cm), by the PSNs of requests
// and responses (votes), or from the packet itself (ud); in JSON src_qp and
// src_qp_from.
//
// Mirrors and overlays (ERSPAN, GRE, VXLAN, Geneve, MPLS, SRv6) are looked
// through: the packet inside is described, and which they are; not so with
// -outer. Packets that are neither RoCEv2 nor a congestion message are counted,
// and shown with -all; JSON always has them. Broken ones are shown as ERROR.
//
// A summary goes to standard error. The exit status is 1 when a file could not
// be read to its end, 2 when the arguments are wrong.
package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

const usage = `usage: rocecn inspect [-json] [-all] [-outer] [-pairs] [-fcn-port N] [-proxy-port N]
                      [-i INTERFACE | FILE…]
FILE is a pcap or pcapng capture, gzip or not, or - for standard input.
`

// Run is the command: it returns the exit status.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	flags := cli.Flags("inspect", usage, stderr)
	asJSON := flags.Bool("json", false, "print one JSON object a line")
	all := flags.Bool("all", false, "print packets that are neither RoCEv2 nor a congestion message too")
	outer := flags.Bool("outer", false, "do not look into mirrors and overlays")
	pairs := flags.Bool("pairs", false, "show the sender's queue pair too, as far as it is known, and how")
	fcnPort := flags.Uint("fcn-port", fcn.ExperimentalPort, "UDP destination `port` of FCN messages")
	proxyPort := flags.Uint("proxy-port", proxymsg.ExperimentalPort, "UDP destination `port` of messages to a proxy")
	i := inspector{inputs: cli.Inputs{Stdin: stdin}, out: bufio.NewWriterSize(stdout, 64<<10), stderr: stderr}
	if status, ok := i.inputs.Parse(flags, args); !ok {
		return status
	}
	if err := checkPorts(rocev2.Port, *fcnPort, *proxyPort); err != nil {
		fmt.Fprintln(stderr, "rocecn inspect:", err)
		return cli.Misused
	}

	i.looker.config = message.Config{FCNPort: uint16(*fcnPort), ProxyPort: uint16(*proxyPort)}
	i.looker.outer = *outer
	if *pairs {
		i.looker.pairs = qpmap.New(qpmap.Config{})
	}
	i.printer = &humanPrinter{w: i.out, all: *all}
	if *asJSON {
		i.printer = &jsonPrinter{w: i.out}
	}
	if !i.inputs.Live {
		i.progress = cli.NewProgress(stdout, stderr)
	}
	for n, name := range i.inputs.Names {
		if n > 0 && ctx.Err() != nil {
			break // the interrupt was the end of the file before
		}
		err := i.read(ctx, name)
		var broken cli.OutputError
		switch {
		case errors.As(err, &broken):
			return cli.End(stderr, "inspect", broken)
		case err != nil:
			i.message(name, err)
			status = cli.Failed
		}
	}
	i.summary.print(stderr)
	return status
}

// checkPorts sees to it that every port is one, and one kind's alone.
func checkPorts(ports ...uint) error {
	seen := map[uint]bool{}
	for _, p := range ports {
		if p == 0 || p > 0xFFFF {
			return fmt.Errorf("port %d: 1 to 65535 allowed", p)
		}
		if seen[p] {
			return fmt.Errorf("port %d is given to two kinds of message", p)
		}
		seen[p] = true
	}
	return nil
}

// An inspector goes through captures and prints what it finds.
type inspector struct {
	inputs   cli.Inputs
	out      *bufio.Writer
	stderr   io.Writer
	printer  interface{ print(*finding) error }
	looker   looker
	summary  summary
	progress cli.Progress
	octets   int64 // of the file, read so far
}

// read prints the packets of a capture.
func (i *inspector) read(ctx context.Context, name string) error {
	i.progress.Name = name
	defer i.progress.Clear()
	in, err := i.inputs.Open(ctx, name, i.beforeRead, nil)
	if err != nil {
		return err
	}
	defer in.Close()
	defer func() { i.summary.live, i.summary.dropped = i.inputs.Live, in.Dropped() }()
	links := map[uint32]bool{} // not supported, and said so
	var r capture.Record
	for frame := 1; ; frame++ {
		if err := in.Next(&r); err == io.EOF {
			return i.flush()
		} else if err != nil {
			return errors.Join(err, i.flush())
		}
		f := i.looker.look(&r)
		f.frame = frame
		if len(i.inputs.Names) > 1 {
			f.file = name
		}
		if f.err == errLinkType && !links[r.Link] {
			links[r.Link] = true
			i.message(name, fmt.Errorf("link type %v is not supported: its packets are counted as other", r.Link))
		}
		i.summary.add(f)
		if err := i.printer.print(f); err != nil {
			return cli.Output(err)
		}
		if frame%1024 == 0 {
			i.progress.Show(frame, i.octets, in.Size)
		}
	}
}

// beforeRead hands out what was printed, so that the lines of a live capture do
// not stand in a buffer while the program waits for more.
func (i *inspector) beforeRead(octets int64) error {
	i.octets = octets
	return i.flush()
}

// message tells the user something about a file.
func (i *inspector) message(name string, err error) {
	i.progress.Clear()
	i.flush()
	cli.Say(i.stderr, "inspect", name, err)
}

func (i *inspector) flush() error {
	return cli.Output(i.out.Flush())
}
