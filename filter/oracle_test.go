package filter

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// The fields that tshark decodes determine whether a packet may cross, independently of the walk and the program.
// Fragments and options in Hop-by-Hop headers, which its fields do not distinguish, are in TestMatch.
func TestTsharkAgrees(t *testing.T) {
	random := wiretest.NewFrames(1021)
	var frames [][]byte
	for range 3000 {
		frames = append(frames, random.Ethernet(random.IntN(2), random.IP()))
	}
	rows := wiretest.TsharkFields(t, []string{
		"udp.dstport", "udp.payload", "ipv6.opt.type", "ipv6.hopopts", "tcp.dstport", "ipv6.fraghdr", "ip.flags.mf",
		"ip.frag_offset",
	}, frames...)
	for i := range borders {
		r := borders[i].withDefaults()
		program, err := r.Program(rocev2.LinkEthernet)
		vm := machine(t, program, err)
		types := []string{
			fmt.Sprintf("0x%02x", uint8(r.CodePoints.Option1)), fmt.Sprintf("0x%02x", uint8(r.CodePoints.Option2)),
		}
		compared, dropped := 0, 0
		for n, row := range rows {
			fragment4 := row.Has("ip.flags.mf") && (row.Bool("ip.flags.mf") || row.Uint("ip.frag_offset") > 0)
			if fragment4 || row.Has("ipv6.hopopts") || row.Has("ipv6.fraghdr") {
				continue
			}
			if !row.Has("udp.dstport") && !row.Has("tcp.dstport") {
				continue // tshark decodes nothing after some headers
			}
			if options := row.All("ipv6.opt.type"); slices.Contains(options, "0x31") ||
				slices.Contains(options, "0xc2") {
				continue // nor in options when one is not as it should be that it knows: IOAM, Jumbo Payload
			}
			want := false
			if row.Has("udp.dstport") {
				switch port := row.Uint("udp.dstport"); {
				case port == uint64(r.FCNPort), port == uint64(r.ProxyPort):
					want = true
				case port == 4791 && row.Octets("udp.payload")[0] == 0x81:
					fast := slices.ContainsFunc(row.All("ipv6.opt.type"),
						func(t string) bool { return slices.Contains(types, t) })
					ppfc := row.Octets("udp.payload")[4]&0x20 != 0 && len(row.Octets("udp.payload")) != 12+16+4
					want = fast || ppfc && r.PPFC || !ppfc && r.CNP
				}
			}
			compared++
			if want {
				dropped++
			}
			kind, drop := r.Match(framed(frames[n], rocev2.DecodeOptions{}))
			require.Equal(t, want, drop, "%v %+v\n%x", kind, r, frames[n])
			verdict := wiretest.Must(vm.Run(frames[n]))(t)
			require.Equal(t, want, verdict != 0, "%+v\n%x", r, frames[n])
		}
		require.Greater(t, compared, 500)
		require.Greater(t, dropped, 100)
	}
}
