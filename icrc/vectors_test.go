package icrc_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
)

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
	eachWay(t, func() {
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
			eachWay(t, func() {
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
