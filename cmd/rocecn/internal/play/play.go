// Package play is `rocecn play`: it runs a role on a capture.
//
//	rocecn play -role switch|receiver|sender|proxy|ingress|border|pause -config FILE [-bmp STREAM] IN [OUT]
//
// IN is a capture, - for standard input; the time is that of the capture. OUT becomes a pcap capture of the packets
// that the role would send or forward, as raw IP, each with the time of the frame that caused it. Standard output has
// one JSON object for each frame that the role decided about. A summary goes to standard error. The exit status is 1
// if IN could not be read to its end or OUT could not be written, 2 if arguments or configuration are wrong.
//
// A role sees frames as the node would, so it does not look into mirrored
// copies.
package play

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/node"
)

const usage = `usage: rocecn play -role %s -config FILE [-bmp STREAM] IN [OUT]
IN is a pcap or pcapng capture, gzip or not, or - for standard input; OUT becomes a pcap capture.
`

// Run is the command: it returns the exit status. Cancelling ctx ends the
// input.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	names := strings.Join(roles.Names(), "|")
	flags := cli.Flags("play", fmt.Sprintf(usage, names), stderr)
	name := flags.String("role", "", "the `role`: "+names)
	file := flags.String("config", "", "configuration of the role: a JSON `file`, or the TOML file of rocecn run")
	stream := flags.String("bmp", "",
		"recorded BMP stream of a router, a `file`, for a switch with proxies_from = \"routing\"")
	var encapsulations cli.Encapsulations
	encapsulations.Flags(flags)
	files, err := cli.Parse(flags, args)
	if len(files) == 1 {
		files = append(files, "") // no OUT
	}
	switch {
	case err != nil:
		return cli.Unparsed(err)
	case len(files) != 2 || files[1] == "-":
		flags.Usage()
		return cli.Misused
	}
	printError := func(what string, err error) { cli.PrintError(stderr, "play", what, err) }
	if kind, _, _ := strings.Cut(*name, "["); roles.All[kind] == nil {
		printError("-role", fmt.Errorf("%q: want %s", *name, names))
		return cli.Misused
	}
	if *file == "" {
		printError("-config", errors.New("not set: want a configuration in JSON or TOML"))
		return cli.Misused
	}
	instance, err := readInstance(*name, *file)
	if err != nil {
		printError("-config "+*file, err)
		return cli.Misused
	}
	var routes *recording
	if *stream != "" {
		if routes, err = openRecording(*stream, instance); err != nil {
			printError("-bmp "+*stream, err)
			return cli.Misused
		}
		defer routes.file.Close()
	}
	role, err := instance.Apply(nil)
	if err != nil {
		printError("-config "+*file, err)
		return cli.Misused
	}

	from, to := files[0], files[1]
	switch {
	case to == "":
	case cli.Same(*file, nil, to):
		printError(to, errors.New("the configuration that is read cannot be written"))
		return cli.Misused
	case *stream != "" && cli.Same(*stream, nil, to):
		printError(to, errors.New("the BMP stream that is read cannot be written"))
		return cli.Misused
	}
	p := player{command: "play", name: *name, output: "output", lines: bufio.NewWriterSize(stdout, 64<<10)}
	p.setRole(role)
	p.Encapsulations = cmp.Or(encapsulations.Options(), instance.Config.Encapsulations())
	if routes != nil {
		p.before = func(now time.Time) {
			if !now.IsZero() && routes.advance(now) {
				printError("-bmp "+*stream, errors.New("begins after the capture, so all its messages come before the "+
					"first frame"))
			}
		}
	}
	seen := map[uint32]bool{}
	p.unsupported = func(l uint32) {
		if !seen[l] {
			seen[l] = true
			printError(from, fmt.Errorf("link type %v is not supported: its frames are not looked at", l))
		}
	}
	status = p.readInput(ctx, from, to, stdin, stdout, stderr, func() { p.summary.printTo(stderr) })
	if err := routes.damage(); err != nil {
		printError("-bmp "+*stream, err)
		return max(status, cli.Failed)
	}
	return status
}

// readInstance returns the role of this name, as the file configures it.
func readInstance(name, file string) (*roles.Instance, error) {
	octets, err := config.ReadFile(file)
	if err != nil {
		return nil, err
	}
	instance, err := roles.Read(octets, name)
	if err != nil {
		return nil, err
	}
	instance.Config.Rehearse(cli.FileSeed)
	return instance, nil
}

// A player runs a role on a capture.
type player struct {
	command, name string // names of the command and of the role
	roles.Driver
	cause   *capture.Record // the frame that the role receives
	lines   *bufio.Writer   // answer has none
	out     *bufio.Writer   // to nowhere if there is no OUT
	output  string          // names OUT in errors
	pcap    *capture.Writer
	summary summary

	before      func(time.Time) // called with the time of each frame, before the role receives it; answer has none
	unsupported func(uint32)    // called with link types that are not supported
	answers     *answerer       // of the command answer, nil otherwise
}

// setRole sets the role.
func (p *player) setRole(r node.Role) { p.Role, p.Report = r, p.reportDecision }

// readInput runs the role on the capture named from, and writes the one named to if that is not empty (- for
// standard output). At the end it prints the summary, and returns the exit status.
func (p *player) readInput(
	ctx context.Context, from, to string, stdin io.Reader, stdout, stderr io.Writer, report func(),
) (status int) {
	printError := func(what string, err error) { cli.PrintError(stderr, p.command, what, err) }
	if to != "" && to != "-" && cli.Same(from, stdin, to) {
		printError(to, errors.New("the capture that is read cannot be written"))
		return cli.Misused
	}
	p.out = bufio.NewWriterSize(io.Discard, 64<<10)
	// Flush before a read that waits, so that the answers to a live capture do not stay in a buffer.
	in, err := cli.Open(ctx, from, stdin, func(int64) error { return p.flushOutput() })
	if err != nil {
		printError(from, err)
		return cli.Failed
	}
	defer in.Close()
	var file *os.File
	switch to {
	case "":
	case "-":
		p.out.Reset(stdout)
	default:
		if file, err = os.Create(to); err != nil {
			printError(to, err)
			return cli.Failed
		}
		p.out.Reset(file)
	}
	err = p.playFrames(in)
	broken := p.closeOutput()
	if file != nil {
		broken = cmp.Or(broken, file.Close())
	}
	switch {
	case cli.Closed(broken):
		return 0 // the reader of standard output has closed it
	case broken != nil:
		printError(p.output, broken)
		return cli.Failed
	case err != nil:
		printError(from, err)
		status = cli.Failed
	}
	report()
	return status
}

// playFrames passes the frames of a capture to the role. The error is one of reading or of flush.
func (p *player) playFrames(in capture.Reader) error {
	var r capture.Record
	for {
		if err := in.Next(&r); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		p.summary.frames++
		switch {
		case p.answers != nil && p.pcap != nil && p.answers.link != linkOf(&r):
			p.answers.countSkipped("of another link type")
		case !r.Supported():
			p.unsupported(r.Link)
		default:
			p.cause = &r
			if p.before != nil {
				p.before(r.Time)
			}
			p.Receive(&r, node.Event{Level: roles.UnknownLevel})
		}
	}
}

// reportDecision writes the decision of a role about a frame.
func (p *player) reportDecision(d *node.Decision, packet []byte, _ bool) {
	if len(packet) > 0 {
		p.writePacket(packet, p.cause)
	}
	if d.Action == node.NoAction || p.answers != nil {
		return
	}
	l := roles.NewLine(p.name, p.Role, d, p.summary.frames, p.cause.Time)
	p.summary.addLine(&l)
	octets, err := json.Marshal(&l)
	if err != nil {
		panic(err) // cannot happen: a line has only numbers and text
	}
	p.lines.Write(append(octets, '\n'))
}

// writePacket writes a packet that a frame caused.
func (p *player) writePacket(packet []byte, cause *capture.Record) {
	p.summary.written++
	p.beginOutput(linkOf(cause), cause.Unit)
	r := capture.Record{Data: packet, Time: cause.Time}
	if p.answers == nil { // an answer is whole, and maybe a frame
		r.OrigLen = originalLen(packet, cause)
	}
	p.pcap.Write(&r)
}

// beginOutput begins OUT, unless it has begun. The first packet determines its link type, of answer alone, and the
// unit of time, because a pcap capture has only one of each.
func (p *player) beginOutput(link uint32, unit time.Duration) {
	switch {
	case p.pcap != nil:
		return
	case p.answers == nil:
		link = capture.Raw
	default:
		p.answers.link = link
	}
	p.pcap, _ = capture.NewWriter(p.out, link, unit)
}

// originalLen returns the original length of a packet. If it is part of a cut
// frame, the capture has cut it too.
func originalLen(packet []byte, cause *capture.Record) uint32 {
	n := len(packet)
	if int(cause.OrigLen) > len(cause.Data) && wire.Version(packet) != 0 {
		n = max(n, wire.Length(packet))
	}
	return uint32(n)
}

// flushOutput flushes both outputs, and returns their errors.
func (p *player) flushOutput() error {
	if p.answers != nil {
		return p.out.Flush()
	}
	return errors.Join(p.lines.Flush(), p.out.Flush())
}

// closeOutput is the last flush. OUT becomes a capture also without packets.
func (p *player) closeOutput() error {
	p.beginOutput(capture.Ethernet, time.Microsecond)
	return p.flushOutput()
}
