package fastcnp

import (
	"encoding/hex"
	"strconv"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// tshark decodes type, length and data of the options that this package encodes. It does
// not interpret the data of an experimental option.
func TestTshark(t *testing.T) {
	var frames [][]byte
	var want []Notification
	for words := range 58 {
		var ext []byte
		if words > 0 {
			ext = hopByHop(t, trace(uint16(words), words, words/3))
		}
		ethernet := wiretest.Hex(t, "020000000001 020000000002 86dd")
		frame, _, err := AppendFor(ethernet, congested(t, 0, ext), loopback, nil,
			Config{CodePoints: experimental, Carriage: rocev2.Carriage{Checksum: true, FlowLabel: 0x12345}})
		require.NoError(t, err)
		var p rocev2.Packet
		require.NoError(t, p.DecodeEthernet(frame))
		n := wiretest.Must(FromPacket(&p, experimental))(t)
		frames, want = append(frames, frame), append(want, n)
	}
	for i, row := range wiretest.Tshark(t, frames...) {
		n := &want[i]
		data := wiretest.Must(n.Option.AppendBinary(nil))(t)
		var options []string
		var lengths []string
		if n.Option.Number == 2 {
			options, lengths = append(options, "0x01"), append(lengths, "0")
		}
		options, lengths = append(options, "0x9e"), append(lengths, strconv.Itoa(len(data)))
		if pad := -(n.Offset + 2 + len(data)) & 7; pad > 1 {
			options, lengths = append(options, "0x01"), append(lengths, strconv.Itoa(pad-2))
		}
		require.Equal(t, options, row.All("ipv6.opt.type"), "packet %d", i)
		require.Equal(t, lengths, row.All("ipv6.opt.length"), "packet %d", i)
		require.Equal(t, hex.EncodeToString(data), row.Get("ipv6.opt.experimental"))
		require.Equal(t, uint64(17), row.Uint("ipv6.dstopts.nxt"))
		require.Equal(t, loopback.String(), row.Get("ipv6.src"))
		require.Equal(t, sender.String(), row.Get("ipv6.dst"))
		require.Equal(t, uint64(0x12345), row.Uint("ipv6.flow"))
		require.Equal(t, uint64(0x81), row.Uint("infiniband.bth.opcode"))
		require.Equal(t, uint64(0x111111), row.Uint("infiniband.bth.destqp"))
		require.Equal(t, uint64(0xABCD), row.Uint("infiniband.bth.p_key"))
		require.Equal(t, "1", row.Get("udp.checksum.status"))
		require.False(t, row.Has("_ws.malformed"), row.Get("_ws.expert.message"))
	}
}
