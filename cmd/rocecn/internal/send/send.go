// Package send is the command that sends an FCN or a proxy message over a UDP
// socket.
package send

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// options are the command line.
type options struct {
	fcn, proxy string
	label      uint64
	level      uint
	dscp, hops uint
	capture    string
	frame      int
}

var usage = fmt.Sprintf(`usage: rocecn send -fcn ADDR -label L [-level N] [-dscp N] [-hops N]
       rocecn send -proxy ADDR -capture FILE [-frame N] [-level N] [-dscp N] [-hops N]
ADDR is host:port, as in [::1]:%d. -fcn sends the flow label of a congested
flow, -proxy a packet of a capture, which is - for standard input, and its five-tuple.
`, fcn.Port)

// Run is the command: it returns the exit status.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var o options
	flags := cli.Flags("send", usage, stderr)
	flags.StringVar(&o.fcn, "fcn", "", "send an FCN to this `address`")
	flags.StringVar(&o.proxy, "proxy", "", "send a proxy message to this `address`")
	flags.Func("label", "flow `label` of the congested flow, 20 bits", func(text string) (err error) {
		if o.label, err = strconv.ParseUint(text, 0, 20); err != nil {
			return errors.New("want a number from 1 to 0xfffff")
		}
		return nil
	})
	flags.UintVar(&o.level, "level", 0, "congestion `level`, 0 to 7")
	flags.UintVar(&o.dscp, "dscp", 48, "`DSCP` to send with, 0 to 63")
	flags.UintVar(&o.hops, "hops", 64, "hop `limit` to send with, 1 to 255")
	flags.StringVar(&o.capture, "capture", "", "`file` that holds the congested packet")
	flags.IntVar(&o.frame, "frame", 1, "`number` of the congested packet in it, from 1")
	others, err := cli.Parse(flags, args)
	if err != nil {
		return cli.Unparsed(err)
	}
	wrong := ""
	switch {
	case len(others) > 0:
		wrong = fmt.Sprintf("argument %q: want none besides flags", others[0])
	case (o.fcn == "") == (o.proxy == ""):
		wrong = "want one of -fcn and -proxy"
	case o.fcn != "" && (o.capture != "" || o.frame != 1):
		wrong = "-capture and -frame: want -proxy as well"
	case o.proxy != "" && o.label != 0:
		wrong = "-label: want -fcn as well"
	case o.dscp > 63:
		wrong = fmt.Sprintf("-dscp %d: want 0 to 63", o.dscp)
	case o.hops < 1 || o.hops > 255:
		wrong = fmt.Sprintf("-hops %d: want 1 to 255", o.hops)
	case o.fcn != "" && o.label == 0:
		wrong = "-label 0: want a label above 0 with -fcn"
	case o.proxy != "" && o.capture == "":
		wrong = "-proxy without -capture: want a file with the congested packet"
	case o.level > fcn.MaxLevel:
		wrong = fmt.Sprintf("-level %d: want 0 to 7", o.level)
	case o.frame < 1:
		wrong = fmt.Sprintf("-frame %d: want 1 or more", o.frame)
	}
	if wrong != "" {
		return cli.Misuse(stderr, "send", errors.New(wrong))
	}
	if o.fcn != "" {
		err = o.sendFCN(stdout)
	} else {
		err = o.sendProxy(ctx, stdin, stdout)
	}
	return cli.End(stderr, "send", err)
}

func (o *options) sendFCN(stdout io.Writer) error {
	data, err := fcn.Message{FlowLabel: uint32(o.label), Level: uint8(o.level)}.AppendBinary(nil)
	if err != nil {
		return err
	}
	return o.sendDatagrams(o.fcn, stdout, func(netip.Addr) ([]byte, error) { return data, nil })
}

func (o *options) sendProxy(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	m, err := o.buildMessage(ctx, stdin)
	if err != nil {
		return err
	}
	return o.sendDatagrams(o.proxy, stdout, func(proxy netip.Addr) ([]byte, error) {
		m.TruncateInvoking(proxy)
		return m.AppendBinary(nil)
	})
}

// sendDatagrams sends one datagram with the DSCP and hop limit asked for.
func (o *options) sendDatagrams(address string, stdout io.Writer, data func(to netip.Addr) ([]byte, error)) error {
	out, err := netio.DialUDP(address, uint8(o.dscp), uint8(o.hops))
	if err != nil {
		return err
	}
	defer out.Close()
	if out.Remote().Port() == 0 {
		return fmt.Errorf("%s: port 0: want 1 to 65535", address)
	}
	b, err := data(out.Remote().Addr())
	if err != nil {
		return err
	}
	if err := out.Send(b); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%d octets from %v to %v\n", len(b), out.Local(), out.Remote())
	return err
}

// buildMessage returns the proxy message about the packet that -capture and -frame name.
func (o *options) buildMessage(ctx context.Context, stdin io.Reader) (m proxymsg.Message, err error) {
	in, err := cli.Open(ctx, o.capture, stdin, func(int64) error { return nil })
	if err != nil {
		return m, fmt.Errorf("%s: %w", o.capture, err)
	}
	defer in.Close()
	var r capture.Record
	for range o.frame {
		if err := in.Next(&r); err == io.EOF {
			return m, fmt.Errorf("%s has no frame %d", o.capture, o.frame)
		} else if err != nil {
			return m, fmt.Errorf("%s: %w", o.capture, err)
		}
	}
	if !r.Supported() {
		return m, fmt.Errorf("%s, frame %d: link type %v is not supported", o.capture, o.frame, r.Link)
	}
	var f rocev2.Frame
	f.Decode(r.Data, r.Options()) // For returns the error about the frame
	// r is not read into again: m may alias it.
	if m, err = proxymsg.For(&f, uint8(o.level)); err != nil {
		return m, fmt.Errorf("%s, frame %d: %w", o.capture, o.frame, err)
	}
	return m, nil
}
