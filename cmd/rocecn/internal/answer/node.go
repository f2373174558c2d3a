package answer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/play"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/message"
	reason "github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/rocev2"
)

// A node is the congested switch.
type node struct {
	config  congested.Config
	perFlow time.Duration
	every   int  // of the packets that match, each of them is answered
	onlyCE  bool // packets that are not marked CE do not match
	count   count

	role   *play.Switch
	around rocev2.Datagram
	frame  []byte
}

// setLong sets what becomes of a trace that is too long (D4).
func (n *node) setLong(choice string) error {
	switch choice {
	case "refuse":
		n.config.FastCNP.Long = fastcnp.Refuse
	case "trim":
		n.config.FastCNP.Long = fastcnp.Trim
	case "fallback":
		n.config.FastCNP.Long = fastcnp.FallBack
	default:
		return errors.New("refuse, trim or fallback allowed")
	}
	return nil
}

// check says what is wrong with the arguments.
func (n *node) check() error {
	switch source := n.config.Self6; {
	case !source.IsValid():
		return errors.New("-source is missing")
	case !source.Is6() || source.Zone() != "" || rocev2.Answerable(source) != nil:
		return fmt.Errorf("-source %v is no IPv6 address of a node", source)
	case n.every < 1:
		return fmt.Errorf("-every %d: 1 or more allowed", n.every)
	case n.perFlow < 0:
		return fmt.Errorf("-per-flow %v is negative", n.perFlow)
	case n.config.Rate.PerSecond < 0:
		return fmt.Errorf("-rate %v is negative", n.config.Rate.PerSecond)
	}
	return nil
}

// start makes the role: on, with Fast CNPs for all senders of IPv6.
func (n *node) start() (err error) {
	n.config.Enabled = true
	n.config.Methods = acl.NewMap(acl.Entry[congested.Method]{Prefix: netip.MustParsePrefix("::/0"), Value: congested.FastCNP})
	for i := range n.config.PerFlow {
		n.config.PerFlow[i] = n.perFlow
	}
	n.role, err = play.NewSwitch(n.config, n.onlyCE)
	return err
}

// run answers the packets of in. The error is one of reading them; those of
// writing stay in w.
func (n *node) run(in capture.Reader, w *bufio.Writer) error {
	// The first answer decides on link type and unit of time of what is
	// written, as a pcap capture has only one of each.
	var out *capture.Writer
	var link uint32
	for {
		var r capture.Record
		if err := in.Next(&r); err != nil {
			if out == nil { // without answers it is a capture all the same
				capture.NewWriter(w, capture.Ethernet, time.Microsecond)
			}
			if err == io.EOF {
				err = nil
			}
			return err
		}
		n.count.read++
		if out != nil && linkOf(&r) != link {
			n.count.skip("of another link type")
			continue
		}
		frame := n.answer(&r)
		if frame == nil {
			continue
		}
		if out == nil {
			link = linkOf(&r)
			out, _ = capture.NewWriter(w, link, r.Unit)
		}
		if out.Write(&capture.Record{Data: frame, OrigLen: uint32(len(frame)), Time: r.Time}) != nil {
			return nil
		}
	}
}

// linkOf returns the link type of the answer to r: only Ethernet headers are
// answered with one.
func linkOf(r *capture.Record) uint32 {
	if r.Link == capture.Ethernet {
		return capture.Ethernet
	}
	return capture.Raw
}

// answer returns the Fast CNP for a packet, nil when there is none to send. It
// is valid until the next packet.
func (n *node) answer(r *capture.Record) []byte {
	if !r.Supported() {
		n.count.skip("of a link type not supported")
		return nil
	}
	switch n.role.ICMP(r.Data, r.Options(), r.Time) {
	case reason.Accepted:
		n.count.skip("ICMPv6 error of a sender that is not capable")
		return nil
	case reason.Denied:
		n.count.skip("ICMPv6 error about nothing that was sent")
		return nil
	}
	if sender, congested, ok := n.role.Data(r.Data, r.Options()); ok {
		switch {
		case !sender.Is6():
			n.count.skip("IPv4")
			return nil
		case !congested:
			n.count.skip("not marked CE")
			return nil
		}
		n.count.matched++
		if n.count.matched%n.every != 0 {
			return nil
		}
	}
	return n.decide(r)
}

// decide asks the role for the answer.
func (n *node) decide(r *capture.Record) []byte {
	head := n.frame[:0]
	if n.around.Decode(r.Data, r.Options()) == nil {
		head = n.around.AppendReplyLink(head, 6)
	}
	frame, d := n.role.Congested(head, &congested.Event{Frame: r.Data, Options: r.Options()}, r.Time)
	n.frame = frame[:0]
	switch {
	case d.Reason != reason.Accepted:
		n.count.skip(skipped(&d))
		return nil
	case d.Kind == message.Other:
		n.count.skip("marked only: the sender is not capable")
		return nil
	}
	n.count.written[d.Option]++
	return frame
}

// skipped says in a word why there is no Fast CNP.
func skipped(d *congested.Decision) string {
	switch {
	case d.Packet == message.Other && d.Reason == reason.NotOurs:
		return "not RoCEv2"
	case d.Packet != message.Data && d.Packet != message.Other && d.Packet != message.Broken:
		return d.Packet.String()
	case d.Packet == message.Data && d.Reason == reason.Broken:
		return "IOAM trace too long"
	case d.Reason == reason.Address:
		return "from or to an address that is not answered"
	}
	return d.Reason.String()
}
