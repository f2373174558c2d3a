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
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/rocev2"
)

// A role is shown one frame after the other.
type role interface {
	// play returns the line to print, whose Action is silent where the role has
	// no say, and the IP packet that it sends or forwards, nil when there is none.
	// Frame, Time and Role of the line are filled in by the caller. The packet is
	// valid until the next call.
	play(f *frame) (line, []byte)
}

// A reliever is a role that sends something of its own accord once it is time,
// which in a capture is with the next frame of any kind.
type reliever interface {
	// relieve is called before play, until ok is false. What it returns is what play
	// returns.
	relieve(f *frame) (l line, packet []byte, ok bool)
}

// A config is the configuration of a role: a struct with the keys in its json
// tags, which embeds [common].
type config interface {
	// role checks what [decode] cannot, and returns the role. Its errors are
	// those of [wrong]. A role that is not enabled may lack anything.
	role() (role, error)
}

// roles are the roles by name, each with an empty configuration.
var roles = map[string]func() config{}

// A frame is one of the capture.
type frame struct {
	Time    time.Time // of the capture; 1970 where it does not say
	Data    []byte
	Options rocev2.DecodeOptions // what Data begins with, and whether it was cut
}

const usage = `usage: rocecn play -role %s -config FILE IN [OUT]
IN is a pcap or pcapng capture, gzip or not, or - for standard input; OUT becomes a pcap capture.
`

// Run is the command: it returns the exit status. When ctx is cancelled, that is
// the end of the input.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	names := strings.Join(slices.Sorted(maps.Keys(roles)), "|")
	flags := cli.Flags("play", fmt.Sprintf(usage, names), stderr)
	name := flags.String("role", "", "the `role`: "+names)
	file := flags.String("config", "", "the role's configuration, a JSON `file`")
	switch err := flags.Parse(args); {
	case err != nil:
		return cli.Unparsed(err)
	case flags.NArg() < 1 || flags.NArg() > 2 || flags.Arg(1) == "-":
		flags.Usage()
		return cli.Misused
	}
	say := func(what string, err error) { cli.Say(stderr, "play", what, err) }
	if roles[*name] == nil {
		say("-role", fmt.Errorf("%q is none of %s", *name, names))
		return cli.Misused
	}
	role, err := configured(*name, *file)
	if err != nil {
		say("-config "+*file, err)
		return cli.Misused
	}

	p := player{name: *name, role: role, lines: bufio.NewWriterSize(stdout, 64<<10)}
	from, to := flags.Arg(0), flags.Arg(1)
	switch {
	case to != "" && cli.Same(from, stdin, to):
		say(to, errors.New("the capture that is read cannot be written"))
		return cli.Misused
	case to != "" && cli.Same(*file, nil, to):
		say(to, errors.New("that is the configuration"))
		return cli.Misused
	}
	in, err := cli.Open(ctx, from, stdin, func(int64) error { return p.flush() })
	if err != nil {
		say(from, err)
		return cli.Failed
	}
	defer in.Close()
	if to != "" {
		f, err := os.Create(to)
		if err != nil {
			say(to, err)
			return cli.Failed
		}
		defer f.Close()
		p.out = bufio.NewWriterSize(f, 64<<10)
	}

	err = p.run(in, func(l uint32) {
		say(from, fmt.Errorf("link type %v is not supported: its frames are not looked at", l))
	})
	switch broken := p.end(); {
	case cli.Closed(broken):
		return 0 // whoever reads the lines has seen enough
	case broken != nil:
		say("output", broken)
		return cli.Failed
	case err != nil:
		say(from, err)
		status = cli.Failed
	}
	p.summary.print(stderr)
	return status
}

// configured returns the role of this name as the file configures it.
func configured(name, file string) (role, error) {
	if file == "" {
		return nil, errors.New("the file is missing")
	}
	octets, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := roles[name]()
	if err := decode(octets, c); err != nil {
		return nil, err
	}
	return c.role()
}

// A player takes a role through a capture.
type player struct {
	name    string
	role    role
	lines   *bufio.Writer
	out     *bufio.Writer // nil when there is no OUT
	pcap    *capture.Writer
	summary summary
}

// run shows the frames of a capture to the role. The error is one of reading
// them or of flush. Each link type that cannot be looked at is reported once.
func (p *player) run(in capture.Reader, unsupported func(uint32)) error {
	seen := map[uint32]bool{}
	var r capture.Record
	for {
		if err := in.Next(&r); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		p.summary.frames++
		switch {
		case supported(&r):
			p.frame(&r)
		case !seen[r.Link]:
			seen[r.Link] = true
			unsupported(r.Link)
		}
	}
}

// supported says whether frames of the record's link type can be looked at.
func supported(r *capture.Record) bool {
	_, ok := rocev2.LinkTypeOf(uint32(r.Link))
	return ok
}

// frame shows one frame to the role.
func (p *player) frame(r *capture.Record) {
	f := frame{Time: r.Time, Data: r.Data, Options: r.Options()}
	if f.Time.IsZero() {
		f.Time = time.Unix(0, 0).UTC()
	}
	if first, ok := p.role.(reliever); ok {
		for l, packet, ok := first.relieve(&f); ok; l, packet, ok = first.relieve(&f) {
			p.say(l, packet, r)
		}
	}
	l, packet := p.role.play(&f)
	p.say(l, packet, r)
}

// say writes what a role has to say of a frame.
func (p *player) say(l line, packet []byte, r *capture.Record) {
	if packet != nil {
		p.write(packet, r)
	}
	if l.Action == silent {
		return
	}
	l.Frame, l.Time, l.Role = p.summary.frames, jsonTime(r.Time), p.name
	p.summary.add(&l)
	octets, err := json.Marshal(&l)
	if err != nil {
		panic(err) // a line is made of numbers and text
	}
	p.lines.Write(append(octets, '\n'))
}

// write writes a packet that a frame caused. The first one decides on the unit
// of time, as a pcap capture has only one.
func (p *player) write(packet []byte, cause *capture.Record) {
	p.summary.written++
	if p.out == nil {
		return
	}
	if p.pcap == nil {
		p.pcap, _ = capture.NewWriter(p.out, capture.Raw, cause.Unit)
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

// flush hands out what was written so far. It gives the errors of writing it,
// too.
func (p *player) flush() error {
	err := p.lines.Flush()
	if p.out != nil {
		err = errors.Join(err, p.out.Flush())
	}
	return err
}

// end is flush for the last time: OUT is a capture even without packets.
func (p *player) end() error {
	if p.out != nil && p.pcap == nil {
		p.pcap, _ = capture.NewWriter(p.out, capture.Raw, time.Microsecond)
	}
	return p.flush()
}
