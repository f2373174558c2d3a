package message_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

var ip = rocev2.DecodeOptions{Link: rocev2.LinkIP}

// A signal is an IP packet with a message that Decode verifies.
type signal struct {
	name   string
	kind   message.Kind
	packet []byte
}

// signals returns the messages of messages.pcap. tshark agrees with their ICRCs and checksums.
func signals(t *testing.T) (all []signal) {
	kinds := map[message.Kind]bool{}
	var m message.Message
	for _, c := range wiretest.Capture(t, "messages.pcap") {
		err := m.Decode(c.Data, rocev2.DecodeOptions{}, message.Config{})
		switch m.Kind {
		case message.KindCNP, message.KindFastCNP, message.KindPPFC, message.KindFCN, message.KindProxy:
			require.NoError(t, err)
			require.True(t, m.Verified)
			kinds[m.Kind] = true
			all = append(all, signal{fmt.Sprint(m.Kind, " in frame ", c.Number), m.Kind, bytes.Clone(m.Packet.IP)})
		default:
			require.False(t, m.Verified)
		}
	}
	require.Len(t, kinds, 5)
	return all
}

// Any changed bit of a message is an error, with the kind still set unless the bit identifies the kind. Without
// verification most changes pass as another message.
func TestDecodeVerifies(t *testing.T) {
	for _, s := range signals(t) {
		t.Run(s.name, func(t *testing.T) {
			var m message.Message
			require.NoError(t, m.Decode(s.packet, ip, message.Config{}))
			start := len(s.packet) - len(m.Packet.Data)
			noticed := 0
			for at := start; at < len(s.packet); at++ {
				if m.Packet.DstPort == rocev2.Port && at == start+4 {
					continue // the ICRC does not cover this octet of the BTH
				}
				for bit := range 8 {
					changed := bytes.Clone(s.packet)
					changed[at] ^= 1 << bit
					err := m.Decode(changed, ip, message.Config{})
					require.False(t, m.Verified)
					if m.Kind == message.KindData || m.Kind == message.KindAck {
						continue // another opcode
					}
					require.Error(t, err, "octet %d bit %d", at-start, bit)
					if m.Kind == message.KindError {
						require.NotErrorIs(t, err, rocecn.ErrICRC)
						continue
					}
					require.ErrorIs(t, err, rocecn.ErrICRC)
					require.Equal(t, s.kind, m.Kind)
					noticed++
					require.NoError(t, m.Decode(changed, ip, message.Config{SkipVerify: true}))
					require.Equal(t, s.kind, m.Kind)
					require.False(t, m.Verified)
				}
			}
			require.GreaterOrEqual(t, noticed, 4*8)
		})
	}
}

// The source address, which access lists check, is verified as well.
func TestDecodeVerifiesSource(t *testing.T) {
	for _, s := range signals(t) {
		last := 8 + 15
		if s.packet[0]>>4 == 4 {
			last = 12 + 3
		}
		s.packet[last] ^= 1
		var m message.Message
		require.ErrorIs(t, m.Decode(s.packet, ip, message.Config{}), rocecn.ErrICRC, s.name)
		require.Equal(t, s.kind, m.Kind, s.name)
		wiretest.NoAllocs(t, s.name, func() { _ = m.Decode(s.packet, ip, message.Config{}) })
	}
}

// A message that the capture truncated cannot be verified. That is no error, but Verified is not set, also after a
// verified message.
func TestDecodeTruncated(t *testing.T) {
	cut := rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true}
	for _, s := range signals(t) {
		if s.kind == message.KindFCN {
			continue // nothing of its 4 octets may be missing
		}
		var m message.Message
		require.NoError(t, m.Decode(s.packet, ip, message.Config{}), s.name)
		require.True(t, m.Verified, s.name)
		require.NoError(t, m.Decode(s.packet[:len(s.packet)-1], cut, message.Config{}), s.name)
		require.Equal(t, s.kind, m.Kind, s.name)
		require.False(t, m.Verified, s.name)
		require.True(t, m.Packet.Truncated, s.name)
	}
}

// All entries verify.
func TestFramesAreVerified(t *testing.T) {
	for _, s := range signals(t) {
		wrong := bytes.Clone(s.packet)
		wrong[len(wrong)-1] ^= 1
		var m message.Message
		var f rocev2.Frame
		for _, v := range []rocev2.View{f.Outer(), f.Inner()} {
			f.Decode(s.packet, ip)
			require.NoError(t, m.DecodeView(v, message.Config{}), s.name)
			require.True(t, m.Verified, s.name)
			f.Decode(wrong, ip)
			require.ErrorIs(t, m.DecodeView(v, message.Config{}), rocecn.ErrICRC, s.name)
			require.False(t, m.Verified, s.name)
			require.Equal(t, s.kind, m.Kind, s.name)
			require.NoError(t, m.DecodeView(v, message.Config{SkipVerify: true}), s.name)
		}
	}
}

// FCN over IPv6 without a UDP checksum is wrong, as a socket would drop it.
func TestDecodeNoChecksum(t *testing.T) {
	var m message.Message
	all := signals(t)
	packet := all[slices.IndexFunc(all, func(s signal) bool { return s.kind == message.KindFCN })].packet
	require.EqualValues(t, 6, packet[0]>>4)
	packet[46], packet[47] = 0, 0
	require.ErrorIs(t, m.Decode(packet, ip, message.Config{}), rocecn.ErrICRC)
	require.Equal(t, message.KindFCN, m.Kind)
}

// Over IPv4, a UDP checksum of 0 means that there is none (RFC 768). The message is accepted, but not verified.
func TestDecodeChecksumOverIPv4(t *testing.T) {
	const header, data = "4500002c 00004000 40110000 c0000201 c0000202 c00103fe 0018",
		"0a000101 0a000401 11 c001 12b7 600000" // a proxy message without invoking packet
	for _, c := range []struct {
		name, checksum string
		verified       bool
	}{
		{"none", "0000", false},
		{"right", "d485", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m message.Message
			config := message.Config{ProxyFamily: proxymsg.IPv4}
			require.NoError(t, m.Decode(wiretest.Hex(t, header+c.checksum+data), ip, config))
			require.Equal(t, message.KindProxy, m.Kind)
			require.Equal(t, c.verified, m.Verified)
		})
	}
}
