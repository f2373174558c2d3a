package message

import (
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// Every packet of the captures, truncated at every octet: SnapLength returns a length
// above 0 if its kind cannot be decoded. With that length, or with the result for that
// length and so on, it can be decoded.
func TestSnapLength(t *testing.T) {
	for _, name := range []string{"messages.pcap", "fastcnp.pcap", "rxe-rping6.pcap", "ioam-linux618-two.pcap",
		"rxe-vlan4.pcap"} {
		for _, captured := range wiretest.Capture(t, name) {
			var m, cut Message
			whole := m.Decode(captured.Data, rocev2.DecodeOptions{}, Config{})
			o := rocev2.DecodeOptions{Cut: true}
			require.Zero(t, snapLength(captured.Data, o), "complete")
			if m.Kind == KindOther || m.Kind == KindError || whole != nil {
				continue
			}
			for n := 14; n < len(captured.Data); n++ {
				b := captured.Data[:n]
				_ = cut.Decode(b, o, Config{})
				need := snapLength(b, o)
				if cut.Kind == m.Kind {
					require.Zero(t, need, "%s frame %d, %d octets: %v", name, captured.Number, n, m.Kind)
					continue
				}
				for need != 0 {
					require.Greater(t, need, n, "%s frame %d, %d octets: %v", name, captured.Number, n, m.Kind)
					n = need
					need = snapLength(captured.Data[:min(n, len(captured.Data))], o)
				}
				_ = cut.Decode(captured.Data[:min(n, len(captured.Data))], o, Config{})
				require.Equal(t, m.Kind, cut.Kind, "%s frame %d, %d octets", name, captured.Number, n)
				n = len(b)
			}
		}
	}
}

// Expected lengths computed by hand, for packets without tags and options.
func TestSnapLengthByHand(t *testing.T) {
	longest4 := []byte{0: 0x4F, 3: 120, 9: 17, 60: 0} // 40 octets of options
	for _, c := range []struct {
		name   string
		octets []byte // from the IP header on
		there  int
		want   int
	}{
		{"IPv6 cut in its header", roce(t, hdr(0x0A), nil, make([]byte, 64)), 30, 48 + 52},
		{"IPv6 cut before UDP", roce(t, hdr(0x0A), nil, make([]byte, 64)), 40, 48 + 52},
		{"WRITE Only, truncated after UDP", roce(t, hdr(0x0A), nil, make([]byte, 64)), 48, 48 + 52},
		{"WRITE Only, cut in the BTH", roce(t, hdr(0x0A), nil, make([]byte, 64)), 49, 48 + 12 + 16},
		{"WRITE Only, headers whole", roce(t, hdr(0x0A), nil, make([]byte, 64)), 76, 0},
		{"PPFC", roce(t, pause(), nil, make([]byte, 24)), 60, 48 + 36},
		{"FCN", udp(t, fcn.Port, []byte{0xBE, 0xEF, 0x5E, 0}), 48, 52},
		{"proxy message", udp(t, proxymsg.Port, make([]byte, 400)), 80, 48 + 100},
		{"IPv4 cut in its header", longest4, 12, 60 + 8 + 52},
		{"IPv4 cut in its options", longest4, 40, 60 + 8 + 52},
		{"another port", udp(t, 53, make([]byte, 400)), 80, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: true}
			require.Equal(t, c.want, snapLength(c.octets[:c.there], o))
			require.Zero(t, snapLength(c.octets[:c.there], rocev2.DecodeOptions{Link: rocev2.LinkIP}),
				"not truncated")
		})
	}
}

func hdr(op bth.Opcode) bth.Header { return bth.Header{Opcode: op} }

func pause() bth.Header { return bth.Header{Opcode: bth.CNP, Resv6: ppfc.Bit} }

func snapLength(b []byte, o rocev2.DecodeOptions) int {
	var f rocev2.Frame
	f.Decode(b, o)
	return SnapLength(&f, Config{})
}
