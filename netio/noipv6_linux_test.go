//go:build !386 && !s390x

package netio

// The platforms that are left out use socketcall, with arguments in memory: no filter can read them.

import (
	"testing"
	"unsafe"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// A kernel without IPv6, as after ipv6.disable=1, has no sockets of it: IPv4 goes on.
func TestRawWithoutIPv6(t *testing.T) {
	wiretest.Namespace(t, "link set lo up")
	low := uint32(16) // the first argument in struct seccomp_data
	if ne.Uint16([]byte{0, 1}) == 1 {
		low += 4
	}
	program := wiretest.Must(bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 0, Size: 4},
		bpf.JumpIf{Val: unix.SYS_SOCKET, SkipFalse: 3},
		bpf.LoadAbsolute{Off: low, Size: 4},
		bpf.JumpIf{Val: unix.AF_INET6, SkipFalse: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
	}))(t)
	var filters []unix.SockFilter
	for _, i := range program {
		filters = append(filters, unix.SockFilter{Code: i.Op, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	all := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	const mode = unix.SECCOMP_MODE_FILTER // of the thread, with which it ends
	require.NoError(t, unix.Prctl(unix.PR_SET_SECCOMP, mode, uintptr(unsafe.Pointer(&all)), 0, 0))
	in := wiretest.Must(ListenUDP("127.0.0.1:0"))(t)
	defer in.Close()
	for _, device := range []string{"", "lo"} {
		raw := wiretest.Must(OpenRaw(device))(t)
		require.NoError(t, raw.Send(datagram(t, "127.0.0.1", in.Local().Port(), 0, 64, "four")))
		require.Equal(t, unix.EAFNOSUPPORT, raw.Send(icmpv6(4)))
		require.NoError(t, raw.Flush())
		require.EqualValues(t, 1, raw.Failed())
		require.NoError(t, raw.Close())
	}
	p, _ := poll(t, in)
	takePackets(t, p, 2)
}
