package filter

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// TestSocketRunsProgram attaches the programs of a border to a socket. On
// 4,000 frames in their domain the kernel, the virtual machine of x/net and
// Match agree.
func TestSocketRunsProgram(t *testing.T) {
	for link := range links {
		for i := range borders {
			if i > 0 && link != rocev2.LinkEthernet {
				break
			}
			r := &borders[i]
			program, err := r.Program(link)
			vm, socket := machine(t, program, err), newFiltered(t, program)
			random := wiretest.NewFrames(uint64(i)<<8 | uint64(link))
			for inside := 0; inside < wiretest.RoundsOrLong(4000, 20_000); {
				frame := frameOf(random, link, random.IntN(3))
				if len(frame) == 0 {
					continue // no datagram of a socket
				}
				selected := socket.selects(t, frame)
				verdict := wiretest.Must(vm.Run(frame))(t)
				require.Equal(t, verdict != 0, selected, "%v, %+v\n%x", link, *r, frame)
				if inDomain(frame, link) {
					inside++
					_, drop := r.Match(framed(frame, rocev2.DecodeOptions{Link: link}))
					require.Equal(t, drop, selected, "%v, %+v\n%x", link, *r, frame)
				}
			}
		}
	}
}

// TestLinuxTakesExpression has tcpdump compile the expressions for an interface. Linux must accept the programs, since
// tcpdump would otherwise filter in user space and lose packets. They must select the same packets as our programs.
func TestLinuxTakesExpression(t *testing.T) {
	tcpdump := wiretest.Tool(t, "tcpdump")
	wiretest.Namespace(t, "link set lo up")
	all := frames(rocev2.LinkEthernet, 4, 1000)
	for _, c := range captures {
		expression := wiretest.Must(c.Expression(rocev2.LinkEthernet))(t)
		out := wiretest.Must(exec.Command(tcpdump, "-i", "lo", "-ddd", expression).Output())(t)
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")[1:] // after the line with their number
		require.LessOrEqual(t, len(lines), 4096, "%v", c)
		compiled := make([]bpf.RawInstruction, len(lines))
		for i, line := range lines {
			p := &compiled[i]
			_, err := fmt.Sscan(line, &p.Op, &p.Jt, &p.Jf, &p.K)
			require.NoError(t, err)
		}
		program, err := c.Program(rocev2.LinkEthernet)
		vm, socket := machine(t, program, err), newFiltered(t, compiled)
		for _, frame := range all {
			if len(frame) == 0 {
				continue // no datagram of a socket
			}
			verdict := wiretest.Must(vm.Run(frame))(t)
			require.Equal(t, verdict != 0, socket.selects(t, frame), "%v\n%x", c, frame)
		}
	}
}

// Loading NFT replaces the rules of another Border that was loaded before.
func TestNFTReplaces(t *testing.T) {
	nft := wiretest.Tool(t, "nft")
	wiretest.Namespace(t, "")
	for _, b := range []Border{{CNP: true}, {}, {}} {
		cmd := exec.Command(nft, "-f", "-")
		cmd.Stdin = strings.NewReader(b.NFT("rocecn"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		loaded := wiretest.Must(exec.Command(nft, "list", "ruleset").Output())(t)
		require.Equal(t, 1, strings.Count(string(loaded), "FCN and proxy messages"))
		require.Equal(t, b.CNP, strings.Contains(string(loaded), `comment "CNP"`))
	}
}

// A filtered is a pair of sockets of which the second has a program.
type filtered struct{ from, to int }

func newFiltered(t *testing.T, program []bpf.RawInstruction) *filtered {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { syscall.Close(fds[0]); syscall.Close(fds[1]) })
	raw := make([]unix.SockFilter, len(program))
	for i, p := range program {
		raw[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	require.NoError(t, unix.SetsockoptSockFprog(fds[1], unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(raw)), Filter: &raw[0]}))
	return &filtered{fds[0], fds[1]}
}

// selects reports whether the kernel passes a frame to the socket.
func (f *filtered) selects(t *testing.T, frame []byte) bool {
	t.Helper()
	_, err := syscall.Write(f.from, frame)
	require.NoError(t, err)
	var b [1 << 12]byte
	n, err := syscall.Read(f.to, b[:])
	if err == syscall.EAGAIN {
		return false
	}
	require.NoError(t, err)
	require.Equal(t, len(frame), n)
	return true
}
