// Package inspect is the command that prints the packets of RoCEv2 captures, one line each: BTH and extended headers,
// congestion messages of each kind, Ethernet flow control, IOAM traces and the result of the ICRC check. docs/tool.md
// shows its output.
package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/qpmap"
)

const usage = `usage: rocecn inspect [-json] [-all] [-outer] [-link] [-pairs] [-option-types N[,N]] [-fcn-port N]
                      [-proxy-port N] [-proxy-family 4|6] [-vxlan-port N] [-fou-port N] [-csig-tpid N]
                      [-i INTERFACE | FILE…]
FILE is a pcap or pcapng capture, gzip or not, or - for standard input.
`

// Run is the command: it returns the exit status.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	flags := cli.Flags("inspect", usage, stderr)
	asJSON := flags.Bool("json", false, "print one JSON object for each line")
	all := flags.Bool("all", false, "also print packets that are neither RoCEv2 nor a congestion message")
	outer := flags.Bool("outer", false, "ignore the packets inside mirrors and tunnels other than IP in IP")
	link := flags.Bool("link", false, "also print MAC addresses, VLAN tag, and the addresses of outer IP headers")
	pairs := flags.Bool("pairs", false, "also show the sender's queue pair, if it is known, and the evidence")
	var codePoints cli.CodePoints
	codePoints.Flags(flags)
	codePoints.ProxyFamily(flags)
	i := inspector{inputs: cli.Inputs{Stdin: stdin}, out: bufio.NewWriterSize(stdout, 64<<10), stderr: stderr}
	if status, ok := i.inputs.Parse(flags, args); !ok {
		return status
	}
	var err error
	if i.decoder.config, err = codePoints.Config(); err != nil {
		return cli.Misuse(stderr, "inspect", err)
	}
	i.decoder.outer = *outer
	if *pairs {
		i.decoder.pairs = qpmap.New(cli.LearnConfig(i.inputs.Seed(), false))
	}
	i.printer = &humanPrinter{w: i.out, all: *all, link: *link}
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
		err := i.readCapture(ctx, name)
		var broken cli.OutputError
		switch {
		case errors.As(err, &broken):
			return cli.End(stderr, "inspect", broken)
		case err != nil:
			i.reportError(name, err)
			status = cli.Failed
		}
	}
	if status == 0 || i.summary.packets > 0 {
		i.summary.print(stderr)
	}
	return status
}

// An inspector reads captures and prints findings.
type inspector struct {
	inputs   cli.Inputs
	out      *bufio.Writer
	stderr   io.Writer
	printer  interface{ print(*finding) error }
	decoder  recordDecoder
	summary  summary
	progress cli.Progress
	octets   int64 // of the file, read so far
}

// readCapture prints the packets of a capture.
func (i *inspector) readCapture(ctx context.Context, name string) error {
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
		f := i.decoder.decodeRecord(&r, in.Options(&r))
		f.frame = frame
		if len(i.inputs.Names) > 1 {
			f.file = name
		}
		if f.err == errLinkType && !links[r.Link] {
			links[r.Link] = true
			i.reportError(name, fmt.Errorf("link type %v is not supported: its packets are counted as other", r.Link))
		}
		i.summary.add(f)
		if err := i.printer.print(f); err != nil {
			return cli.Output(err)
		}
		if frame%1024 == 0 {
			i.progress.Update(frame, i.octets, in.Size)
		}
	}
}

// beforeRead flushes the output, so that a live capture prints its lines before it waits for the next packet.
func (i *inspector) beforeRead(octets int64) error {
	i.octets = octets
	return i.flush()
}

// reportError tells the user something about a file.
func (i *inspector) reportError(name string, err error) {
	i.progress.Clear()
	i.flush()
	cli.PrintError(i.stderr, "inspect", name, err)
}

func (i *inspector) flush() error { return cli.Output(i.out.Flush()) }
