package icrc_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/crc"
	"github.com/stretchr/testify/require"
)

// CNPs for one flow from a template: only the destination queue pair changes.
func TestDelta(t *testing.T) {
	destQP := crc.NewDelta(20) // BTH octets 4 to 7: four and 16 more follow
	const at = 20 + 8 + 4
	base, err := icrc.Sum(captured, icrc.AsSent)
	require.NoError(t, err)
	old := binary.BigEndian.Uint32(captured[at:])

	for qp, want := range map[uint32]string{0x000118: "82fd002a", 0x0000D2: "1b414c3a"} {
		ip := bytes.Clone(captured)
		word := old&0xFF000000 | qp
		binary.BigEndian.PutUint32(ip[at:], word)
		binary.LittleEndian.PutUint32(ip[len(ip)-4:], base^destQP.Of(old^word))
		_, err := icrc.Verify(ip)
		require.NoError(t, err)
		require.Equal(t, want, fmt.Sprintf("%x", ip[len(ip)-4:]))
	}
}
