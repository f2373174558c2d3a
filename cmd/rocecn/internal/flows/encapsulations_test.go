package flows

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// Each capture has the same four requests with PSNs 1000 to 1003 from queue pair 0x111 to 0x222 and their
// acknowledgements, in an encapsulation; see testdata/encapsulations/README.md. tshark finds them as well, if it reads
// the encapsulation.
func TestEncapsulatedCaptures(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    string // of the tunnel; empty without one that has an IP header of its own
		ce      int    // requests with CE in effect
		capture string // JSON line of the capture
		args    string
		tshark  bool
	}{
		{"arista-d28b", "", 0, `{"capture":true}`, "", false},
		{"csig", "", 0, `{"capture":true}`, "", false},
		{"gre-8949", "", 0, `{"capture":true}`, "", false},
		{"erspan1-cut", "", 0, `{"capture":true,"truncated_to":80}`, "", true},
		{"vxlan-8472", "vxlan", 1, `{"capture":true}`, "", true},
		{"vxlan-gpe", "vxlan-gpe", 0, `{"capture":true}`, "", true},
		{"geneve-options", "geneve", 0, `{"capture":true}`, "", true},
		{"gue", "gue", 0, `{"capture":true}`, "", false},
		{"fou-5555", "fou", 0, `{"capture":true}`, "-fou-port 5555", true},
		{"gtpu", "gtpu", 0, `{"capture":true}`, "", true},
		{"ipip-ce", "ipip", 4, `{"capture":true}`, "", true},
		{"sflow-drops", "", 0, `{"capture":true,"discarded":{"acl":1,"no_buffer_space":2,"no_socket":1}}`, "", true},
		{"trimmed", "", 0, `{"capture":true,"trimmed":1}`, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := wiretest.Path(t, "encapsulations", c.name+".pcap")
			status, out, stderr := run(t, nil, append(strings.Fields(c.args), "-json", "-explain", path)...)
			require.Zero(t, status, stderr)
			require.NotContains(t, out, "on: .", "an empty sentence")
			lines := strings.Split(out, "\n")
			require.JSONEq(t, c.capture, lines[0])
			var f map[string]any
			require.NoError(t, json.Unmarshal([]byte(lines[1]), &f))
			require.Equal(t, []any{"192.0.2.1", "192.0.2.2", 0x222 * 1.0, 0x111 * 1.0, 4.0},
				[]any{f["src"], f["dst"], f["dest_qp"], f["src_qp"], f["acks"]})
			require.EqualValues(t, c.ce, valueAt(f, "data", "ce"))
			require.EqualValues(t, []any{1000.0, 1003.0}, []any{valueAt(f, "psn", "first"), valueAt(f, "psn", "last")})
			require.EqualValues(t, []any{4.0, 0.0, 0.0}, []any{f["packets"], valueAt(f, "psn", "lost"),
				f["icrc_wrong"]})
			if c.kind == "" {
				require.NotContains(t, f, "outer")
			} else {
				require.Equal(t, []any{c.kind}, valueAt(f, "outer", "kind"))
			}
			if c.name == "trimmed" {
				require.Equal(t, []any{1.0, 1.0}, []any{f["trimmed"], f["trimmed_recovered"]})
			}
			if c.name == "erspan1-cut" {
				require.EqualValues(t, 4, f["truncated"])
			}
			if c.tshark {
				requireTsharkAgrees(t, c.name)
			}
		})
	}
	t.Run("rocev1", func(t *testing.T) {
		_, out, _ := run(t, nil, "-json", wiretest.Path(t, "encapsulations", "rocev1.pcap"))
		require.JSONEq(t, `{"capture":true,"rocev1":4}`, out)
	})
	t.Run("FOU without its port", func(t *testing.T) {
		_, out, _ := run(t, nil, "-json", wiretest.Path(t, "encapsulations", "fou-5555.pcap"))
		require.JSONEq(t, `{"capture":true,"unread":{"udp port 5555":8}}`, out)
	})
}

// requireTsharkAgrees requires that tshark finds the same requests and acknowledgements in a capture.
func requireTsharkAgrees(t *testing.T, name string) {
	t.Helper()
	var frames [][]byte
	for _, r := range wiretest.Capture(t, "encapsulations/"+name+".pcap") {
		frames = append(frames, r.Data)
	}
	seen := map[[2]uint64]bool{}
	for _, row := range wiretest.TsharkAs(t, []string{"udp.port==8472,vxlan", "udp.port==5555,ip"},
		[]string{"infiniband.bth.destqp", "infiniband.bth.psn"}, frames...) {
		if row.Has("infiniband.bth.psn") {
			seen[[2]uint64{row.Uint("infiniband.bth.destqp"), row.Uint("infiniband.bth.psn")}] = true
		}
	}
	want := map[[2]uint64]bool{}
	for psn := range uint64(4) {
		want[[2]uint64{0x222, 1000 + psn}], want[[2]uint64{0x111, 1000 + psn}] = true, true
	}
	require.Equal(t, want, seen)
}
