// Command rocecn reads, answers and sends the congestion signals of RoCEv2.
//
//	rocecn FILE…                      print the packets of captures, one line each
//	rocecn COMMAND [flags] [arguments]
//	rocecn version                    print the version
//
// rocecn -h lists the commands, rocecn COMMAND -h prints the usage of one.
//
// An interrupt is the end of the input: packets already read are processed, summaries are printed, and the exit
// status is 0. A closed pipe, as with head, ends a command quietly. The exit status is 1 when something failed, 2
// when the arguments are wrong.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/conform"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/filter"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/flows"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/host"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/inspect"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/listen"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/pairs"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/play"
	agent "github.com/rocecn/rocecn/cmd/rocecn/internal/run"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/send"
	"github.com/rocecn/rocecn/internal/build"
)

// A command is one of the tool's. Run gets the arguments after the command's
// name and returns the exit status; the end of ctx is an interrupt.
type command struct {
	name, help string
	run        func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

var commands = []command{
	{"inspect", "decode captures, one line for each packet", inspect.Run},
	{"flows", "report loss, congestion and answers of every flow in captures", flows.Run},
	{"top", "show the flows that are in trouble now", flows.Top},
	{"pairs", "report the pairs of queue pairs in captures", pairs.Run},
	{"host", "record the RDMA counters of this host, for flows -host", host.Run},
	{"answer", "write the Fast CNPs that a congested switch would send for a capture", play.Answer},
	{"play", "rehearse a role of the network on a capture", play.Run},
	{"run", "play roles of the network on real interfaces, by a configuration file", agent.Run},
	{"status", "print the state of a running agent: notified senders and flows, hosts that reject", agent.Status},
	{"check", "report errors in a configuration of run, and the rights that it needs", agent.Check},
	{"conform", "test a device of any vendor against the drafts", conform.Run},
	{"filter", "print filters for tcpdump, sockets, nftables, iptables and tc", filter.Run},
	{"send", "send an FCN or a proxy message over UDP", send.Run},
	{"listen", "receive FCN or proxy messages over UDP and print them", listen.Run},
}

func main() { os.Exit(runCommand(interruptContext(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// interruptContext returns a context that the first interrupt ends. One that comes
// a second later or more ends the program immediately; sooner, it is the same
// interrupt, which timeout and some shells send to a process and to its group.
// A closed pipe becomes an error of the write; without that it ends the program
// by a signal, of which go run complains.
func interruptContext() context.Context {
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	return ctx
}

// runCommand is main with everything that it touches as an argument.
func runCommand(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		printUsage(stderr)
		return cli.Misused
	}
	switch name := args[0]; name {
	case "-h", "-help", "--help", "help":
		var text strings.Builder
		if i := slices.Index(commandNames(), args[len(args)-1]); i >= 0 { // help COMMAND
			commands[i].run(ctx, []string{"-h"}, stdin, &text, &text)
		} else {
			printUsage(&text)
		}
		return printText("help", text.String(), stdout, stderr)
	case "-version", "--version", "version":
		return printText("version", build.Read().Line("rocecn"), stdout, stderr)
	case "completion": // source <(rocecn completion), in bash
		if len(args) > 2 || len(args) > 1 && args[1] != "bash" {
			fmt.Fprintln(stderr, "rocecn completion: for bash only; zsh reads it after bashcompinit")
			return cli.Misused
		}
		text := fmt.Sprintf("complete -o default -W '%s' rocecn\n", strings.Join(commandNames(), " "))
		return printText("completion", text, stdout, stderr)
	default:
		if i := slices.Index(commandNames(), name); i >= 0 {
			return commands[i].run(ctx, args[1:], stdin, stdout, stderr)
		}
		if !isFile(name) {
			const text = "rocecn: %s is neither a command nor a file; rocecn -h lists the commands\n"
			fmt.Fprintf(stderr, text, cli.Printable(name))
			return cli.Misused
		}
	}
	return inspect.Run(ctx, args, stdin, stdout, stderr) // rocecn FILE…
}

// printText is a command that only prints a text.
func printText(command, text string, stdout, stderr io.Writer) int {
	_, err := io.WriteString(stdout, text)
	return cli.End(stderr, command, err)
}

// commandNames returns the names of the commands.
func commandNames() (all []string) {
	for _, c := range commands {
		all = append(all, c.name)
	}
	return all
}

// isFile reports whether an argument is a capture, or a flag of inspect before one, rather than an unknown command.
func isFile(name string) bool {
	if strings.HasPrefix(name, "-") {
		return true
	}
	_, err := os.Stat(name)
	return err == nil || strings.ContainsAny(name, "./\\")
}

func printUsage(w io.Writer) {
	fmt.Fprint(w, `Decodes, answers and sends the congestion signals of RoCEv2.

usage: rocecn FILE…                decode captures: short for rocecn inspect FILE…
       rocecn COMMAND [flags] …
       rocecn version              print the version

`)
	for _, c := range commands {
		fmt.Fprintf(w, "  %-8s  %s\n", c.name, c.help)
	}
	fmt.Fprint(w, `
Run 'rocecn COMMAND -h' for the usage of a command. In bash, source <(rocecn completion) lets Tab
complete the commands. For a first look, from the root of the module:

  rocecn testdata/tour.pcap
`)
}
