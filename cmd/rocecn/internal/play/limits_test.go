package play

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"testing"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/stretchr/testify/require"
)

// The original length of a truncated packet is that in its IP header, and at least the captured length. Other packets
// are complete.
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
	for _, row := range []struct {
		name   string
		packet []byte
		cut    bool
		want   uint32
	}{
		{"IPv4", header(4, 28, 60), true, 60},
		{"IPv4, header alone", header(4, 20, 60), true, 60},
		{"IPv4, no header", header(4, 19, 60), true, 19},
		{"IPv4, shorter", header(4, 28, 25), true, 28},
		{"IPv4, whole frame", header(4, 28, 60), false, 28},
		{"IPv6", header(6, 48, 100), true, 140},
		{"IPv6, header alone", header(6, 40, 100), true, 140},
		{"IPv6, no header", header(6, 39, 100), true, 39},
		{"IPv6, shorter", header(6, 48, 5), true, 48},
		{"IPv6, whole frame", header(6, 48, 100), false, 48},
		{"neither", header(5, 48, 100), true, 48},
		{"neither, and no cut", header(5, 48, 100), false, 48},
	} {
		t.Run(row.name, func(t *testing.T) {
			cause := &capture.Record{Data: make([]byte, 64), OrigLen: 64}
			if row.cut {
				cause.OrigLen++
			}
			require.Equal(t, row.want, originalLen(row.packet, cause))
		})
	}
}

// OUT is a capture even where nothing was sent: of IP packets, by answer of Ethernet.
func TestNothingSent(t *testing.T) {
	for _, c := range []struct {
		want    uint32
		answers *answerer
	}{{101, nil}, {1, &answerer{}}} {
		t.Run(fmt.Sprint(c.want), func(t *testing.T) {
			// LINKTYPE_RAW, LINKTYPE_ETHERNET
			var out bytes.Buffer
			p := player{lines: bufio.NewWriter(io.Discard), out: bufio.NewWriter(&out), answers: c.answers}
			require.NoError(t, p.closeOutput())
			require.Len(t, out.Bytes(), 24)
			require.Equal(t, c.want, binary.LittleEndian.Uint32(out.Bytes()[20:]))
		})
	}
}

// Why there is no Fast CNP, in the words of the summary.
func TestSkipped(t *testing.T) {
	for _, c := range []struct {
		name string
		d    node.Decision
	}{
		{"ICMPv6 error of a sender that is not capable", node.Decision{Action: node.ActionLearned}},
		{"marked only: the sender is not capable", node.Decision{Action: node.ActionMarked, Packet: message.Data}},
		{"no_method", node.Decision{Action: node.ActionMarked, Packet: message.Data,
			Reason: node.ReasonNoMethod}},
		{"not RoCEv2", node.Decision{}},
		{"ICMPv6 error about nothing that was sent", node.Decision{Action: node.ActionRefused,
			Reason: node.ReasonDenied}},
		{"ack", node.Decision{Action: node.ActionRefused, Packet: message.Ack, Reason: node.ReasonAcknowledgement}},
		{"IOAM trace too long", node.Decision{Action: node.ActionRefused, Packet: message.Data,
			Reason: node.ReasonBroken}},
		{"broken", node.Decision{Action: node.ActionRefused, Packet: message.Broken, Reason: node.ReasonBroken}},
		{"not_capable", node.Decision{Action: node.ActionRefused, Packet: message.Data, Reason: node.ReasonNotCapable}},
		{"from or to an address that is not answered", node.Decision{
			Action: node.ActionRefused, Packet: message.Data, Reason: node.ReasonAddress,
		}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.name, skipReason(&c.d)) })
	}
}
