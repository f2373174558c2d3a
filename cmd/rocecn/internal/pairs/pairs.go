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

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
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

// A reader shows the packets of captures to a table.
type reader struct {
	inputs  cli.Inputs
	outer   bool // decode the outer packet of mirrors and overlays
	table   *table
	packets int
	cut     int    // too short by the snap length to be read
	needed  int    // the snap length with which they could be
	dropped uint64 // by the kernel, of a live capture

	frame  rocev2.Frame
	packet rocev2.Packet
}

// readCapture prints the table of a file, or of an interface until ctx ends.
func (r *reader) readCapture(ctx context.Context, name string) error {
	in, err := r.inputs.Open(ctx, name, func(int64) error { return nil }, nil)
	if err != nil {
		return err
	}
	defer in.Close()
	defer func() { r.dropped = in.Dropped() }()
	var record capture.Record
	for {
		if err := in.Next(&record); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		r.packets++
		if r.decodeRecord(&record, in.Options(&record)) {
			r.table.observe(&r.packet, record.Time)
		} else if record.Supported() {
			if need := message.SnapLength(&r.frame, message.Config{NoFCN: true, NoProxy: true}); need > 0 {
				r.cut, r.needed = r.cut+1, max(r.needed, need)
			}
		}
	}
}

// decodeRecord reports whether the record is a RoCEv2 packet, or contains one in a tunnel.
func (r *reader) decodeRecord(record *capture.Record, o rocev2.DecodeOptions) bool {
	if !record.Supported() {
		return false
	}
	o.Outer = r.outer
	r.frame.Decode(record.Data, o) // InnerPacket returns the same error
	return r.frame.Inner().Packet(&r.packet) == nil
}
