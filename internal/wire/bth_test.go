package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBTH has the octets of IBTA section 9.2 with ones on both sides of each field, and zeros.
func TestBTH(t *testing.T) {
	b := []byte{
		0x04,       // opcode: RC SEND Only
		0x6F,       // S 0, M 1, Pad 2, TVer 15
		0x80, 0x01, // PKey
		0xFF, 0x12, 0x34, 0x56, // F, B and Resv6, DestQP
		0x7F, 0xAB, 0xCD, 0xEF, // A 0, Resv7, PSN
	}
	require.Equal(t, uint8(2), PadCount(b))
	require.Equal(t, uint16(0x8001), PKey(b))
	require.Equal(t, uint32(0x123456), DestQP(b))
	require.False(t, AckReq(b))
	require.Equal(t, uint32(0xABCDEF), PSN(b))
	b[8] = 0x80
	require.True(t, AckReq(b))
	require.Equal(t, uint32(0xABCDEF), PSN(b))
}
