package rocev2

import (
	"bytes"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// FuzzPacket decodes any octets and builds a decoded packet. The result is the same octets, except wrong checksums, a
// wrong ICRC, and octets after the end that the UDP length gives. On error the packet is unchanged.
func FuzzPacket(f *testing.F) {
	f.Add(wiretest.Hex(f, hardwareCNP), uint8(LinkEthernet), false)
	f.Add(wiretest.Hex(f, send6), uint8(LinkEthernet), true)
	f.Add(wrap(wire.ProtoIPv6, wiretest.Hex(f, send6)[14:]), uint8(LinkIP), false)
	f.Add(wrap(wire.ProtoHopByHop, append(extension(wire.ProtoUDP), wiretest.Hex(f, send6)[54:]...)), uint8(LinkIP),
		true)
	for link, c := range linked {
		f.Add(append(wiretest.Hex(f, c), wiretest.Hex(f, send6)[14:]...), uint8(link), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, link uint8, cut bool) {
		o := DecodeOptions{Link: LinkType(link % 7), AllowTruncated: cut}
		for range Extensions(b, o) {
		}
		var p Packet
		err := p.Decode(b, o)
		requireWalked(t, b, o)
		if err != nil {
			require.Equal(t, Packet{}, p)
			return
		}
		if p.Truncated {
			require.True(t, cut || len(p.Data) >= bth.Size)
			return
		}
		out := wiretest.Must(p.AppendBinary(nil))(t)
		_, err = icrc.Sum(p.IP, icrc.AsSent) // package icrc has its own walk through the headers
		require.NoError(t, err)
		d := p.Datagram
		d.Data = out[len(out)-p.BTH.Len()-len(p.Payload)-len(p.Padding)-4:]
		again := wiretest.Must(d.AppendBinary(nil))(t)
		require.Equal(t, out, again)
		in := bytes.Clone(p.IP[:len(out)])
		var q Packet
		require.NoError(t, q.DecodeIP(out))
		_, err = icrc.Verify(out)
		require.NoError(t, err)
		if !bytes.Equal(lengthField(in), lengthField(out)) { // the IP packet was longer than its UDP datagram
			require.Equal(t, p.BTH, q.BTH)
			require.Equal(t, p.Payload, q.Payload)
			return
		}
		for _, b := range [][]byte{in, out} {
			if wire.VersionField(b) == 4 {
				copy(b[10:], []byte{0, 0})
			}
			copy(b[len(b)-int(p.Length)+6:], []byte{0, 0}) // UDP checksum
			copy(b[len(b)-4:], []byte{0, 0, 0, 0})
		}
		require.Equal(t, in, out)
	})
}

// lengthField returns the Total Length or Payload Length field of an IP header.
func lengthField(ip []byte) []byte {
	if wire.VersionField(ip) == 4 {
		return ip[2:4]
	}
	return ip[4:6]
}
