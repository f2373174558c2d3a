package flows

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// VLAN tags, MAC addresses and UDP ports agree with tshark, by destination queue pair.
func TestHeadersAgreeWithTshark(t *testing.T) {
	for _, name := range []string{"rxe-vlan4.pcap", "rxe-perf4.pcap", "rxe-rping6.pcap", "rxe-udaddy6.pcap"} {
		var frames [][]byte
		for _, p := range wiretest.Capture(t, name) {
			frames = append(frames, p.Data)
		}
		rows := wiretest.TsharkFields(t, []string{"eth.src", "eth.dst", "vlan.id", "vlan.priority", "ip.src", "ip.dst",
			"ipv6.src", "ipv6.dst", "udp.srcport", "infiniband.bth.destqp", "infiniband.bth.opcode"}, frames...)
		type carried struct {
			srcMAC, dstMAC        string
			vlan, priority        uint64
			port                  uint64
			portVaries, macVaries bool
		}
		want := map[rocev2.FlowKey]*carried{}
		for i, row := range rows {
			if !row.Has("infiniband.bth.opcode") {
				continue
			}
			op := row.Uint("infiniband.bth.opcode")
			if op&31 == 17 || op == 0x81 { // Acknowledge, CNP
				continue
			}
			var f rocev2.Frame
			f.Decode(frames[i], rocev2.DecodeOptions{})
			tuple := wiretest.Must(f.FiveTuple())(t)
			require.Contains(t, slices.Concat(row.All("ip.src"), row.All("ipv6.src")), tuple.Src.String())
			k := rocev2.FlowKey{Src: tuple.Src, Dst: tuple.Dst, DestQP: uint32(row.Uint("infiniband.bth.destqp"))}
			now := carried{srcMAC: row.All("eth.src")[0], dstMAC: row.All("eth.dst")[0], port: row.Uint("udp.srcport")}
			if row.Has("vlan.id") {
				now.vlan, now.priority = row.Uint("vlan.id"), 1<<row.Uint("vlan.priority")
			}
			if before := want[k]; before != nil {
				now.priority |= before.priority
				now.portVaries = before.portVaries || before.port != now.port
				now.macVaries = before.macVaries || before.srcMAC != now.srcMAC
			}
			want[k] = &now
		}
		got := map[rocev2.FlowKey]*carried{}
		for _, f := range observeFile(t, name).Snapshot().Flows {
			got[f.FlowKey] = &carried{f.SrcMAC.String(), f.DstMAC.String(), uint64(f.VLAN), uint64(f.PCP),
				uint64(f.SrcPort), f.Varies.SrcPort, f.Varies.SrcMAC}
		}
		require.NotEmpty(t, want)
		require.Equal(t, want, got, name)
	}
}

// observeChanged returns the flow of a frame of rxe-vlan4, with repetitions changed by change.
func observeChanged(t *testing.T, change ...func(b []byte)) Flow {
	t.Helper()
	table := New(Config{})
	var d Decoder
	var p Packet
	captured := wiretest.Capture(t, "rxe-vlan4.pcap")
	i := slices.IndexFunc(captured, func(p wiretest.Packet) bool {
		return d.Decode(new(Packet), p.Data, rocev2.DecodeOptions{}) && p.Data[18+28] == 4 // RC SEND Only
	})
	require.GreaterOrEqual(t, i, 0)
	for n, c := range change {
		b := slices.Clone(captured[i].Data)
		c(b)
		require.True(t, d.Decode(&p, b, rocev2.DecodeOptions{}))
		table.Observe(&p, uint64(n+1), time.Unix(int64(n), 0))
	}
	all := table.Snapshot().Flows
	require.Len(t, all, 1)
	return all[0]
}

// Varies reports the fields that differ, and Requests has the last value.
func TestVaries(t *testing.T) {
	same := func([]byte) {}
	for _, c := range []struct {
		name   string
		change func(b []byte)
		varies Varies
	}{
		{"nothing", same, Varies{}},
		{"destination", func(b []byte) { b[5]++ }, Varies{DstMAC: true}},
		{"source", func(b []byte) { b[11]++ }, Varies{SrcMAC: true}},
		{"both, by their first octets", func(b []byte) { b[0] ^= 4; b[6] ^= 4 }, Varies{SrcMAC: true, DstMAC: true}},
		{"VLAN", func(b []byte) { b[15]++ }, Varies{VLAN: true}},
		{"PCP", func(b []byte) { b[14] ^= 0xE0 }, Varies{}},
		{"port", func(b []byte) { b[18+21]++ }, Varies{SrcPort: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := observeChanged(t, same)
			last := observeChanged(t, c.change)
			both := observeChanged(t, same, c.change)
			require.Equal(t, c.varies, both.Varies)
			require.Equal(t, last.SrcMAC, both.SrcMAC)
			require.Equal(t, last.DstMAC, both.DstMAC)
			require.Equal(t, last.SrcPort, both.SrcPort)
			require.Equal(t, last.VLAN, both.VLAN)
			require.Equal(t, first.PCP|last.PCP, both.PCP)
			require.Equal(t, c.varies, observeChanged(t, same, c.change, same).Varies)
			require.Equal(t, Varies{}, last.Varies)
		})
	}
	require.NotEqual(t, observeChanged(t, same).PCP, observeChanged(t, same, func(b []byte) { b[14] ^= 0xE0 }).PCP)
}

// Flows share a source port in one direction only, and management flows are not counted.
func TestSharedPort(t *testing.T) {
	ends := map[string]int{}
	for _, name := range wiretest.Captures(t, "rxe-*.pcap") {
		all := observeFile(t, name).Snapshot().Flows
		for i, f := range all {
			want := uint64(0)
			for j, other := range all {
				same := f.Src == other.Src && f.Dst == other.Dst && f.SrcPort == other.SrcPort
				if same && i != j && f.DestQP > 1 && other.DestQP > 1 && !f.Varies.SrcPort && !other.Varies.SrcPort {
					want++
				}
			}
			require.Equal(t, want, f.SharedPort, "%s %v", name, f.FlowKey)
			if want > 0 {
				ends[strings.TrimSuffix(name, ".pcap")]++
			}
		}
	}
	require.NotEmpty(t, ends)
}
