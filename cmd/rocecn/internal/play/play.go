// Package play is `rocecn play`: a role of the network, rehearsed on a capture.
//
//	rocecn play -role switch|receiver|sender|proxy|ingress|border|pause -config FILE IN [OUT]
//
// IN is a capture, - for standard input; time is the capture's. OUT becomes a
// pcap capture of what the role would send or forward, as raw IP, each packet
// with the time of the frame that caused it. Standard output has one JSON
// object for each frame in which the role has a say. A summary goes to standard
// error. The exit status is 1 when IN could not be read to its end or OUT not be
// written, 2 when arguments or configuration are wrong.
//
// A role sees frames as the node would: what is inside a mirrored copy is not
// looked at.
package play

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/node"
)

const usage = `usage: rocecn play -role %s -config FILE IN [OUT]
IN is a pcap or pcapng capture, gzip or not, or - for standard input; OUT becomes a pcap capture.
`

// Run is the command: it returns the exit status. When ctx is cancelled, that is
// the end of the input.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	names := strings.Join(roles.Names(), "|")
	flags := cli.Flags("play", fmt.Sprintf(usage, names), stderr)
	name := flags.String("role", "", "the `role`: "+names)
	file := flags.String("config", "", "the role's configuration, a JSON `file`, or that of rocecn run, in TOML")
	switch err := flags.Parse(args); {
	case err != nil:
		return cli.Unparsed(err)
	case flags.NArg() < 1 || flags.NArg() > 2 || flags.Arg(1) == "-":
		flags.Usage()
		return cli.Misused
	}
	say := func(what string, err error) { cli.Say(stderr, "play", what, err) }
	if kind, _, _ := strings.Cut(*name, "["); roles.All[kind] == nil {
		say("-role", fmt.Errorf("%q is not one of %s", *name, names))
		return cli.Misused
	}
	role, err := configured(*name, *file)
	if err != nil {
		say("-config "+*file, err)
		return cli.Misused
	}

	from, to := flags.Arg(0), flags.Arg(1)
	if to != "" && cli.Same(*file, nil, to) {
		say(to, errors.New("the configuration that is read cannot be written"))
		return cli.Misused
	}
	p := player{command: "play", name: *name, output: "output", lines: bufio.NewWriterSize(stdout, 64<<10)}
	p.to(role)
	seen := map[uint32]bool{}
	p.unsupported = func(l uint32) {
		if !seen[l] {
			seen[l] = true
			say(from, fmt.Errorf("link type %v is not supported: its frames are not looked at", l))
		}
	}
	return p.take(ctx, from, to, stdin, stdout, stderr, func() { p.summary.print(stderr) })
}

// configured returns the role of this name as the file configures it.
func configured(name, file string) (roles.Role, error) {
	if file == "" {
		return nil, errors.New("the file is missing")
	}
	octets, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	instance, err := roles.Read(octets, name)
	if err != nil {
		return nil, err
	}
	return instance.Apply(nil)
}

// A player takes a role through a capture.
type player struct {
	command, name string // of the command, and of the role
	roles.Player
	cause   *capture.Record // what the role is shown
	lines   *bufio.Writer   // nil: none are printed
	out     *bufio.Writer   // nil: there is no OUT
	output  string          // what an error of writing is about
	pcap    *capture.Writer
	summary summary

	unsupported func(uint32) // is told of frames that cannot be looked at
	answers     *answerer    // of the command answer, nil otherwise
}

// to says which role it is.
func (p *player) to(r roles.Role) { p.Role, p.Say = r, p.say }

// take takes the role through the capture from, and writes the one called to, - for standard output, if it is to. In
// the end it reports, and returns the exit status.
func (p *player) take(
	ctx context.Context, from, to string, stdin io.Reader, stdout, stderr io.Writer, report func(),
) (status int) {
	say := func(what string, err error) { cli.Say(stderr, p.command, what, err) }
	if to != "" && to != "-" && cli.Same(from, stdin, to) {
		say(to, errors.New("the capture that is read cannot be written"))
		return cli.Misused
	}
	// Before it waits for more it hands out what was written, so that the answers to a live capture do not stand in a
	// buffer.
	in, err := cli.Open(ctx, from, stdin, func(int64) error { return p.flush() })
	if err != nil {
		say(from, err)
		return cli.Failed
	}
	defer in.Close()
	closeOut := func() error { return nil }
	switch to {
	case "":
	case "-":
		p.out = bufio.NewWriterSize(stdout, 64<<10)
	default:
		f, err := os.Create(to)
		if err != nil {
			say(to, err)
			return cli.Failed
		}
		p.out, closeOut = bufio.NewWriterSize(f, 64<<10), f.Close
	}
	err = p.run(in)
	broken := p.end()
	if err := closeOut(); broken == nil {
		broken = err
	}
	switch {
	case cli.Closed(broken):
		return 0 // whoever reads has seen enough
	case broken != nil:
		say(p.output, broken)
		return cli.Failed
	case err != nil:
		say(from, err)
		status = cli.Failed
	}
	report()
	return status
}

// run shows the frames of a capture to the role. The error is one of reading them or of flush.
func (p *player) run(in capture.Reader) error {
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
			p.answers.skip("of another link type")
		case !r.Supported():
			p.unsupported(r.Link)
		default:
			p.cause = &r
			p.Show(&r, false)
		}
	}
}

// say writes what a role has to say of a frame.
func (p *player) say(v *roles.Verdict, packet []byte) {
	if len(packet) > 0 {
		p.write(packet, p.cause)
	}
	if v.Action == node.Nothing || p.lines == nil {
		return
	}
	l := v.Line(p.name, p.summary.frames, p.cause.Time)
	p.summary.add(&l)
	octets, err := json.Marshal(&l)
	if err != nil {
		panic(err) // a line is made of numbers and text
	}
	p.lines.Write(append(octets, '\n'))
}

// write writes a packet that a frame caused. The first one decides on link type and unit of time, as a pcap capture has
// only one of each.
func (p *player) write(packet []byte, cause *capture.Record) {
	p.summary.written++
	if p.out == nil {
		return
	}
	if p.pcap == nil {
		link := capture.Raw
		if p.answers != nil {
			link = linkOf(cause)
			p.answers.link = link
		}
		p.pcap, _ = capture.NewWriter(p.out, link, cause.Unit)
	}
	p.pcap.Write(&capture.Record{Data: packet, OrigLen: originalLen(packet, cause), Time: cause.Time})
}

// originalLen returns how long a packet was, which the capture cut where it is a
// part of a frame that was cut.
func originalLen(packet []byte, cause *capture.Record) uint32 {
	n := len(packet)
	switch cut := int(cause.OrigLen) > len(cause.Data); {
	case cut && n >= 20 && packet[0]>>4 == 4:
		n = max(n, int(binary.BigEndian.Uint16(packet[2:])))
	case cut && n >= 40 && packet[0]>>4 == 6:
		n = max(n, 40+int(binary.BigEndian.Uint16(packet[4:])))
	}
	return uint32(n)
}

// flush hands out what was written so far. It gives the errors of writing it, too.
func (p *player) flush() error {
	switch {
	case p.lines == nil && p.out == nil:
		return nil
	case p.lines == nil:
		return p.out.Flush()
	case p.out == nil:
		return p.lines.Flush()
	}
	return errors.Join(p.lines.Flush(), p.out.Flush())
}

// end is flush for the last time: OUT is a capture even without packets.
func (p *player) end() error {
	if p.out != nil && p.pcap == nil {
		link := capture.Raw
		if p.answers != nil {
			link = capture.Ethernet
		}
		p.pcap, _ = capture.NewWriter(p.out, link, time.Microsecond)
	}
	return p.flush()
}
