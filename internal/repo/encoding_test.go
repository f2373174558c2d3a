package repo

import (
	"encoding"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/pnc"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
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

// Each value of an enumeration is read back from its text, in JSON and in flags too. Another text is an error and
// leaves the value unchanged.
func TestEnumerationsReadBack(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"bth.Opcode", readBack[bth.Opcode]}, {"congested.Capability", readBackNames[congested.Capability](3)},
		{"congested.Method", readBackNames[congested.Method](6)}, {"filter.Selection", readBack[filter.Selection]},
		{"icrc.Coverage", readBack[icrc.Coverage]}, {"ioam.OptType", readBack[ioam.OptType]},
		{"message.Kind", readBack[message.Kind]}, {"node.Action", readBack[node.Action]},
		{"node.Reason", readBack[node.Reason]}, {"node.Request", readBack[node.Request]},
		{"pause.State", readBack[pause.State]}, {"pnc.Protocol", readBack[pnc.Protocol]},
		{"ppfc.Type", readBack[ppfc.Type]}, {"proxy.Answer", readBackNames[proxy.Answer](5)},
		{"proxymsg.Family", readBack[proxymsg.Family]}, {"qpmap.Basis", readBack[qpmap.Basis]},
	} {
		t.Run(c.name, c.test)
	}
}

// enumeration is an enumeration with texts; its pointer reads them.
type enumeration interface {
	~uint8
	fmt.Stringer
	encoding.TextMarshaler
}

// reader is a pointer to an enumeration.
type reader[T any] interface {
	*T
	encoding.TextUnmarshaler
}

// readBack tests an enumeration that reads every value, also those without a name, as in "Kind(99)".
func readBack[T enumeration, P reader[T]](t *testing.T) { readBackNames[T, P](256)(t) }

// readBackNames tests an enumeration of which only the first n values, those with a name, are read.
func readBackNames[T enumeration, P reader[T]](n int) func(t *testing.T) {
	return func(t *testing.T) {
		for v := range 256 {
			text := wiretest.Must(T(v).MarshalText())(t)
			require.Equal(t, T(v).String(), string(text))
			got := T(99)
			if v < n {
				require.NoError(t, P(&got).UnmarshalText(text))
				require.Equal(t, T(v), got)
			} else {
				require.Error(t, P(&got).UnmarshalText(text))
			}
			was := got
			require.ErrorContains(t, P(&got).UnmarshalText([]byte("no such")), `"no such": `)
			require.Error(t, P(&got).UnmarshalText([]byte("FastCNP")))
			require.Equal(t, was, got)
		}
	}
}

// The names of enumerations from 0 on, and of the first value without a name.
func TestEnumerationNames(t *testing.T) {
	for _, c := range []struct {
		name  string
		texts func(i int) string
		want  string
	}{
		{"bth.PayloadRule", textOf[bth.PayloadRule],
			"unknown, none, any, 8 octets, 16 reserved octets, PayloadRule(5)"},
		{"bth.Transport", textOf[bth.Transport], "RC, UC, RD, UD, CNP, XRC, Transport(6)"},
		{"congested.Capability", textOf[congested.Capability], "unknown, yes, no, Capability(3)"},
		{"congested.Method", textOf[congested.Method], "none, fastcnp, proxy, fcn, ppfc, mark, Method(6)"},
		{"fastcnp.Origin", textOf[fastcnp.Origin], "network, receiver, Origin(2)"},
		{"icrc.Coverage", textOf[icrc.Coverage], "as-sent, without, skipped, Coverage(3)"},
		{"message.Reach", textOf[message.Reach], "nothing, UDP, transport, Reach(3)"},
		{"pause.State", textOf[pause.State], "running, stopped, held, alarmed, State(4)"},
		{"ppfc.Type", textOf[ppfc.Type], "stop, resume, alarm, hold, Type(4)"},
		{"proxy.Answer", textOf[proxy.Answer], "none, cnp, fastcnp, ppfc, other, Answer(5)"},
		{"qpmap.Basis", textOf[qpmap.Basis], "unknown, cm, votes, ud, given, port, Basis(6)"},
		{"rocev2.ECN", textOf[rocev2.ECN], "not_ect, ect1, ect0, ce, ECN(4)"}, // RFC 3168, by the values of the field
		{"rocev2.LinkType", textOf[rocev2.LinkType], "ethernet, ip, sll, sll2, null, loop, LinkType(6)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, want := range strings.Split(c.want, ", ") {
				require.Equal(t, want, c.texts(i))
			}
		})
	}
	require.Equal(t, "POSIX IS-IS discard, send ICMP Action(4)",
		fmt.Sprint(ioam.TimeFormatPOSIX, " ", pnc.ProtocolISIS, " ", ipv6opt.ActionDiscardICMP, " ", ipv6opt.Action(4)))
}

func textOf[T interface {
	~uint8
	fmt.Stringer
}](i int) string {
	return T(i).String()
}
