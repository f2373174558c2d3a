package qplearn

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// Set leaves nothing of the previous packet in an Observation or Exchange: no payload, no wrong ICRC, and no message of
// connection management.
func TestObservationOfTheNextPacket(t *testing.T) {
	var packets []rocev2.Packet
	add := func(octets []byte) {
		var p rocev2.Packet
		if p.DecodeEthernet(octets) == nil {
			packets = append(packets, p)
		}
	}
	for _, name := range []string{"rxe-ucmatose4.pcap", "rxe-perf4.pcap"} {
		all := wiretest.Capture(t, name)
		for _, captured := range all[:min(60, len(all))] {
			add(captured.Data)
			wrong := bytes.Clone(captured.Data)
			wrong[len(wrong)-1] ^= 1 // the ICRC
			add(wrong)
		}
	}
	fresh := make([]Observation, len(packets))
	rejected, attributes, payloads := map[bool]int{}, map[cm.Attribute]int{}, map[bool]int{}
	for i := range packets {
		require.True(t, fresh[i].Set(&packets[i], 7))
		rejected[fresh[i].Rejected]++
		attributes[fresh[i].CM.Attribute]++
		payloads[fresh[i].Payload > 0]++
	}
	require.Len(t, rejected, 2)
	require.Len(t, payloads, 2)
	for _, a := range []cm.Attribute{0, cm.AttributeREQ, cm.AttributeREP, cm.AttributeDREQ, cm.AttributeDREP} {
		require.Contains(t, attributes, a)
	}
	for i := range packets {
		for j := range packets {
			o, x, want := fresh[i], fresh[i].CM, Exchange{}
			o.Set(&packets[j], 7)
			x.Set(&packets[j])
			want.Set(&packets[j])
			if o != fresh[j] || x != want {
				t.Fatalf("after %+v: %+v %+v, want %+v %+v", fresh[i], o, x, fresh[j], want)
			}
		}
	}
}
