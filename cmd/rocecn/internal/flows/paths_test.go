package flows

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// Of rxe-verbs6 tshark says that fd77::2 sends to 7 queue pairs beside management: to
// 0x13 from port 53368, to the others from port 58177.
func TestPaths(t *testing.T) {
	verbs := wiretest.Path(t, "rxe-verbs6.pcap")
	var paths []map[string]any
	for _, l := range lines(t, "-paths", verbs) {
		if l["paths"] == true {
			paths = append(paths, l)
		}
	}
	require.Len(t, paths, 2) // the second is of the responses to READs and ATOMICs
	require.EqualValues(t, 7, paths[0]["flows"])
	require.EqualValues(t, 2, paths[0]["src_ports"])
	shared := paths[0]["shared"].([]any)
	require.Len(t, shared, 1)
	require.EqualValues(t, 58177, valueAt(shared[0], "src_port"))
	require.Equal(t, []any{17.0, 18.0, 20.0, 21.0, 22.0, 23.0}, valueAt(shared[0], "dest_qps"))
	_, out, _ := run(t, nil, "-paths", "-top", "1", verbs)
	require.Contains(t, out, "paths  fd77::2 > fd77::1: 7 flows, by 2 UDP source ports\n  6 flows have port 58177, ")
	_, out, _ = run(t, nil, "-paths", "-qp", "23", verbs)
	require.Contains(t, out, "paths: no two hosts have two flows\n")
	_, out, _ = run(t, nil, verbs)
	require.NotContains(t, out, "paths")
	for _, l := range lines(t, verbs) {
		require.NotContains(t, l, "paths")
	}
	for _, other := range []string{"-csv", "-prometheus", "-interval=1s", "-sflow=:6343"} {
		status, _, _ := run(t, nil, "-paths", other, verbs)
		require.Equal(t, 2, status, other)
	}
}

// Only flows of one direction share a path. A flow with several ports shares none. The pair with the most flows on one
// path comes first, and the path with the most octets.
func TestPathsOf(t *testing.T) {
	a, b, c := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	s := &flows.Snapshot{}
	add := func(src, dst netip.Addr, qp uint32, port uint16, varies bool) {
		f := flows.Flow{FlowKey: flowKey(src, dst, qp)}
		f.SrcPort, f.Varies.SrcPort, f.Data.IPOctets = port, varies, uint64(qp)
		s.Flows = append(s.Flows, f)
	}
	add(a, b, 1, 50000, false) // management
	add(a, b, 17, 50000, false)
	add(a, b, 18, 50000, false)
	add(a, b, 19, 50000, true)
	add(a, b, 20, 50001, false)
	add(a, b, 21, 50001, false)
	add(a, b, 11, 50002, false)
	add(a, b, 30, 50002, false) // as many octets
	add(b, a, 17, 50000, false)
	for qp := range uint32(70) {
		add(c, a, 100+qp, 50000, false)
	}
	add(c, b, 17, 50000, false)
	add(c, b, 18, 50002, false)
	all := pathsOf(s)
	require.Len(t, all, 3)
	require.Equal(t, pathsLine{Paths: true, Src: a, Dst: b, Flows: 7, Ports: 3, Varying: 1,
		IPOctets: 17 + 18 + 19 + 20 + 21 + 11 + 30, Shared: []pathLine{{50001, 2, []uint32{20, 21}, 41},
			{50002, 2, []uint32{11, 30}, 41}, {50000, 2, []uint32{17, 18}, 35}}}, all[1])
	require.Equal(t, c, all[0].Src)
	require.Equal(t, 70, all[0].Shared[0].Flows)
	require.Len(t, all[0].Shared[0].QPs, maxPathQPs)
	require.Equal(t, pathsLine{Paths: true, Src: c, Dst: b, Flows: 2, Ports: 2, IPOctets: 35,
		Shared: []pathLine{}}, all[2])
	h := human{}
	require.Contains(t, string(h.appendPaths(&all[0])), "and 6 more\n")
	require.Contains(t, string(h.appendPaths(&all[1])),
		"7 flows, 1 of them by several UDP source ports, the others by 3 UDP")
}
