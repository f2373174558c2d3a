package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/stretchr/testify/require"
)

// The recording has the experimental numbers.
var recorded = message.Config{
	FCNPort:    fcn.ExperimentalPort,
	ProxyPort:  proxymsg.ExperimentalPort,
	CodePoints: fastcnp.CodePoints{Option1: fastcnp.ExperimentalType, Option2: fastcnp.ExperimentalType},
}

// datagrams are those that Open vSwitch 3.1 sent for the frames of
// testdata/tour.pcap, and the frames that carried them.
func datagrams(t *testing.T) (datagrams, frames [][]byte) {
	f := wiretest.Must(os.Open("testdata/ovs.pcap"))(t)
	defer f.Close()
	r := wiretest.Must(pcapgo.NewReader(f))(t)
	for {
		frame, _, err := r.ReadPacketData()
		if err != nil {
			require.Len(t, frames, 3)
			return datagrams, frames
		}
		p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		datagrams, frames = append(datagrams, p.Layer(layers.LayerTypeUDP).LayerPayload()), append(frames, frame)
	}
}

func TestOpenVSwitch(t *testing.T) {
	var out bytes.Buffer
	all, _ := datagrams(t)
	for _, datagram := range all {
		require.NoError(t, printSamples(&out, datagram, recorded))
	}
	const data = "2001:db8:1::1 > 2001:db8:4::e qp 0x000012"
	const cut = "not read: rocev2: BTH: truncated: shorter than 12 octets and the extended headers of its opcode"
	want := []string{
		"data: " + data + " psn 42",
		"data: " + data + " psn 43, marked CE",
		"pfc",
		cut, // a Fast CNP with a trace
		"fastcnp: about " + data,
		"cnp: to 2001:db8:1::1 qp 0x000011",
		"ppfc: about " + data,
		"ppfc: about " + data,
		cut, // data in a tunnel
		"fcn",
		"not read: proxymsg: addresses: ambiguous, the octets fit IPv4 and IPv6: set the family",
		"cnp: to 2001:db8:1::1 qp 0x000011",
		"ack: 2001:db8:4::e > 2001:db8:1::1 qp 0x000011 psn 43",
		"pfc",
		"pause",
		"not read: cnp: reserved octets: not exactly 16 octets between BTH and ICRC",
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, len(want))
	for i, line := range lines {
		require.Regexp(t, `^switch 127\.0\.0\.1, port \d+, one of 1: `, line)
		require.True(t, strings.HasSuffix(line, ": "+want[i]), "%s\n%s", line, want[i])
	}
}

// tshark finds the same queue pairs in the sampled headers.
func TestTshark(t *testing.T) {
	all, frames := datagrams(t)
	found := 0
	for i, row := range wiretest.TsharkFields(t, []string{"infiniband.bth.destqp"}, frames...) {
		var out bytes.Buffer
		require.NoError(t, printSamples(&out, all[i], recorded))
		var qps []string
		for line := range strings.Lines(out.String()) {
			if _, qp, ok := strings.Cut(line, " qp "); ok {
				qps = append(qps, qp[:8])
			}
		}
		var want []string
		for _, qp := range row.All("infiniband.bth.destqp") {
			want = append(want, fmt.Sprintf("0x%06s", strings.TrimPrefix(qp, "0x")))
		}
		require.Subset(t, want, qps) // tshark goes on into invoking packets and overlays
		found += len(qps)
	}
	require.Equal(t, 8, found)
}

// Cut anywhere: no panic, and no more lines than before.
func TestCut(t *testing.T) {
	all, _ := datagrams(t)
	for _, datagram := range all {
		lines := 0
		for n := range datagram {
			var out bytes.Buffer
			_ = printSamples(&out, datagram[:n], recorded)
			require.GreaterOrEqual(t, strings.Count(out.String(), "\n"), 0)
			lines = max(lines, strings.Count(out.String(), "\n"))
		}
		require.LessOrEqual(t, lines, 7)
	}
	require.Error(t, printSamples(&bytes.Buffer{}, nil, recorded))
	require.Error(t, printSamples(&bytes.Buffer{}, []byte("not sFlow at all, but long enough to be some"), recorded))
}
