package play

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/rocev2"
)

const answerUsage = "usage: rocecn answer [-every N] [-per-flow TIME] [-rate N] [-ecn] [-inner-source] " +
	`[-long TREATMENT]
                     [-option-types N[,N]] -source ADDR IN OUT
IN is a pcap or pcapng capture, gzip or not, OUT a pcap capture; - for standard input and output.
`

// Answer is the command rocecn answer: the switch role with flags instead of a file. It reads a capture of RoCEv2
// traffic and writes a capture of the Fast CNPs that a congested switch would send for it. It returns the exit
// status.
//
// RoCEv2 data packets over IPv6 match; with -ecn, only those with CE, in a tunnel also in its headers. Each of them, or
// with -every each N-th, is answered with a Fast CNP to its source: with option 2 if the packet carries an IOAM
// trace, otherwise with option 1. Acknowledgements, notifications and IPv4, for which there is no Fast CNP, are not
// answered. Packets in a tunnel are answered only with -inner-source, because a switch may be unable to reach their
// inner source.
//
// Each answer has the time of the packet that it answers. In a capture of Ethernet it also has that packet's
// MAC addresses, swapped, and its VLAN tags; otherwise it is raw IP. A summary goes to standard error.
func Answer(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	a := answerer{skipped: map[string]int{}}
	cfg := congested.Config{Enabled: true, Seed: cli.FileSeed}
	flags := cli.Flags("answer", answerUsage, stderr)
	flags.Func("source", "IPv6 `address` of the switch, from which the Fast CNPs come", func(text string) (err error) {
		if cfg.Self6, err = netip.ParseAddr(text); err != nil {
			return errors.New("want an IPv6 address")
		}
		return nil
	})
	flags.IntVar(&a.every, "every", 1, "answer every `N`-th matching packet")
	flags.BoolVar(&cfg.FastCNP.InnerSource, "inner-source", false,
		"also answer tunnelled packets, to the inner source")
	flags.DurationVar(&cfg.PerFlow[0], "per-flow", 0, "least `time` between two Fast CNPs about one flow")
	flags.Float64Var(&cfg.Out.PerSecond, "rate", 0, "maximum Fast CNPs a second, without bursts; 0 sets no limit")
	cli.OptionTypes(flags, &cfg.FastCNP.CodePoints)
	flags.BoolVar(&a.onlyCE, "ecn", false, "answer only packets marked CE")
	flags.Func("long", "`treatment` of an IOAM trace that does not fit into option 2: \"refuse\" (send nothing), "+
		"\"trim\" (drop its free space), or \"fallback\" (send option 1) (default \"refuse\")",
		func(choice string) error {
			long, ok := map[string]fastcnp.LongTrace{
				"refuse": fastcnp.LongTraceReject, "trim": fastcnp.LongTraceTrim, "fallback": fastcnp.LongTraceFallBack,
			}[choice]
			if !ok {
				return errors.New(`want "refuse", "trim" or "fallback"`)
			}
			cfg.FastCNP.Long = long
			return nil
		})
	var encapsulations cli.Encapsulations
	encapsulations.Flags(flags)
	files, err := cli.Parse(flags, args)
	switch {
	case err != nil:
		return cli.Unparsed(err)
	case len(files) != 2:
		flags.Usage()
		return cli.Misused
	}
	if err := a.configureRole(cfg); err != nil {
		fmt.Fprintln(stderr, "rocecn answer:", err)
		return cli.Misused
	}
	p := player{command: "answer", answers: &a, output: files[1]}
	p.setRole(&a)
	p.Encapsulations = encapsulations.Options()
	p.unsupported = func(uint32) { a.countSkipped("of a link type not supported") }
	return p.readInput(ctx, files[0], files[1], stdin, stdout, stderr, func() {
		a.printSummary(stderr,
			p.summary.frames)
	})
}

// An answerer is the congested switch. It counts the packets by outcome.
type answerer struct {
	*congested.Role
	onlyCE  bool            // answer only packets marked CE
	every   int             // answer each N-th packet that matches
	link    uint32          // of the answers, once there is one
	around  rocev2.Datagram // its link-layer header alone
	message message.Message

	matched int
	written [3]int         // by the number of the option, 1 or 2
	skipped map[string]int // by the reason
}

// configureRole makes the agent, with Fast CNPs for all senders over IPv6. The error says which flag is wrong.
func (a *answerer) configureRole(cfg congested.Config) (err error) {
	switch source := cfg.Self6; {
	case !source.IsValid():
		return errors.New("-source is not set: want the IPv6 address of the switch")
	case !source.Is6() || source.Zone() != "" || rocev2.CheckAnswerable(source) != nil:
		return fmt.Errorf("-source %v: want an IPv6 unicast address that others can reach", source)
	case a.every < 1:
		return fmt.Errorf("-every %d: want 1 or more", a.every)
	case cfg.PerFlow[0] < 0:
		return fmt.Errorf("-per-flow %v: want 0 or more", cfg.PerFlow[0])
	case cfg.Out.PerSecond < 0:
		return fmt.Errorf("-rate %v: want 0 or more", cfg.Out.PerSecond)
	case math.IsNaN(cfg.Out.PerSecond) || math.IsInf(cfg.Out.PerSecond, 0):
		return fmt.Errorf("-rate %v: want a finite number", cfg.Out.PerSecond)
	}
	for _, t := range []ipv6opt.Type{cfg.FastCNP.CodePoints.Option1, cfg.FastCNP.CodePoints.Option2} {
		if t != 0 && t>>5 != 0b100 { // FAST section 6
			return fmt.Errorf("-option-types 0x%02x: want act bits 10 and chg bit 0, which is 0x80 to 0x9f", uint8(t))
		}
	}
	everybody := acl.Entry[congested.Method]{Prefix: netip.MustParsePrefix("::/0"), Value: congested.MethodFastCNP}
	cfg.Methods = acl.NewMap(everybody)
	a.Role, err = congested.New(cfg)
	return err
}

// linkOf returns the link type of the answer to a packet: Ethernet for Ethernet, otherwise raw IP.
func linkOf(r *capture.Record) uint32 {
	if r.Link == capture.Ethernet {
		return capture.Ethernet
	}
	return capture.Raw
}

// Receive appends the Fast CNP for a packet and its link header; nil if there is none to send.
func (a *answerer) Receive(out []byte, f *rocev2.Frame, e node.Event) (packet []byte, _ node.Decision) {
	if sender, marked, ok := roles.Data(f, &a.message); ok {
		switch {
		case !sender.Is6():
			a.countSkipped("IPv4")
			return
		case a.onlyCE && !marked:
			a.countSkipped("not marked CE")
			return
		}
		a.matched++
		if a.matched%a.every != 0 {
			return
		}
	}
	a.around.Link = f.Link()
	out = a.around.AppendReplyLink(out, 6)
	e.Level = 0
	out, d := a.Role.Receive(out, f, e)
	if d.Action != node.ActionSent {
		a.countSkipped(skipReason(&d))
		return
	}
	a.written[d.Option]++
	return out, node.Decision{}
}

// skipReason returns the reason why there is no Fast CNP, for the summary.
func skipReason(d *node.Decision) string {
	switch {
	case d.Action == node.ActionLearned:
		return "ICMPv6 error of a sender that is not capable"
	case d.Action == node.ActionMarked && d.Reason == node.NoReason:
		return "marked only: the sender is not capable"
	case d.Action == node.NoAction:
		return "not RoCEv2"
	case d.Reason == node.ReasonUnconfirmed:
		return "ICMPv6 error that another one has to confirm"
	case d.Reason == node.ReasonDenied:
		return "ICMPv6 error about nothing that was sent"
	case d.Packet != message.KindData && d.Packet != message.KindOther && d.Packet != message.KindError:
		return d.Packet.String()
	case d.Packet == message.KindData && d.Reason == node.ReasonBroken:
		return "IOAM trace too long"
	case d.Reason == node.ReasonAddress:
		return "from or to an address that is not answered"
	}
	return d.Reason.String()
}

func (a *answerer) countSkipped(reason string) { a.skipped[reason]++ }

// printSummary writes the summary, the most frequent reasons first:
//
//	packets: 253 read, 72 matched; Fast CNPs: 70 with option 1, 2 with option 2
//	skipped: 159 not RoCEv2, 22 ack
func (a *answerer) printSummary(w io.Writer, read int) {
	fmt.Fprintf(w, "packets: %d read, %d matched; Fast CNPs: %d with option 1, %d with option 2\n",
		read, a.matched, a.written[1], a.written[2])
	if len(a.skipped) == 0 {
		return
	}
	reasons := slices.SortedFunc(maps.Keys(a.skipped), func(x, y string) int {
		return cmp.Or(cmp.Compare(a.skipped[y], a.skipped[x]), cmp.Compare(x, y))
	})
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%d %s", a.skipped[reason], reason)
	}
	fmt.Fprintf(w, "skipped: %s\n", strings.Join(reasons, ", "))
}
