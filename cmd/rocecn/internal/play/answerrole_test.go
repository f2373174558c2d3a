package play_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/play"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// rehearse runs rocecn play with the role of the switch, configured as answer is
// with these flags, and returns what it sends.
func rehearse(t *testing.T, in []byte, flags string) []capture.Record {
	t.Helper()
	config := `{"enabled": true, "self": ["` + source + `"], "methods": [{"senders": "::/0", "method": "fastcnp"}]`
	for _, f := range strings.Fields(flags) {
		config += map[string]string{"-ecn": `, "congested": "ce"`, "-inner-source": `, "inner_source": true`}[f]
	}
	file, out := filepath.Join(t.TempDir(), "config.json"), filepath.Join(t.TempDir(), "out.pcap")
	require.NoError(t, os.WriteFile(file, []byte(config+"}"), 0o600))
	var lines, stderr bytes.Buffer
	require.Zero(t, play.Run(t.Context(), []string{"-role", "switch", "-config", file, "-", out}, bytes.NewReader(in),
		&lines, &stderr), stderr.String())
	return records(t, octets(t, out))
}

// Both commands are one role: whatever the tunnel, and whichever of the ECN fields
// has CE, they send the same. The outermost one counts, which is the one that a
// congested switch marks.
func TestSameRoleAsPlay(t *testing.T) {
	pe := netip.MustParseAddr("2001:db8:e::1")
	in6 := &encap.IPInIPv6{Src: pe, Dst: pe.Next()}
	vxlan := &encap.VXLAN6{Src: pe, Dst: pe.Next(), VNI: 7, Ethernet: []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0}}
	inner := func(ecn uint8) []byte { return packet(t, func(p *rocev2.Packet) { p.TrafficClass = ecn }) }
	tunnelled := func(tunnel encap.Tunnel, outer, in uint8) []byte {
		b, err := tunnel.Append(nil, inner(in), 5)
		require.NoError(t, err)
		_, err = rocev2.SetECN(b, rocev2.ECN(outer))
		require.NoError(t, err)
		return b
	}
	mirrored := append(wiretest.Hex(t,
		"4503 0000 00000000 402f 0000 c0000201 c0000202 0000 88be 020000000002 020000000001 86dd"), inner(3)...)
	binary.BigEndian.PutUint16(mirrored[2:], uint16(len(mirrored)))
	for _, c := range []struct {
		name   string
		packet []byte
		sent   [4]int // without flags, -ecn, -inner-source, both
	}{
		{"plain, ECT", inner(2), [4]int{1, 0, 1, 0}},
		{"plain, CE", inner(3), [4]int{1, 1, 1, 1}},
		{"plain, Not-ECT", inner(0), [4]int{1, 0, 1, 0}},
		{"VXLAN, unmarked", tunnelled(vxlan, 2, 2), [4]int{0, 0, 1, 0}},
		{"VXLAN, outer CE, inner ECT", tunnelled(vxlan, 3, 2), [4]int{0, 0, 1, 1}},
		{"VXLAN, outer ECT, inner CE", tunnelled(vxlan, 2, 3), [4]int{0, 0, 1, 0}},
		{"VXLAN, both", tunnelled(vxlan, 3, 3), [4]int{0, 0, 1, 1}},
		{"IP in IPv6, unmarked", tunnelled(in6, 2, 2), [4]int{0, 0, 1, 0}},
		{"IP in IPv6, outer CE, inner ECT", tunnelled(in6, 3, 2), [4]int{0, 0, 1, 1}},
		{"IP in IPv6, outer ECT, inner CE", tunnelled(in6, 2, 3), [4]int{0, 0, 1, 0}},
		{"mirrored, CE", mirrored, [4]int{0, 0, 0, 0}},
		{"IPv4, CE", packet(t, func(p *rocev2.Packet) { v4(p); p.TrafficClass = 3 }), [4]int{0, 0, 0, 0}},
		{"ack, CE", packet(t, func(p *rocev2.Packet) { p.BTH.Opcode, p.TrafficClass = bth.RCAcknowledge, 3 }),
			[4]int{0, 0, 0, 0}},
	} {
		in := captureOf(capture.Raw, time.Microsecond, capture.Record{Data: c.packet, Time: time.Unix(1795254649, 0)})
		for i, flags := range []string{"", "-ecn", "-inner-source", "-ecn -inner-source"} {
			out, summary := answer(t, in, strings.Fields(flags)...)
			require.Len(t, out, c.sent[i], "%s %s: %s", c.name, flags, summary)
			require.Equal(t, rehearse(t, in, flags), out, "%s %s", c.name, flags)
		}
	}

	// A mirrored copy is no packet of this node's, and does not match.
	out, summary := answer(t, captureOf(capture.Raw, time.Microsecond, capture.Record{Data: mirrored}))
	require.Empty(t, out)
	require.Equal(t,
		"packets: 1 read, 0 matched; Fast CNPs: 0 with option 1, 0 with option 2\nskipped: 1 not RoCEv2\n", summary)

	// Tunnelled data matches, and each N-th is answered, as untunnelled data is.
	var in []capture.Record
	for range 4 {
		in = append(in, capture.Record{Data: tunnelled(vxlan, 3, 2)})
	}
	out, summary = answer(t, captureOf(capture.Raw, time.Microsecond, in...), "-inner-source", "-every", "2")
	require.Len(t, out, 2)
	require.Equal(t, "packets: 4 read, 4 matched; Fast CNPs: 2 with option 1, 0 with option 2\n", summary)
}
