package rocev2

import (
	"bytes"
	"net/netip"
	"reflect"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// The first branch takes every plain frame, also the shortest ones and those with octets after the packet, and no
// other: no frames that are changed or truncated so that they are malformed, or have tags, options or several extension
// headers. It finds the same as the rest of the walk.
func TestFirstBranch(t *testing.T) {
	share := wiretest.RoundsOrLong(3, 7) // of the seven changes of an octet: others for each opcode and payload
	src, dst := addr("2001:db8::1"), addr("2001:db8::2")
	for _, c := range []struct {
		ether    uint16
		src, dst netip.Addr
		next     uint8 // the type of ext
		ext      []byte
	}{
		{wire.EtherIPv4, addr("192.0.2.1"), addr("192.0.2.2"), 0, nil},
		{wire.EtherIPv6, src, dst, 0, nil},
		{wire.EtherIPv6, src, dst, wire.ProtoDestinationOptions, []byte{17, 0, 1, 4, 0, 0, 0, 0}},
		{wire.EtherIPv6, src, dst, wire.ProtoDestinationOptions, []byte{17, 1, 1, 12, 15: 0}},
		{wire.EtherIPv6, src, dst, wire.ProtoHopByHop, []byte{17, 0, 1, 4, 0, 0, 0, 0}},
		{wire.EtherIPv6, src, dst, wire.ProtoHopByHop, []byte{17, 1, 1, 12, 15: 0}},
		{wire.EtherIPv6, src, dst, wire.ProtoRouting, []byte{17, 2, 4, 1, 0, 0, 0, 0, 0x20, 1, 0xD, 0xB8, 23: 3}},
		{wire.EtherIPv6, src, dst, wire.ProtoRouting, []byte{17, 2, 4, 0, 0, 0, 0, 0, 0x20, 1, 0xD, 0xB8, 23: 3}},
		{wire.EtherIPv6, src, dst, wire.ProtoRouting, []byte{17, 0, 4, 1, 0, 0, 0, 0}}, // no room for an address
		{wire.EtherIPv6, src, dst, wire.ProtoRouting, []byte{17, 2, 3, 1, 0, 0, 0, 0, 23: 3}},
	} {
		ether := c.ether
		for opIndex, op := range []bth.Opcode{bth.RCSendOnly, bth.RCRDMAWriteOnly, bth.RCAcknowledge, bth.UDSendOnly,
			bth.CNP, 0x9F} {
			for _, payload := range []int{0, 1, 2, 3, 16} {
				p := Packet{BTH: bth.Headers{Header: bth.Header{Opcode: op, DestQP: 7}}, Payload: make([]byte, payload)}
				if p.hasPad() {
					p.BTH.Pad = uint8(-payload & 3)
				}
				p.Src, p.Dst, p.SrcPort, p.DstPort = c.src, c.dst, 0xC001, Port
				p.Ext, p.NextHeader = c.ext, c.next
				frame := make([]byte, 14, 200)
				be.PutUint16(frame[12:], ether)
				frame = wiretest.Must(p.AppendBinary(frame))(t)
				for behind := range 3 {
					whole := append(frame[:len(frame):len(frame)], make([]byte, behind)...)
					require.True(t, requirePlainIsWalk(t, whole), "%v, %d octets, %d after it", op, payload, behind)
				}
				if payload != 3 && (payload != 0 || testing.Short()) {
					continue
				}
				for n := range frame {
					requirePlainIsWalk(t, frame[:n:n])
					short := bytes.Clone(frame[:n:n])
					switch {
					case ether == wire.EtherIPv4 && n >= 34:
						be.PutUint16(short[16:], uint16(n-14))
					case ether == wire.EtherIPv6 && n >= 54:
						be.PutUint16(short[18:], uint16(n-54))
					}
					requirePlainIsWalk(t, short)
				}
				if op == bth.RCAcknowledge || op == bth.UDSendOnly {
					continue // they have an extended header, as RCRDMAWriteOnly has
				}
				for at := 12; at < min(14+40+len(c.ext)+8+2, len(frame)); at++ {
					for i, change := range []byte{0x10, 1, 0x20, 0x80, 0xEF, 0xF0, 0xFF} {
						if (at+i+opIndex+payload)%7 >= share {
							continue
						}
						changed := append(bytes.Clone(frame), 0, 0)
						changed[at] += change
						requirePlainIsWalk(t, changed)
					}
				}
			}
		}
	}
}

// requirePlainIsWalk reports whether the first branch takes the frame.
func requirePlainIsWalk(t *testing.T, frame []byte) bool {
	t.Helper()
	var walked Packet
	err := walked.decode(frame, DecodeOptions{})
	isComplete := !walked.Truncated || walked.Trimmed
	isPlain := err == nil && isComplete && len(walked.Link) == 14 && len(walked.Outer) == 0 &&
		(len(walked.Ext) == 0 || isExtended(&walked))
	var plain Packet
	ip, udp, end := firstBranch(frame, LinkEthernet)
	taken := udp != 0 && plain.setPlain(frame, ip, udp, end) == nil
	require.Equal(t, isPlain, taken, "%x", frame)
	requireWalked(t, frame, DecodeOptions{})
	if len(frame) >= 14 {
		requireWalked(t, frame[14:], DecodeOptions{Link: LinkIP})
	}
	return isPlain
}

// isExtended reports whether a packet with Ext has exactly one extension header before UDP.
func isExtended(p *Packet) bool {
	return p.Src.Is6() && p.Ext[0] == wire.ProtoUDP && len(p.Ext) == 8+8*int(p.Ext[1])
}

// Receivers that were used before: every field has a value that no frame gives.
var (
	used = Packet{
		Datagram: Datagram{
			Link: []byte{1}, Outer: []byte{2}, IP: []byte{3}, Src: addr("192.0.2.98"), Dst: addr("2001:db8::99"),
			TrafficClass: 4, HopLimit: 5, FlowLabel: 6, ID: 7, Flags: 7, NextHeader: 8, Ext: []byte{9},
			SrcPort: 10, DstPort: 11, Length: 12, Checksum: 13, Data: []byte{14}, Truncated: true, Trimmed: true,
		},
		BTH:     bth.Headers{Present: bth.HasAETH, AETH: bth.AETH{MSN: 15}},
		Payload: []byte{16}, Padding: []byte{17}, ICRC: 18, Coverage: icrc.Without,
	}
	usedFrame = Frame{
		octets: []byte{1}, options: DecodeOptions{AllowTruncated: true}, ip: 2, udp: 3, end: 4,
		way: way{
			walk{5, 6, 98, 99, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, true, true, true, true, errNotIP},
			trail{Tunnels{18}, 24, [maxDepth + 1]passed{}, 1}, false, nil, 1, 19, 20, 21, 22, 23,
		},
		near: true, far: true, broken: errVNI,
	}
)

func TestUsedIsSet(t *testing.T) {
	for _, v := range []any{used, used.Datagram, usedFrame.way.walk} {
		for i := range reflect.TypeOf(v).NumField() {
			require.False(t, reflect.ValueOf(v).Field(i).IsZero(), "%T, field %d", v, i)
		}
	}
}

// An outcome is the contents of used Packets and Datagrams after decoding, and the errors.
type outcome struct {
	packet    Packet
	datagrams [3]Datagram // decoded with any port, with two ports, and with another port
	errs      [4]error
}

func outcomeOf(packet func(*Packet) error, datagram func(*Datagram, ...uint16) error) (o outcome) {
	o.packet = used
	o.errs[0] = packet(&o.packet)
	for i, ports := range [...][]uint16{nil, {53, Port}, {53}} {
		o.datagrams[i] = used.Datagram
		o.errs[1+i] = datagram(&o.datagrams[i], ports...)
	}
	return o
}

// requireWalked requires that decoding into a used Packet, Datagram or Frame gives the same fields and errors as the
// walk, changes nothing on error, and sets no slice with a capacity above its length.
func requireWalked(t *testing.T, b []byte, o DecodeOptions) {
	t.Helper()
	byWalk, f := Frame{octets: b, options: o}, usedFrame // byWalk does not check whether it is plain
	byWalk.walk()
	f.Decode(b, o)
	var near walk // unlike the walk of a Frame, it does not enter mirrors
	near.err = near.from(b, o)
	walked := outcomeOf(func(p *Packet) error {
		var unused Packet
		err := unused.decode(b, o)
		if err == nil {
			*p = unused
		}
		return err
	}, func(d *Datagram, ports ...uint16) error {
		var unused Datagram
		err := unused.fromWalk(b, &near, o.AllowTruncated, ports)
		if err == nil {
			*d = unused
		}
		return err
	})
	if byWalk.way.mirror == 0 {
		require.Equal(t, walked, outcomeOf(f.Outer().Packet, f.Outer().Datagram), "%x", b)
	}
	decoded := outcomeOf(func(p *Packet) error { return p.Decode(b, o) },
		func(d *Datagram, ports ...uint16) error { return d.Decode(b, o, ports...) })
	require.Equal(t, walked, decoded, "%x", b)
	p := &decoded.packet
	for _, part := range [...][]byte{p.Link, p.Outer, p.IP, p.Ext, p.Data, p.Payload, p.Padding} {
		if len(part) < cap(part) {
			require.Fail(t, "capacity after a slice", "%x", b)
		}
	}
	wantTuple, wantErr := byWalk.FiveTuple()
	tuple, err := f.FiveTuple()
	require.Equal(t, wantErr, err, "%x", b)
	require.Equal(t, wantTuple, tuple, "%x", b)
	if f.udp == 0 {
		return
	}

	near = byWalk.way.walk
	require.Equal(t, b[near.ip:near.end:near.end], f.Outer().IP(), "%x", b)
	require.Equal(t, near.ether, f.EtherType())
	require.Equal(t, b[:near.link], f.Link())
	f.walk()
	require.Equal(t, near, f.way.walk, "%x", b)
}
