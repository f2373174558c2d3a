package cm_test

import (
	"bytes"
	"testing"

	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// decodeCut decodes a truncated message.
func decodeCut(a cm.Attribute, m message, b []byte) error {
	whole, err := a.Fill(b)
	if err != nil {
		return err
	}
	return decode(m, whole[:])
}

// attributeOf returns the attribute with this name.
func attributeOf(name string) (a cm.Attribute) {
	for a = cm.AttributeREQ; a.String() != name; a++ {
	}
	return a
}

// cutMessages has, for each message, the end of each group of fields, and a function
// that zeroes the fields after that end.
var cutMessages = map[string][]struct {
	end  int
	lose func(message)
}{
	"REQ": {
		{52, func(m message) { m.(*cm.REQ).Primary = noPath() }},
		{96, func(m message) { m.(*cm.REQ).Alternate = noPath() }},
		{140, func(m message) { m.(*cm.REQ).PrivateData = [92]byte{} }},
	},
	"MRA": {{10, func(m message) { m.(*cm.MRA).PrivateData = [222]byte{} }}},
	"REJ": {
		{12, func(m message) { m.(*cm.REJ).Info = [72]byte{} }},
		{84, func(m message) { m.(*cm.REJ).PrivateData = [148]byte{} }},
	},
	"REP": {
		{24, func(m message) {
			r := m.(*cm.REP)
			r.ResponderResources, r.InitiatorDepth, r.TargetAckDelay, r.FailoverAccepted = 0, 0, 0, 0
			r.EndToEndFlowControl, r.RNRRetryCount, r.SRQ, r.Reserved4 = false, 0, false, 0
		}},
		{28, func(m message) { m.(*cm.REP).LocalCAGUID = 0 }},
		{36, func(m message) { m.(*cm.REP).PrivateData = [196]byte{} }},
	},
	"RTU":      {{8, func(m message) { m.(*cm.RTU).PrivateData = [224]byte{} }}},
	"DREQ":     {{12, func(m message) { m.(*cm.DREQ).PrivateData = [220]byte{} }}},
	"DREP":     {{8, func(m message) { m.(*cm.DREP).PrivateData = [224]byte{} }}},
	"SIDR_REQ": {{16, func(m message) { m.(*cm.SIDRREQ).PrivateData = [216]byte{} }}},
	"SIDR_REP": {
		{24, func(m message) { m.(*cm.SIDRREP).Info = [72]byte{} }},
		{96, func(m message) { m.(*cm.SIDRREP).PrivateData = [136]byte{} }},
	},
}

// noPath is the path of 44 zero octets.
func noPath() cm.Path { return cm.Path{LocalGID: addr("::"), RemoteGID: addr("::")} }

// Fill keeps the complete groups of every prefix of every message, zeroes the rest, and
// rejects prefixes that are too short.
func TestFill(t *testing.T) {
	for _, c := range messages {
		t.Run(c.name, func(t *testing.T) {
			wire, groups, attribute := octets(t, c.octets), cutMessages[c.name], attributeOf(c.name)
			for n := range cm.MessageSize + 2 {
				b := append(bytes.Clone(wire), 0xFF, 0xFF)[:n:n]
				want := like(c.m)
				require.NoError(t, decode(want, wire))
				for _, g := range groups {
					if n < cm.MessageSize && n < next(groups, g.end) {
						g.lose(want)
					}
				}
				got := like(c.m)
				err := decodeCut(attribute, got, b)
				if n < groups[0].end {
					require.ErrorIs(t, err, wireerr.Truncated, "%d octets", n)
					require.Equal(t, like(c.m), got, "unchanged on error")
					wiretest.NoAllocs(t, "Fill with too little", func() { _, _ = attribute.Fill(b) })
					continue
				}
				require.NoError(t, err, "%d octets", n)
				require.Equal(t, want, got, "%d octets", n)
				wiretest.NoAllocs(t, "Fill", func() { _, _ = attribute.Fill(b) })
			}
		})
	}
}

// next returns the end of the group that begins at this octet.
func next(groups []struct {
	end  int
	lose func(message)
}, at int) int {
	for _, g := range groups {
		if g.end > at {
			return g.end
		}
	}
	return cm.MessageSize
}

func TestFillOfUnknownAttribute(t *testing.T) {
	for _, a := range []cm.Attribute{0, 0x0F, 0x19, 0xFFFF} {
		_, err := a.Fill(make([]byte, cm.MessageSize))
		require.ErrorIs(t, err, wireerr.Other)
	}
}

func TestDecodeTruncatedPayload(t *testing.T) {
	payload := append(wiretest.Hex(t, `01070203 0000 0000 0000000000000007 0010 0000 00000000`),
		make([]byte, cm.MessageSize)...)
	h := carrier(1, 1, 0x80010000)
	for n := range len(payload) + 1 {
		require.Equal(t, n >= cm.HeaderSize, carried(h, payload[:n], 256), "%d octets", n)
		require.False(t, carried(h, payload[:n], 255))
		require.False(t, carried(h, payload[:n], 257))
		require.False(t, carried(h, payload[:n], n-256))
	}
	require.False(t, carried(carrier(2, 1, 0x80010000), payload[:100], 256))
	require.False(t, carried(carrier(1, 2, 0x80010000), payload[:100], 256))
	require.False(t, carried(carrier(1, 1, 0x80010001), payload[:100], 256))
	require.False(t, carried(h, append(payload, 0), 256))
	payload[1] = 3 // subnet administration
	require.False(t, carried(h, payload[:100], 256))
}

// The snapshot lengths that are needed to decode the messages of a capture, over IPv4
// without options and over IPv6 without extension headers. Expected are the values of
// tshark for the complete frames.
func TestSnapLength(t *testing.T) {
	needed := map[cm.Attribute]int{ // before it: Ethernet 14, UDP 8, BTH 12, DETH 8, MAD header 24
		cm.AttributeREQ: 66 + 52, cm.AttributeREP: 66 + 24, cm.AttributeRTU: 66 + 8, cm.AttributeDREQ: 66 + 12,
		cm.AttributeDREP: 66 + 8,
	}
	seen := 0
	for _, name := range []string{"rxe-rping6.pcap", "rxe-ucmatose4.pcap"} {
		golden := wiretest.Golden(t, name)
		for i, captured := range wiretest.Capture(t, name) {
			row := golden[i]
			if !row.Has("infiniband.mad") {
				continue
			}
			seen++
			want := needed[cm.Attribute(row.Uint("infiniband.mad.attributeid"))]
			require.NotZero(t, want)
			if frame := captured.Data; frame[12] == 0x86 {
				want += 40
			} else {
				want += 20
			}
			for n := range len(captured.Data) {
				qp, psn, ok := readCut(captured.Data[:n])
				require.Equal(t, n >= want, ok, "%s frame %d, %d octets", name, i+1, n)
				switch {
				case !ok:
				case row.Has("infiniband.cm.req.localqpn"):
					require.EqualValues(t, row.Uint("infiniband.cm.req.localqpn"), qp)
					require.EqualValues(t, row.Uint("infiniband.cm.req.startpsn"), psn)
				case row.Has("infiniband.cm.rep.localqpn"):
					require.EqualValues(t, row.Uint("infiniband.cm.rep.localqpn"), qp)
					require.EqualValues(t, row.Uint("infiniband.cm.rep.startpsn"), psn)
				}
			}
		}
	}
	require.Equal(t, 15, seen)
}

// readCut decodes the CM message in the first octets of a frame and returns its queue
// pair and PSN, if it has them.
func readCut(octets []byte) (qp, psn uint32, ok bool) {
	var p rocev2.Packet
	if p.Decode(octets, rocev2.DecodeOptions{AllowTruncated: true}) != nil {
		return 0, 0, false
	}
	h, b, ok := cm.DecodePayload(&p.BTH, p.Payload, p.PayloadLen())
	if !ok {
		return 0, 0, false
	}
	switch h.Attribute {
	case cm.AttributeREQ:
		var m cm.REQ
		err := decodeCut(h.Attribute, &m, b)
		return m.LocalQPN, m.StartingPSN, err == nil
	case cm.AttributeREP:
		var m cm.REP
		err := decodeCut(h.Attribute, &m, b)
		return m.LocalQPN, m.StartingPSN, err == nil
	case cm.AttributeDREQ:
		var m cm.DREQ
		err := decodeCut(h.Attribute, &m, b)
		return m.RemoteQPN, 0, err == nil
	case cm.AttributeRTU:
		return 0, 0, decodeCut(h.Attribute, new(cm.RTU), b) == nil
	default:
		return 0, 0, decodeCut(h.Attribute, new(cm.DREP), b) == nil
	}
}

// For any octets, Fill returns a prefix of them followed by zeros, and all of them for
// a complete message.
func FuzzFill(f *testing.F) {
	for i, c := range messages {
		wire := octets(f, c.octets)
		for _, n := range []int{8, 12, 24, 52, 60, 96, 140, 200, cm.MessageSize} {
			f.Add(uint8(i), wire[:n])
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		i := int(kind) % len(messages)
		got, want := like(messages[i].m), like(messages[i].m)
		if decodeCut(attributeOf(messages[i].name), got, b) != nil {
			require.Less(t, len(b), cutMessages[messages[i].name][0].end)
			return
		}
		there := cm.MessageSize
		if len(b) < there {
			for _, g := range cutMessages[messages[i].name] {
				if g.end <= len(b) {
					there = g.end
				}
			}
		}
		whole := make([]byte, cm.MessageSize)
		copy(whole, b[:there])
		_, err := want.Decode(whole)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}
