package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/live"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/mapped"
	"github.com/rocecn/rocecn/rocev2"
)

// Inputs are the inputs of a command: captures, or an interface.
type Inputs struct {
	Names []string
	Live  bool // the only name is that of an interface
	Stdin io.Reader
	// Without reports, after the flags are parsed, whether a command without any of these has another input. A nil
	// Without stands for false.
	Without func() bool

	iface          string // of -i
	encapsulations Encapsulations
}

// Parse parses the arguments of a command, with -i and the flags of Encapsulations among others. Unless
// ok, the command is to end with this status.
func (i *Inputs) Parse(flags *flag.FlagSet, args []string) (status int, ok bool) {
	flags.StringVar(&i.iface, "i", "", "read this `interface` live, until an interrupt")
	i.encapsulations.Flags(flags)
	var err error
	if i.Names, err = Parse(flags, args); err != nil {
		return Unparsed(err), false
	}
	i.Live = i.iface != ""
	if i.Live && len(i.Names) > 0 {
		return Misuse(flags.Output(), flags.Name(), fmt.Errorf("-i %s and the capture %s: want only one of them",
			i.iface, i.Names[0])), false
	}
	none := !i.Live && len(i.Names) == 0 && i.Without != nil && i.Without()
	if !i.Live && len(i.Names) == 0 && !none {
		flags.Usage()
		return Misused, false
	}
	if i.Live {
		i.Names = []string{i.iface}
	}
	return 0, true
}

// FileSeed is the seed of tables that learn from files, so that the output for a file is always the same.
const FileSeed = 1

// Seed returns FileSeed for files, and 0, a random one, for an interface: there
// an attacker may choose packets.
func (i *Inputs) Seed() uint64 {
	if i.Live {
		return 0
	}
	return FileSeed
}

// An Input is a capture that a command reads, from a file, from standard input or
// live. Its end is io.EOF, and so is an interrupt, wherever it comes.
type Input struct {
	Size int64 // of a file, 0 when it is not known

	packets capture.Reader
	live    *live.Source    // nil of a file
	file    *mapped.File    // mapped file that contains the packets, or nil
	ctx     context.Context // ends the reading of a mapped file
	closers []io.Closer     // standard input stays open

	encapsulations *rocev2.Encapsulations // of the records
}

// Open opens the file of this name, or standard input for -, and detects its format. Before each read it calls
// beforeRead with the number of octets read so far, so that the caller can flush its output for a live capture. An
// error of beforeRead is returned as the error of the input.
//
// The end of ctx is the end of the input. Data that a pipe still holds, or receives shortly afterwards, is read:
// tcpdump, interrupted by the same key, writes its last packets then.
func Open(ctx context.Context, name string, stdin io.Reader, beforeRead func(octets int64) error) (*Input, error) {
	return (&Inputs{Stdin: stdin}).Open(ctx, name, beforeRead, nil)
}

// Open is the function Open for one of the inputs. If block is not nil, a file that is named and not compressed is
// mapped into memory where the system supports it. Then neither block nor beforeRead is called, the caller must read
// packets within File().Guard, and the file ends where it ends now. Otherwise block returns the memory to read into, as
// for [capture.OpenBlocks].
func (i *Inputs) Open(ctx context.Context, name string, beforeRead func(octets int64) error,
	block func() []byte) (*Input, error) {
	if i.Live {
		in, err := live.Open(ctx, name, beforeRead)
		if err != nil {
			return nil, err
		}
		return &Input{packets: in, live: in, closers: []io.Closer{in}, encapsulations: i.encapsulations.Options()}, nil
	}
	in, octets := &Input{encapsulations: i.encapsulations.Options()}, i.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, withoutPath(err)
		}
		octets, in.closers = f, append(in.closers, f)
	}
	if f, ok := octets.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			in.Size = info.Size()
		}
		if in.Size > 0 && block != nil && name != "-" && in.mapFile(ctx, f) {
			return in, nil
		}
	}
	if in.Size > 0 {
		octets = &stopped{ctx, octets}
	} else {
		p := pipeInput(ctx, octets)
		octets, in.closers = p, append(in.closers, p)
	}
	var err error
	in.packets, err = capture.OpenBlocks(&watched{r: octets, before: beforeRead}, block)
	if errors.Is(err, errInterrupted) {
		in.packets, err = interrupted{}, nil
	}
	if err != nil {
		in.Close()
		return nil, withoutPath(err)
	}
	return in, nil
}

// mapFile opens the capture in a file, which is not empty, as a part of memory, and reports whether this is possible.
func (in *Input) mapFile(ctx context.Context, f *os.File) bool {
	file, err := mapped.Map(f, in.Size)
	if err != nil {
		return false
	}
	var packets capture.Reader
	fault := file.Guard(func() { packets, err = capture.OpenBytes(file.Octets) })
	in.packets, in.file, in.ctx = packets, file, ctx
	if fault != nil || err != nil || in.Compressed() {
		in.packets, in.file = nil, nil
		file.Close()
		return false // reading it has the same error
	}
	in.closers = append(in.closers, file)
	return true
}

// File returns the mapped file that contains the packets, or nil.
func (in *Input) File() *mapped.File { return in.file }

// Next is capture.Reader's.
func (in *Input) Next(r *capture.Record) error {
	if in.file != nil && in.ctx.Err() != nil {
		return io.EOF
	}
	err := in.packets.Next(r)
	if err != nil && errors.Is(err, errInterrupted) {
		return io.EOF
	}
	return err
}

// AppendBuffered appends the packets that Next can return without reading from the file, if they begin before position
// end. It is faster than Next for each of them.
func (in *Input) AppendBuffered(all []capture.Record, end int64) ([]capture.Record, error) {
	type buffered interface {
		AppendBuffered(all []capture.Record, end int64) ([]capture.Record, error)
	}
	if b, ok := in.packets.(buffered); ok {
		return b.AppendBuffered(all, end)
	}
	return all, nil
}

// Position returns the number of octets read so far of a mapped file.
func (in *Input) Position() int64 { return in.packets.(interface{ Position() int64 }).Position() }

// Compressed reports whether the capture is compressed, so that reading it takes long.
func (in *Input) Compressed() bool {
	c, ok := in.packets.(interface{ Compressed() bool })
	return ok && c.Compressed()
}

// Options returns the options to decode a record of in.
func (in *Input) Options(r *capture.Record) rocev2.DecodeOptions {
	o := r.Options()
	o.Encapsulations = in.encapsulations
	return o
}

// Dropped returns the number of packets of a live capture that the kernel has dropped so far.
func (in *Input) Dropped() uint64 {
	if in.live == nil {
		return 0
	}
	return in.live.Dropped()
}

// Close ends the reading. Standard input stays open.
func (in *Input) Close() (err error) {
	for _, c := range in.closers {
		err = errors.Join(err, c.Close())
	}
	return err
}

// errInterrupted is the end of reading that an interrupt brings.
var errInterrupted = errors.New("interrupted")

// interrupted is the input after an interrupt before its first octet.
type interrupted struct{}

func (interrupted) Next(*capture.Record) error { return io.EOF }

// watched calls before ahead of every Read.
type watched struct {
	r      io.Reader
	before func(octets int64) error
	octets int64
}

func (w *watched) Read(b []byte) (int, error) {
	if err := w.before(w.octets); err != nil {
		return 0, err
	}
	n, err := w.r.Read(b)
	w.octets += int64(n)
	return n, err
}

// stopped ends with ctx. It is for files, where no Read takes long.
type stopped struct {
	ctx context.Context
	r   io.Reader
}

func (s *stopped) Read(b []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, errInterrupted
	}
	return s.r.Read(b)
}

// grace is the time that a pipe may go on after the interrupt; tests change it.
var grace = time.Second

// pipeInput returns a reader of the same octets as r. It ends with ctx even while a Read of r waits, as
// another goroutine reads r. That one ends once the result is closed.
func pipeInput(ctx context.Context, r io.Reader) *io.PipeReader {
	from, to := io.Pipe()
	interrupt := func() { to.CloseWithError(errInterrupted) }
	longer := grace
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(longer, interrupt) })
	go func() {
		_, err := io.CopyBuffer(to, struct{ io.Reader }{r}, make([]byte, 64<<10)) // in pieces of this size
		to.CloseWithError(err)
		stop()
	}()
	return from
}
