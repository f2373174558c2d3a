package icrc_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/bits"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
)

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

// reference computes the ICRC as the annex describes it, one bit at a time. The shift register of CRC-32 takes eight
// octets of ones and then b, least significant bit of each octet first. The result is complemented and its bits are
// reversed.
func reference(b []byte) uint32 {
	const polynomial = 0x04C11DB7
	register := ^uint32(0)
	feed := func(octet byte) {
		for bit := range 8 {
			out := register>>31 ^ uint32(octet>>bit&1)
			register = register<<1 ^ polynomial*out
		}
	}
	for range 8 {
		feed(0xFF)
	}
	for _, octet := range b {
		feed(octet)
	}
	return bits.Reverse32(^register)
}

// masked returns an IP header, the options or extension headers ext, and UDP up to the ICRC, with the fields that may
// change on the way replaced by ones.
func masked(header, ext, udp []byte) []byte {
	b := append([]byte(nil), header...)
	if header[0]>>4 == 4 {
		b[1], b[8], b[10], b[11] = 0xFF, 0xFF, 0xFF, 0xFF
	} else {
		b[0] |= 0x0F
		b[1], b[2], b[3], b[7] = 0xFF, 0xFF, 0xFF, 0xFF
	}
	b = append(b, ext...)
	at := len(b)
	b = append(b, udp...)
	b[at+6], b[at+7], b[at+12] = 0xFF, 0xFF, 0xFF
	return b
}

// referenceSums returns the ICRC of ip in every coverage that has one, or nil if ip is not a packet with an ICRC.
func referenceSums(ip []byte) map[icrc.Coverage]uint32 {
	if len(ip) < 20 {
		return nil
	}
	var header, without []byte
	var udp, end int
	noWithout := false
	switch ip[0] >> 4 {
	case 4:
		udp, end = int(ip[0]&15)*4, int(be.Uint16(ip[2:]))
		if udp < 20 || udp > len(ip) || ip[9] != 17 || be.Uint16(ip[6:])&0x3FFF != 0 {
			return nil
		}
		header = ip[:20]
		without = append(without, header...)
		without[0] = 0x45
		be.PutUint16(without[2:], uint16(end-(udp-20)))
	case 6:
		if len(ip) < 40 {
			return nil
		}
		udp, end = 40, 40+int(be.Uint16(ip[4:]))
		header = ip[:40]
		without = append(without, header...)
		for next := ip[6]; next != 17; {
			if next != 0 && next != 43 && next != 60 || udp+8 > min(len(ip), end) {
				return nil
			}
			length := 8 + 8*int(ip[udp+1])
			if udp+length > min(len(ip), end) {
				return nil
			}
			if next == 43 && ip[udp+2] == 4 && ip[udp+3] > 0 {
				if length < 24 {
					noWithout = true
				} else {
					copy(without[24:], ip[udp+8:udp+24])
				}
			}
			next = ip[udp]
			udp += length
		}
		without[6] = 17
		be.PutUint16(without[4:], uint16(end-udp))
	default:
		return nil
	}
	if udp+8 > min(len(ip), end) {
		return nil
	}
	length := int(be.Uint16(ip[udp+4:]))
	if length < 24 || end > len(ip) || udp+length > end {
		return nil
	}
	ext, data := ip[len(header):udp], ip[udp:udp+length-4]
	sums := map[icrc.Coverage]uint32{
		icrc.AsSent:  reference(masked(header, ext, data)),
		icrc.Skipped: reference(masked(header, nil, data)),
	}
	if !noWithout {
		sums[icrc.Without] = reference(masked(without, nil, data))
	}
	return sums
}

// transport returns the offsets of the UDP header and of the ICRC in a packet that has an ICRC.
func transport(ip []byte) (udp, end int) {
	if ip[0]>>4 == 4 {
		udp = int(ip[0]&15) * 4
	} else {
		udp = 40
		for next := ip[6]; next != 17; {
			next, udp = ip[udp], udp+8+8*int(ip[udp+1])
		}
	}
	return udp, udp + int(be.Uint16(ip[udp+4:])) - 4
}

// ipPacket returns the octets after the Ethernet header and its VLAN tags, and the last EtherType.
func ipPacket(frame []byte) (etherType uint16, ip []byte) {
	for frame = frame[12:]; ; frame = frame[4:] {
		etherType = uint16(frame[0])<<8 | uint16(frame[1])
		if etherType != 0x8100 && etherType != 0x88A8 {
			return etherType, frame[2:]
		}
	}
}

func TestVectors(t *testing.T) {
	var file struct {
		Vectors []struct {
			Name        string
			Frame       string
			ICRC        string `json:"icrc_wire"`
			ExpectMatch bool   `json:"expect_match"`
		}
	}
	b := wiretest.Must(os.ReadFile(wiretest.Path(t, "icrc-vectors.json")))(t)
	require.NoError(t, json.Unmarshal(b, &file))
	require.NotEmpty(t, file.Vectors)
	eachImplementation(t, func() {
		for _, v := range file.Vectors {
			_, ip := ipPacket(wiretest.Hex(t, v.Frame))
			c, err := icrc.Verify(ip)
			require.Equal(t, icrc.AsSent, c, v.Name)
			if !v.ExpectMatch {
				require.ErrorIs(t, err, icrc.ErrMismatch, v.Name)
				continue
			}
			require.NoError(t, err, v.Name)
			sum, err := icrc.Sum(ip, icrc.AsSent)
			require.NoError(t, err, v.Name)
			octets := []byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)}
			require.Equal(t, v.ICRC, hex.EncodeToString(octets), v.Name)
		}
	})
}

// The ICRC of every packet sent by soft-RoCE is right, except in FLUSH, opcode 0x1C.
func TestCaptures(t *testing.T) {
	const flush = 0x1C
	for _, name := range wiretest.Captures(t, "rxe-*.pcap") {
		checked := 0
		for _, p := range wiretest.Capture(t, name) {
			etherType, ip := ipPacket(p.Data)
			var udp []byte
			switch {
			case etherType == 0x0800 && ip[9] == 17:
				udp = ip[int(ip[0]&0x0F)*4:]
			case etherType == 0x86DD && ip[6] == 17:
				udp = ip[40:]
			default:
				continue
			}
			if udp[2] != 4791>>8 || udp[3] != 4791&0xFF {
				continue
			}
			checked++
			eachImplementation(t, func() {
				_, err := icrc.Verify(ip)
				if udp[8] == flush {
					require.ErrorIs(t, err, icrc.ErrMismatch, "%s, packet %d", name, p.Number)
				} else {
					require.NoError(t, err, "%s, packet %d", name, p.Number)
				}
			})
		}
		require.NotZero(t, checked, name)
	}
}
