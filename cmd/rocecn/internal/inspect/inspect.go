// Package inspect is the command that prints the packets of RoCEv2 captures, one line each: BTH and extended headers,
// congestion messages of each kind, Ethernet flow control, IOAM traces and the result of the ICRC check. docs/tool.md
// shows its output.
package inspect

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/batches"
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
	i.workers = batches.DefaultWorkers()
	i.newPrinter = func() (printer, *output) {
		lines := new(output)
		return &jsonPrinter{w: lines}, lines
	}
	if !*asJSON { // one printer for all files: columns are as wide as in the lines before
		lines := new(output)
		human := &humanPrinter{w: lines, all: *all, link: *link}
		i.newPrinter = func() (printer, *output) { return human, lines }
	}
	if !*asJSON || *pairs { // a line depends on the packets before
		i.workers = 1
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
	inputs  cli.Inputs
	workers int
	// newPrinter returns a printer for one goroutine, and its output.
	newPrinter func() (printer, *output)
	out        *bufio.Writer
	stderr     io.Writer
	decoder    recordDecoder // a copy for each goroutine
	summary    summary
	progress   cli.Progress
}

// A printer prints findings.
type printer interface{ print(*finding) error }

// printed is the result of printing a batch.
type printed struct {
	lines   bytes.Buffer
	summary summary
	links   []uint32 // link types that are not supported, each once
	err     error    // error of printing the packet after these lines, or nil
}

// readCapture prints the packets of a capture.
func (i *inspector) readCapture(ctx context.Context, name string) error {
	i.progress.Name = name
	defer i.progress.Clear()
	file := ""
	if len(i.inputs.Names) > 1 {
		file = name
	}
	reported := map[uint32]bool{} // link types
	in := batches.Reader[printed]{Inputs: &i.inputs, Workers: i.workers,
		NewPreparer: func() func(*batches.Batch[printed]) {
			d := i.decoder
			d.finding.file = file
			p, lines := i.newPrinter()
			return func(b *batches.Batch[printed]) {
				lines.Buffer = &b.Result.lines
				printBatch(b, &d, p)
			}
		},
		Use: func(b *batches.Batch[printed]) error {
			for _, link := range b.Result.links {
				if !reported[link] {
					reported[link] = true
					i.reportError(name, fmt.Errorf("link type %v is not supported: its packets are counted as other",
						link))
				}
			}
			return i.useBatch(b)
		}}
	err := in.ReadCapture(ctx, name)
	var broken cli.OutputError
	if errors.As(err, &broken) {
		return err
	}
	return errors.Join(err, i.flush())
}

// output is the buffer that a printer writes to: that of the present batch.
type output struct{ *bytes.Buffer }

// printBatch prints the packets of a batch to its buffer.
func printBatch(b *batches.Batch[printed], d *recordDecoder, p printer) {
	out := &b.Result
	out.lines.Reset()
	out.summary, out.links, out.err = summary{}, out.links[:0], nil
	for n := range b.Records {
		r := &b.Records[n]
		f := d.decodeRecord(r, b.Input.Options(r))
		f.frame = b.First + n + 1
		if f.err == errLinkType && !slices.Contains(out.links, r.Link) {
			out.links = append(out.links, r.Link)
		}
		out.summary.add(f)
		if out.err = p.print(f); out.err != nil {
			return
		}
	}
}

// useBatch writes the lines of a batch, and returns the error that ended them. Lines of a pipe or an interface are
// flushed, as the next packet may come late.
func (i *inspector) useBatch(b *batches.Batch[printed]) error {
	i.summary.addAll(&b.Result.summary)
	i.summary.live, i.summary.dropped = i.inputs.Live, b.Dropped
	if _, err := i.out.Write(b.Result.lines.Bytes()); err != nil {
		return cli.Output(err)
	}
	if err := b.Result.err; err != nil {
		return cli.Output(errors.Join(err, i.flush()))
	}
	if b.Input.Size == 0 {
		return i.flush()
	}
	i.progress.Update(b.First+len(b.Records), b.Octets, b.Input.Size)
	return nil
}

// reportError tells the user something about a file.
func (i *inspector) reportError(name string, err error) {
	i.progress.Clear()
	i.flush()
	cli.PrintError(i.stderr, "inspect", name, err)
}

func (i *inspector) flush() error { return cli.Output(i.out.Flush()) }
