package play

import (
	"encoding/json"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// Whatever a configuration says: an error that names a key, or a role.
func FuzzConfig(f *testing.F) {
	f.Add("switch", []byte(switchWith(fastCNPForAll+`, "rate": {"per_second": 1e3, "burst": 2}, "own_record": {"node_id": 5}`)))
	f.Add("receiver", []byte(receiverWith(receiverPairs+`, "interval": "50us", "learn": true`)))
	f.Add("sender", []byte(senderWith(acceptSwitch+senderPairs+`, "window": "1ms", "option_types": ["0x83", 132]`)))
	f.Add("proxy", []byte(proxyWith(cnpForAll+`, "rate_in": {"per_second": 5}, "rate_in_source": {"burst": 2}`)))
	f.Add("border", []byte(`{"enabled": true, "options": [158], "cnp": true}`))
	f.Fuzz(func(t *testing.T, name string, octets []byte) {
		if roles[name] == nil || name == "echo" {
			return
		}
		c := roles[name]()
		if decode(octets, c) != nil {
			return
		}
		c.role()
	})
}

// Whatever a frame is: every role says something that can be printed, or nothing.
func FuzzFrame(f *testing.F) {
	for _, name := range []string{"ioam-linux618-two.pcap", "messages.pcap", "rxe-vlan4.pcap"} {
		for _, c := range wiretest.Capture(f, name)[:1] {
			f.Add(c.Data, uint8(0))
		}
	}
	f.Add(packet(f), uint8(1))
	f.Add(fastCNPFrom(f, switchAddr, packet(f)), uint8(1))
	f.Add(proxyMessage(f, packet(f), switchAddr, proxyAddr), uint8(1))
	var played []role
	for name, octets := range map[string]string{
		"switch":   switchWith(fastCNPForAll),
		"receiver": receiverWith(receiverPairs),
		"sender":   senderWith(acceptSwitch + senderPairs + `, "learn": true`),
		"proxy":    proxyWith(cnpForAll),
	} {
		c := roles[name]()
		require.NoError(f, decode([]byte(octets), c))
		r, err := c.role()
		require.NoError(f, err)
		played = append(played, r)
	}
	f.Fuzz(func(t *testing.T, octets []byte, link uint8) {
		for _, r := range played {
			l, packet := r.play(&frame{Time: noon, Data: octets, Options: rocev2.DecodeOptions{Link: rocev2.LinkType(link % 6)}})
			_, err := json.Marshal(&l)
			require.NoError(t, err)
			require.Equal(t, l.Action == sent, packet != nil)
		}
	})
}
