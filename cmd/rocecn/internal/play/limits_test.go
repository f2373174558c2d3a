package play

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/stretchr/testify/require"
)

// What the capture cut was as long as its IP header says, no shorter than what is there; other packets are whole.
func TestOriginalLen(t *testing.T) {
	header := func(version, octets, length int) []byte {
		b := make([]byte, octets)
		b[0] = byte(version << 4)
		at := 2
		if version == 6 {
			at = 4
		}
		binary.BigEndian.PutUint16(b[at:], uint16(length))
		return b
	}
	for name, c := range map[string]struct {
		packet []byte
		cut    bool
		want   uint32
	}{
		"IPv4":                {header(4, 28, 60), true, 60},
		"IPv4, header alone":  {header(4, 20, 60), true, 60},
		"IPv4, no header":     {header(4, 19, 60), true, 19},
		"IPv4, shorter":       {header(4, 28, 25), true, 28},
		"IPv4, whole frame":   {header(4, 28, 60), false, 28},
		"IPv6":                {header(6, 48, 100), true, 140},
		"IPv6, header alone":  {header(6, 40, 100), true, 140},
		"IPv6, no header":     {header(6, 39, 100), true, 39},
		"IPv6, shorter":       {header(6, 48, 5), true, 48},
		"IPv6, whole frame":   {header(6, 48, 100), false, 48},
		"neither":             {header(5, 48, 100), true, 48},
		"neither, and no cut": {header(5, 48, 100), false, 48},
	} {
		cause := &capture.Record{Data: make([]byte, 64), OrigLen: 64}
		if c.cut {
			cause.OrigLen++
		}
		require.Equal(t, c.want, originalLen(c.packet, cause), name)
	}
}

// OUT is a capture even where nothing was sent: of IP packets, by answer of Ethernet.
func TestNothingSent(t *testing.T) {
	for want, answers := range map[uint32]*answerer{101: nil, 1: {}} { // LINKTYPE_RAW, LINKTYPE_ETHERNET
		var out bytes.Buffer
		p := player{lines: bufio.NewWriter(io.Discard), out: bufio.NewWriter(&out), answers: answers}
		require.NoError(t, p.end())
		require.Len(t, out.Bytes(), 24)
		require.Equal(t, want, binary.LittleEndian.Uint32(out.Bytes()[20:]))
	}
}

// Why there is no Fast CNP, in the words of the summary.
func TestSkipped(t *testing.T) {
	for want, d := range map[string]node.Decision{
		"ICMPv6 error of a sender that is not capable": {Action: node.Learned},
		"marked only: the sender is not capable":       {Action: node.Marked, Packet: message.Data},
		"no_method": {Action: node.Marked, Packet: message.Data,
			Reason: node.NoMethod},
		"not RoCEv2": {},
		"ICMPv6 error about nothing that was sent": {Action: node.Refused, Reason: node.Denied},
		"ack":                 {Action: node.Refused, Packet: message.Ack, Reason: node.Acknowledgement},
		"IOAM trace too long": {Action: node.Refused, Packet: message.Data, Reason: node.Broken},
		"broken":              {Action: node.Refused, Packet: message.Broken, Reason: node.Broken},
		"not_capable":         {Action: node.Refused, Packet: message.Data, Reason: node.NotCapable},
		"from or to an address that is not answered": {
			Action: node.Refused, Packet: message.Data, Reason: node.Address,
		},
	} {
		require.Equal(t, want, skipped(&d))
	}
}
