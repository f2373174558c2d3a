package cm_test

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// message is implemented by every message and by the header.
type message interface {
	Decode([]byte) ([]byte, error)
	encoding.BinaryAppender
	fmt.Stringer
}

// octets returns want, padded with zeros to the length of a message.
func octets(t testing.TB, want string) []byte {
	b := make([]byte, cm.MessageSize)
	copy(b, wiretest.Hex(t, want))
	return b
}

// Messages with octets computed by hand. Adjacent fields have different values.
var messages = []struct {
	name   string
	m      message
	octets string
}{
	{"REQ", &cm.REQ{
		LocalCommID: 0x01020304, Reserved1: 0x05060708, ServiceID: cm.IPServiceID(6, 0x1C06),
		LocalCAGUID: 0x1112131415161718,
		Reserved2:   0x191A1B1C, LocalQKey: 0x1D1E1F20, LocalQPN: 0x212223, ResponderResources: 0x24,
		LocalEECN:      0x252627,
		InitiatorDepth: 0x28, RemoteEECN: 0x292A2B, RemoteResponseTimeout: 0x15, TransportType: 2,
		EndToEndFlowControl: true,
		StartingPSN:         0x2D2E2F, LocalResponseTimeout: 0x0A, RetryCount: 5, PKey: 0x8001, PathMTU: 3,
		RDCExists:     true,
		RNRRetryCount: 6, MaxCMRetries: 9, SRQ: true, ExtendedTransport: 1,
		Primary: cm.Path{
			LocalLID: 0x3132, RemoteLID: 0x3334, LocalGID: addr("::ffff:10.77.0.2"),
			RemoteGID: addr("::ffff:10.77.0.1"),
			FlowLabel: 0xABCDE, Reserved1: 0x2A, PacketRate: 0x15, TrafficClass: 0x68, HopLimit: 0x40, SL: 5,
			SubnetLocal: true,
			Reserved2:   2, AckTimeout: 0x11, Reserved3: 3,
		},
		Alternate: cm.Path{
			LocalLID: 0x4142, RemoteLID: 0x4344, LocalGID: addr("2001:db8::2"), RemoteGID: addr("2001:db8::1"),
			FlowLabel: 1, Reserved1: 1, PacketRate: 2, TrafficClass: 3, HopLimit: 4, SL: 10, Reserved2: 5,
			AckTimeout: 0x0E, Reserved3: 4,
		},
		PrivateData: [92]byte{0xC1, 91: 0xC2},
	}, `01020304 05060708 0000000001061c06 1112131415161718 191a1b1c 1d1e1f20
		21222324 25262728 292a2bad 2d2e2f55 8001 3e 99
		31323334 00000000000000000000ffff0a4d0002 00000000000000000000ffff0a4d0001 abcdea95 68 40 5a 8b
		41424344 20010db8000000000000000000000002 20010db8000000000000000000000001 00001042 03 04 a5 74
		c1` + strings.Repeat("00", 90) + `c2`},
	{"MRA", &cm.MRA{LocalCommID: 1, RemoteCommID: 2, Message: 1, Reserved1: 0x15, ServiceTimeout: 0x13, Reserved2: 5,
		PrivateData: [222]byte{0xC1}},
		`00000001 00000002 55 9d c1`},
	{"REJ", &cm.REJ{
		LocalCommID: 1, RemoteCommID: 2, Message: 2, Reserved1: 0x2A, InfoLen: 0x55, Reserved2: 1,
		Reason: cm.RejectConsumer,
		Info:   [72]byte{0xA1, 71: 0xA2}, PrivateData: [148]byte{0xC1},
	}, `00000001 00000002 aa ab 001c a1` + strings.Repeat("00", 70) + `a2 c1`},
	{"REP", &cm.REP{
		LocalCommID: 1, RemoteCommID: 2, LocalQKey: 3, LocalQPN: 0x212223, Reserved1: 0x24, LocalEECN: 0x252627,
		Reserved2:   0x28,
		StartingPSN: 0x292A2B, Reserved3: 0x2C, ResponderResources: 0x2D, InitiatorDepth: 0x2E, TargetAckDelay: 0x15,
		FailoverAccepted:    2,
		EndToEndFlowControl: true, RNRRetryCount: 5, SRQ: true, Reserved4: 0xA, LocalCAGUID: 0x1112131415161718,
		PrivateData: [196]byte{0xC1},
	}, `00000001 00000002 00000003 21222324 25262728 292a2b2c 2d 2e ad ba 1112131415161718 c1`},
	{"RTU", &cm.RTU{LocalCommID: 1, RemoteCommID: 2, PrivateData: [224]byte{0xC1}}, `00000001 00000002 c1`},
	{"DREQ", &cm.DREQ{LocalCommID: 1, RemoteCommID: 2, RemoteQPN: 0x212223, Reserved: 0x24,
		PrivateData: [220]byte{0xC1}},
		`00000001 00000002 21222324 c1`},
	{"DREP", &cm.DREP{LocalCommID: 1, RemoteCommID: 2, PrivateData: [224]byte{0xC1}}, `00000001 00000002 c1`},
	{"SIDR_REQ", &cm.SIDRREQ{RequestID: 1, PKey: 0x8001, Reserved: 2, ServiceID: cm.IPServiceID(17, 7174),
		PrivateData: [216]byte{0xC1}},
		`00000001 8001 0002 0000000001111c06 c1`},
	{"SIDR_REP", &cm.SIDRREP{
		RequestID: 1, Status: 3, InfoLen: 4, Reserved1: 5, QPN: 0x212223, Reserved2: 0x24, ServiceID: 6,
		QKey: 0x1234567,
		Info: [72]byte{0xA1, 71: 0xA2}, PrivateData: [136]byte{0xC1},
	}, `00000001 03 04 0005 21222324 0000000000000006 01234567 a1` + strings.Repeat("00", 70) + `a2 c1`},
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// like returns a new, empty message of the same type.
func like(m message) message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(message)
}

func TestMessages(t *testing.T) {
	for _, c := range messages {
		t.Run(c.name, func(t *testing.T) { checkMessage(t, c.m, octets(t, c.octets)) })
	}
}

func TestHeader(t *testing.T) {
	h := cm.Header{
		BaseVersion: 1, Class: 7, ClassVersion: 2, Method: 3, Status: 0x0405, ClassSpecific: 0x0607,
		TransactionID: 0x08090A0B0C0D0E0F,
		Attribute:     cm.AttributeREP, Reserved: 0x1011, Modifier: 0x12131415,
	}
	checkMessage(t, &h, wiretest.Hex(t, `01070203 0405 0607 08090a0b0c0d0e0f 0013 1011 12131415`))
	require.NoError(t, h.Validate())
	fresh := cm.NewHeader(cm.AttributeREQ, 7)
	require.NoError(t, fresh.Validate())
	for _, wrong := range []func(*cm.Header){
		func(h *cm.Header) { h.BaseVersion = 2 },
		func(h *cm.Header) { h.Class = 3 },
		func(h *cm.Header) { h.ClassVersion = 1 },
		func(h *cm.Header) { h.Method = 0x83 },
	} {
		x := h
		wrong(&x)
		require.ErrorIs(t, x.Validate(), wireerr.Malformed)
	}
}

func TestIPData(t *testing.T) {
	for _, c := range []struct {
		d      cm.IPData
		octets string
		valid  bool
	}{
		{cm.IPData{IPVersion: 4, SrcPort: 0xA0A5, Src: addr("10.77.0.2"), Dst: addr("10.77.0.1")},
			`00 40 a0a5 0000000000000000000000000a4d0002 0000000000000000000000000a4d0001`, true},
		{cm.IPData{IPVersion: 6, SrcPort: 0xC0DE, Src: addr("fd77::2"), Dst: addr("fd77::1")},
			`00 60 c0de fd770000000000000000000000000002 fd770000000000000000000000000001`, true},
		{cm.IPData{MinorVersion: 3, IPVersion: 4, Reserved: 9, Src: addr("::1:0:0"), Dst: addr("0.0.0.0")},
			`03 49 0000 00000000000000000000000100000000 00000000000000000000000000000000`, false},
		{cm.IPData{MajorVersion: 2, IPVersion: 6, Src: addr("::"), Dst: addr("::ffff:10.0.0.1")},
			`20 60 0000 00000000000000000000000000000000 00000000000000000000ffff0a000001`, false},
		{cm.IPData{IPVersion: 5, Src: addr("::"), Dst: addr("::")}, `00 50` + strings.Repeat("00", 34), false},
	} {
		d := c.d
		checkMessage(t, &d, wiretest.Hex(t, c.octets))
		if err := d.Validate(); c.valid {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, wireerr.Malformed)
		}
	}
	b, err := (&cm.IPData{IPVersion: 6}).AppendBinary(nil) // zero addresses
	require.NoError(t, err)
	require.Equal(t, wiretest.Hex(t, `0060`+strings.Repeat("00", 34)), b)
}

// decode decodes octets without a rest.
func decode(m message, b []byte) error {
	rest, err := m.Decode(b)
	if len(rest) > 0 {
		return errors.New("octets left over")
	}
	return err
}

// checkMessage checks the promises of every message, with one message and its octets.
func checkMessage(t *testing.T, m message, wire []byte) {
	t.Helper()
	wiretest.Encodes(t, wire, m.AppendBinary)
	got := like(m)
	rest := wiretest.Must(got.Decode(append(wire[:len(wire):len(wire)], 1, 2)))(t)
	require.Equal(t, []byte{1, 2}, rest)
	require.Equal(t, m, got)

	wiretest.Prefixes(t, wire, func(b []byte) error { return decode(got, b) })
	require.Equal(t, m, got, "unchanged on error")
	b := wiretest.Must(m.AppendBinary(nil))(t)
	require.Equal(t, wire, b)

	require.NotEmpty(t, m.String())
	wiretest.NoAllocs(t, "Decode", func() { _, _ = got.Decode(wire) })
	wiretest.NoAllocs(t, "Decode of too little", func() { _, _ = got.Decode(wire[1:]) })
	wiretest.NoAllocs(t, "AppendBinary", func() { _, _ = m.AppendBinary(b[:0]) })
}

func TestRange(t *testing.T) {
	for _, m := range []message{
		&cm.REQ{LocalQPN: 1 << 24}, &cm.REQ{LocalEECN: 1 << 24}, &cm.REQ{RemoteEECN: 1 << 24},
		&cm.REQ{StartingPSN: 1 << 24},
		&cm.REQ{RemoteResponseTimeout: 32}, &cm.REQ{LocalResponseTimeout: 32}, &cm.REQ{PathMTU: 16},
		&cm.REQ{MaxCMRetries: 16},
		&cm.REQ{RetryCount: 8}, &cm.REQ{RNRRetryCount: 8}, &cm.REQ{ExtendedTransport: 8}, &cm.REQ{TransportType: 4},
		&cm.REQ{Primary: cm.Path{FlowLabel: 1 << 20}}, &cm.REQ{Primary: cm.Path{Reserved1: 64}},
		&cm.REQ{Primary: cm.Path{PacketRate: 64}},
		&cm.REQ{Alternate: cm.Path{SL: 16}}, &cm.REQ{Alternate: cm.Path{AckTimeout: 32}},
		&cm.REQ{Alternate: cm.Path{Reserved2: 8}},
		&cm.REQ{Alternate: cm.Path{Reserved3: 8}},
		&cm.REP{LocalQPN: 1 << 24}, &cm.REP{LocalEECN: 1 << 24}, &cm.REP{StartingPSN: 1 << 24},
		&cm.REP{TargetAckDelay: 32},
		&cm.REP{FailoverAccepted: 4}, &cm.REP{RNRRetryCount: 8}, &cm.REP{Reserved4: 16},
		&cm.MRA{Message: 4}, &cm.MRA{Reserved1: 64}, &cm.MRA{ServiceTimeout: 32}, &cm.MRA{Reserved2: 8},
		&cm.REJ{Message: 4}, &cm.REJ{Reserved1: 64}, &cm.REJ{InfoLen: 128}, &cm.REJ{Reserved2: 2},
		&cm.DREQ{RemoteQPN: 1 << 24}, &cm.SIDRREP{QPN: 1 << 24},
		&cm.IPData{MajorVersion: 16}, &cm.IPData{MinorVersion: 16}, &cm.IPData{IPVersion: 16}, &cm.IPData{Reserved: 16},
		&cm.IPData{IPVersion: 6, Src: addr("10.0.0.1")}, &cm.IPData{Dst: addr("10.0.0.1")},
	} {
		out, err := m.AppendBinary([]byte{9})
		require.ErrorIs(t, err, wireerr.Range, "%T %v", m, m)
		require.Equal(t, []byte{9}, out)
		wiretest.NoAllocs(t, "out of range", func() { _, _ = m.AppendBinary(nil) })
	}
}

// carrier returns the headers of a UD SEND Only.
func carrier(destQP, srcQP, qKey uint32) bth.Headers {
	return bth.Headers{Header: bth.Header{Opcode: bth.UDSendOnly, DestQP: destQP},
		DETH: bth.DETH{QKey: qKey, SrcQP: srcQP}}
}

func carried(h bth.Headers, payload []byte, sent int) bool {
	_, _, ok := cm.DecodePayload(&h, payload, sent)
	return ok
}

func TestDecodePayload(t *testing.T) {
	payload := append(wiretest.Hex(t, `01070203 0000 0000 0000000000000007 0010 0000 00000000`),
		make([]byte, cm.MessageSize)...)
	h := carrier(1, 1, 0x80010000)
	require.True(t, carried(h, payload, 256))
	require.False(t, carried(carrier(2, 1, 0x80010000), payload, 256))
	require.False(t, carried(carrier(1, 2, 0x80010000), payload, 256))
	require.False(t, carried(carrier(1, 1, 0x80010001), payload, 256))
	require.False(t, carried(h, payload[:255], 255))
	require.False(t, carried(h, append(payload, 0), 257))
	for op := range 256 {
		h.Opcode = bth.Opcode(op)
		require.Equal(t, h.Opcode == bth.UDSendOnly, carried(h, payload, 256), "%v", h.Opcode)
	}
	payload[1] = 3 // subnet administration
	require.False(t, carried(carrier(1, 1, 0x80010000), payload, 256))
}

func TestMTU(t *testing.T) {
	for code, want := range []uint16{0, 256, 512, 1024, 2048, 4096, 0, 0} {
		m := cm.REQ{PathMTU: uint8(code)}
		require.Equal(t, want, m.MTU())
	}
}

func TestStrings(t *testing.T) {
	require.Equal(t, "SIDR_REP", cm.AttributeSIDRREP.String())
	require.Equal(t, "Attribute(25)", cm.Attribute(0x19).String())
	require.Equal(t, "Attribute(15)", cm.Attribute(0x0F).String())
	require.True(t, cm.AttributeREQ.IsKnown() && cm.AttributeSIDRREP.IsKnown())
	require.False(t, cm.Attribute(0x19).IsKnown())
	require.Equal(t, "consumer reject", cm.RejectConsumer.String())
	require.Equal(t, "stale connection", cm.RejectStaleConnection.String())
	require.Equal(t, "duplicate local communication id", cm.RejectDuplicateCommID.String())
	require.Equal(t, "invalid alternate flow label", cm.RejectReason(33).String())
	require.Equal(t, "RejectReason(0)", cm.RejectReason(0).String())
	require.Equal(t, "RejectReason(34)", cm.RejectReason(34).String())
	require.Equal(t, "vendor option not supported", cm.RejectReason(35).String())
	require.Equal(t, "version not supported", cm.SIDRStatus(5).String())
	require.Equal(t, "SIDRStatus(6)", cm.SIDRStatus(6).String())
	require.Equal(t, "IP protocol 17 port 7174", cm.IPServiceID(17, 7174).String())
	require.Equal(t, "ServiceID 0x1000000001061c06", cm.ServiceID(0x1000000001061c06).String())
	require.Equal(t, "REQ TransactionID 0x7", cm.NewHeader(cm.AttributeREQ, 7).String())
}

func BenchmarkREQ(b *testing.B) {
	wire := octets(b, messages[0].octets)
	var m cm.REQ
	b.Run("Decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Decode(wire)
		}
	})
	b.Run("AppendBinary", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, cm.MessageSize)
		for b.Loop() {
			m.AppendBinary(buf)
		}
	})
}

// Any octets that decode are encoded to the same octets.
func FuzzMessages(f *testing.F) {
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		m, size := message(&cm.Header{}), cm.HeaderSize
		switch i := int(kind) % (len(messages) + 2); {
		case i < len(messages):
			m, size = like(messages[i].m), cm.MessageSize
		case i == len(messages):
			m, size = &cm.IPData{}, cm.IPDataSize
		}
		rest, err := m.Decode(b)
		if (err == nil) != (len(b) >= size) {
			t.Fatalf("%d octets: %v", len(b), err)
		}
		if err != nil {
			return
		}
		again, err := m.AppendBinary(nil)
		if err != nil || !bytes.Equal(again, b[:size]) || !bytes.Equal(rest, b[size:]) {
			t.Fatalf("%v\nread    %x\nwritten %x, error %v", m, b[:size], again, err)
		}
		_ = m.String()
	})
}
