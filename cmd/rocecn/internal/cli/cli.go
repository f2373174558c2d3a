// Package cli has the common parts of the commands: their flags and input, the progress of
// reading, the text of errors, and their end by a closed pipe and by an
// interrupt.
package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
)

// The exit statuses of the commands, beside 0.
const (
	Failed     = 1 // something could not be read or written
	Misused    = 2 // the arguments are wrong
	RuleBroken = 3 // a rule of flows -check is broken
)

// Flags returns an empty set of flags for a command. Usage prints usage and the
// list of the flags to stderr.
func Flags(command, usage string, stderr io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	return flags
}

// Parse parses the arguments of a command, flags before, between and after the
// others, which it returns. After -- there are no flags. It prints an error, and
// the usage only if the arguments ask for it.
func Parse(flags *flag.FlagSet, args []string) (others []string, err error) {
	usage, stderr := flags.Usage, flags.Output()
	flags.Usage = func() {}
	flags.SetOutput(io.Discard) // package flag prints each error with the usage
	defer func() {
		flags.Usage = usage
		flags.SetOutput(stderr)
		switch {
		case errors.Is(err, flag.ErrHelp):
			usage()
		case err != nil:
			Misuse(stderr, flags.Name(), fmt.Errorf("%w\nrocecn %s -h lists the flags", err, flags.Name()))
		}
	}()
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		rest := flags.Args()
		if n := len(args) - len(rest); len(rest) == 0 || n > 0 && args[n-1] == "--" {
			return append(others, rest...), nil
		}
		others, args = append(others, rest[0]), rest[1:]
	}
}

// Unparsed returns the exit status for an error of parsing flags: 0 where they
// ask for help.
func Unparsed(err error) int {
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	return Misused
}

// Misuse prints an error of the arguments of a command, and returns the exit
// status for that.
func Misuse(stderr io.Writer, command string, err error) int {
	fmt.Fprintf(stderr, "rocecn %s: %s\n", command, printableError(err))
	return Misused
}

// PrintError prints an error of a command about a file or another named object.
func PrintError(stderr io.Writer, command, name string, err error) {
	fmt.Fprintf(stderr, "rocecn %s: %s: %s\n", command, Printable(name), printableError(withoutPath(err)))
}

// PrintDropped prints the number of datagrams or packets that the kernel dropped, if it is not 0.
func PrintDropped(stderr io.Writer, command string, n uint64, noun string) {
	if n > 0 {
		fmt.Fprintf(stderr, "rocecn %s: %s dropped by the kernel\n", command, Count(n, noun))
	}
}

// printableError returns the text of an error, which may hold names from outside.
func printableError(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i := range lines {
		lines[i] = Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// withoutPath takes the path out of an error: the name of the file stands
// before its text already.
func withoutPath(err error) error {
	if p, ok := err.(*fs.PathError); ok {
		return p.Err
	}
	return err
}

// An OutputError is one of writing the output: there is no use in going on.
type OutputError struct{ error }

// Output makes an error of writing the output an OutputError. Nil stays nil.
func Output(err error) error {
	if err == nil {
		return nil
	}
	return OutputError{err}
}

func (e OutputError) Unwrap() error { return e.error }

// End returns the exit status of a command that ends with err, and prints it: 0
// for nil and where the output is closed.
func End(stderr io.Writer, command string, err error) int {
	if err == nil || Closed(err) {
		return 0
	}
	fmt.Fprintf(stderr, "rocecn %s: %s\n", command, printableError(err))
	return Failed
}

// Closed reports whether err means that the reader of a pipe has closed it,
// as head does: then the command ends without a message.
func Closed(err error) bool { return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) }
