package repo

import (
	"encoding"
	"fmt"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/pnc"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
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

// Each type of a field in a message, an event or a configuration is printed as text and read back, also in JSON and as
// a flag.
var _ = []interface {
	encoding.TextMarshaler
	encoding.TextUnmarshaler
}{
	(*bth.Opcode)(nil), (*icrc.Coverage)(nil), (*ioam.OptType)(nil), (*pnc.Protocol)(nil), (*ppfc.Type)(nil),
	(*proxymsg.Family)(nil), (*message.Kind)(nil), (*filter.Selection)(nil),
}

// Each value is read back from its text; another text is an error and leaves the value unchanged.
func TestTexts(t *testing.T) {
	t.Run("Protocol", readBack[pnc.Protocol])
	require.Equal(t, "POSIX IS-IS discard, send ICMP Action(4)",
		fmt.Sprint(ioam.TimeFormatPOSIX, " ", pnc.ProtocolISIS, " ", ipv6opt.ActionDiscardICMP, " ", ipv6opt.Action(4)))
}

func readBack[T interface {
	~uint8
	encoding.TextMarshaler
}, P interface {
	*T
	encoding.TextUnmarshaler
}](t *testing.T) {
	for v := range 256 {
		text := wiretest.Must(T(v).MarshalText())(t)
		var got T
		require.NoError(t, P(&got).UnmarshalText(text))
		require.Equal(t, T(v), got)
		require.ErrorContains(t, P(&got).UnmarshalText([]byte("no such")), `"no such": want `)
		require.Equal(t, T(v), got)
	}
}
