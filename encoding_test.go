package rocecn_test

import (
	"encoding"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// Everything that has octets of its own appends them.
var _ = []encoding.BinaryAppender{
	fcn.Message{}, ioam.Option{},
	(*bth.Header)(nil), (*bth.Headers)(nil), (*cnp.CNP)(nil), (*fastcnp.Option)(nil),
	(*ioam.DirectExport)(nil), (*ioam.EdgeToEdge)(nil), (*ioam.Node)(nil), (*ioam.ProofOfTransit)(nil),
	(*ioam.Trace)(nil),
	(*ipv6opt.Header)(nil), (*ppfc.Extension)(nil), (*ppfc.Notification)(nil), (*proxymsg.Message)(nil),
	(*rocev2.Datagram)(nil), (*rocev2.Packet)(nil),
}

// What can be read from exactly these octets, with nothing else known, also has
// the other two methods of package encoding. The rest needs to be told more: a
// family, the type of a trace, where its IP header is.
var _ = []interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}{
	(*bth.Header)(nil), (*bth.Headers)(nil), (*cnp.CNP)(nil), (*fcn.Message)(nil), (*ppfc.Notification)(nil),
}
