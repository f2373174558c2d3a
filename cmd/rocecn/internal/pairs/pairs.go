// Package pairs is the command that prints, for captures of RoCEv2 traffic, the queue pair that sends to each queue
// pair, and the evidence. A data packet names only the receiver's queue pair. The sender's is learned from connection
// management (cm), from the PSNs of requests and responses (votes), or from the DETH (ud). A line remains when the
// connection ends; a new connection of the same queue pair has a new line. At most 262,144 lines are kept.
package pairs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/batches"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/internal/qplearn"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

const usage = `usage: rocecn pairs [-json] [-outer] [-i INTERFACE | FILE…]
Reports the pairs of queue pairs, and the evidence. FILE is a pcap or pcapng capture,
gzip or not, or - for standard input; several are read as one.
`

// Run is the command: it returns the exit status.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	flags := cli.Flags("pairs", usage, stderr)
	asJSON := flags.Bool("json", false, "print one JSON object for each line")
	outer := flags.Bool("outer", false, "ignore the packets inside mirrors and tunnels other than IP in IP")
	r := reader{inputs: cli.Inputs{Stdin: stdin}}
	if status, ok := r.inputs.Parse(flags, args); !ok {
		return status
	}
	r.outer, r.table = *outer, newTable(r.inputs.Seed(), maxRows)
	for _, name := range r.inputs.Names {
		if err := r.readCapture(ctx, name); err != nil {
			cli.PrintError(stderr, "pairs", name, err)
			status = cli.Failed
		}
	}
	out := bufio.NewWriter(stdout)
	write := writeTable
	if *asJSON {
		write = writeJSON
	}
	rows := r.table.sortedRows()
	err := write(out, rows)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return cli.End(stderr, "pairs", err)
	}
	if status == 0 || r.packets > 0 {
		r.table.printSummary(stderr, rows, r.packets)
	}
	if r.cut > 0 {
		fmt.Fprintf(stderr, "truncated before the end of the headers: %d; capture with -s %d or more\n", r.cut,
			r.needed)
	}
	if r.inputs.Live {
		fmt.Fprintf(stderr, "dropped by the kernel: %d\n", r.dropped)
	}
	return status
}

// A reader passes the packets of captures to a table.
type reader struct {
	inputs  cli.Inputs
	outer   bool // decode the outer packet of mirrors and overlays
	table   *table
	packets int
	cut     int    // too short by the snap length to be read
	needed  int    // the snap length with which they could be
	dropped uint64 // by the kernel, of a live capture
}

// A packet has the fields of a packet that a table needs.
type packet struct {
	seen     qplearn.Observation
	learn    bool // the packet can be evidence for a pair
	counts   bool // the packet belongs to a row: it is neither management nor a notification
	datagram bool // seen.SrcQP is the sender
	needs    int  // if the snapshot length was too short: length in octets that is sufficient, else 0
	time     time.Time
}

// readCapture passes the packets of a file, or of an interface until ctx ends, to the table.
func (r *reader) readCapture(ctx context.Context, name string) error {
	in := batches.Reader[[]packet]{Inputs: &r.inputs, Workers: batches.DefaultWorkers(), Use: r.useBatch,
		NewPreparer: func() func(*batches.Batch[[]packet]) {
			d := decoder{outer: r.outer}
			return d.decodeBatch
		}}
	return in.ReadCapture(ctx, name)
}

// useBatch passes the packets of a batch to the table.
func (r *reader) useBatch(b *batches.Batch[[]packet]) error {
	for i := range b.Result {
		p := &b.Result[i]
		r.packets++
		if p.needs > 0 {
			r.cut, r.needed = r.cut+1, max(r.needed, p.needs)
		}
		r.table.observe(p)
	}
	r.dropped = b.Dropped
	return nil
}

// A decoder decodes packets for one goroutine.
type decoder struct {
	outer  bool
	frame  rocev2.Frame
	packet rocev2.Packet
}

// decodeBatch decodes the packets of a batch.
func (d *decoder) decodeBatch(b *batches.Batch[[]packet]) {
	b.Result = slices.Grow(b.Result[:0], len(b.Records))[:len(b.Records)]
	clear(b.Result)
	for i := range b.Records {
		record, p := &b.Records[i], &b.Result[i]
		p.time = record.Time
		if !record.Supported() {
			continue
		}
		o := b.Input.Options(record)
		o.Outer = d.outer
		d.frame.Decode(record.Data, o) // Packet returns the same error
		if d.frame.Inner().Packet(&d.packet) == nil {
			p.set(&d.packet)
		} else {
			p.needs = message.SnapLength(&d.frame, message.Config{NoFCN: true, NoProxy: true})
		}
	}
}

// set sets the fields from a RoCEv2 packet.
func (p *packet) set(from *rocev2.Packet) {
	p.learn = p.seen.Set(from, 0)
	k, ok := from.FlowKey()
	p.counts = ok && k.DestQP > 1 && from.BTH.Opcode.IsKnown()
	p.datagram = from.BTH.Present.Has(bth.HasDETH)
}
