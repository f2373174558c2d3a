package answer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/capture"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// A node is the congested switch.
type node struct {
	config fastcnp.Config
	every  int  // of the packets that match, each of them is answered
	onlyCE bool // packets that are not marked CE do not match
	count  count

	received message.Message
	sent     message.Message
	frame    []byte
}

// setLong sets what becomes of a trace that is too long (D4).
func (n *node) setLong(choice string) error {
	switch choice {
	case "refuse":
		n.config.Long = fastcnp.Refuse
	case "trim":
		n.config.Long = fastcnp.Trim
	case "fallback":
		n.config.Long = fastcnp.FallBack
	default:
		return errors.New("refuse, trim or fallback allowed")
	}
	return nil
}

// check says what is wrong with the arguments.
func (n *node) check() error {
	switch source := n.config.Src; {
	case !source.IsValid():
		return errors.New("-source is missing")
	case !source.Is6() || source.Zone() != "" || rocev2.Answerable(source) != nil:
		return fmt.Errorf("-source %v is no IPv6 address of a node", source)
	case n.every < 1:
		return fmt.Errorf("-every %d: 1 or more allowed", n.every)
	}
	return nil
}

// run answers the packets of in. The error is one of reading them; those of
// writing stay in w.
func (n *node) run(in capture.Reader, w *bufio.Writer) error {
	// The first answer decides on link type and unit of time of what is
	// written, as a pcap capture has only one of each.
	var out *capture.Writer
	var link capture.LinkType
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
func linkOf(r *capture.Record) capture.LinkType {
	if r.Link == capture.Ethernet {
		return capture.Ethernet
	}
	return capture.Raw
}

// answer returns the Fast CNP for a packet, nil when there is none to send. It
// is valid until the next packet.
func (n *node) answer(r *capture.Record) []byte {
	if why := n.mismatch(r); why != "" {
		n.count.skip(why)
		return nil
	}
	n.count.matched++
	if n.count.matched%n.every != 0 {
		return nil
	}
	p := &n.received.Packet
	head := p.AppendReplyLink(n.frame[:0], 6)
	frame, _, err := fastcnp.AppendFor(head, p, nil, n.config)
	if err != nil {
		n.count.skip(skipped(err))
		return nil
	}
	n.frame = frame
	n.sent.Decode(frame[len(head):], rocev2.DecodeOptions{Link: rocev2.LinkIP}, message.Config{})
	n.count.written[n.sent.FastCNP.Option.Number]++
	return frame
}

// mismatch says why a packet does not match, in a word; nothing when it does.
func (n *node) mismatch(r *capture.Record) string {
	if !r.Supported() {
		return "of a link type not supported"
	}
	n.received.Decode(r.Data, r.Options(), message.Config{})
	p := &n.received.Packet
	switch kind := n.received.Kind; {
	case kind == message.Other:
		return "not RoCEv2"
	case kind == message.Broken:
		return "broken"
	case kind != message.Data:
		return kind.String()
	case !p.Src.Is6():
		return "IPv4"
	case n.onlyCE && p.ECN() != 3:
		return "not marked CE"
	}
	return ""
}

// skipped says in a word why there is no Fast CNP.
func skipped(err error) string {
	switch err {
	case fastcnp.ErrTooLong:
		return "IOAM trace too long"
	case fastcnp.ErrTunnelled:
		return "tunnelled"
	case rocev2.ErrNotReachable:
		return "from an address that cannot be answered"
	}
	return err.Error()
}
