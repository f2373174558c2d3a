package rocev2

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

func TestLinkPayload(t *testing.T) {
	for _, c := range []struct {
		link    LinkType
		octets  string
		ether   uint16
		payload string
	}{
		{LinkEthernet, macs + `8808 0101`, 0x8808, `0101`},
		{LinkEthernet, macs + `81002007 88a80001 8808 0101`, 0x8808, `0101`},
		{LinkEthernet, macs + `0800 45`, 0x0800, `45`},
		{LinkEthernet, macs + `86dd`, 0x86DD, ``},
		{LinkEthernet, macs + `8100200786`, 0, ``},
		{LinkEthernet, macs, 0, ``},
		{LinkSLL, `0000 0001 0006 020000000002 0000 8808 01`, 0x8808, `01`},
		{LinkSLL2, `8808 0000 00000007 0001 00 06 020000000002 0000 01`, 0x8808, `01`},
		{LinkIP, `45`, 0, ``},
		{LinkNull, `02000000 45`, 0, ``},
		{LinkLoop + 1, macs + `8808 0101`, 0, ``},
	} {
		ether, payload := LinkPayload(wiretest.Hex(t, c.octets), DecodeOptions{Link: c.link})
		require.Equal(t, c.ether, ether, c.octets)
		require.Equal(t, wiretest.Hex(t, c.payload), append([]byte{}, payload...), c.octets)
	}
}
