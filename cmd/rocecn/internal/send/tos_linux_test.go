package send

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Over IPv4 the DSCP and the TTL are those asked for, as the kernel of the other
// end sees them.
func TestTOS(t *testing.T) {
	conn := wiretest.Must(net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	defer conn.Close()
	raw := wiretest.Must(conn.SyscallConn())(t)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for _, option := range []int{syscall.IP_RECVTOS, syscall.IP_RECVTTL} {
			require.NoError(t, syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, option, 1))
		}
	}))
	for _, c := range []struct {
		args     []string
		tos, ttl byte
	}{
		{nil, 48 << 2, 64},
		{[]string{"-dscp", "46", "-hops", "7"}, 46 << 2, 7},
		{[]string{"-dscp", "0", "-hops", "255"}, 0, 255},
		{[]string{"-dscp", "63"}, 63 << 2, 64},
	} {
		send(t, append([]string{"-fcn", conn.LocalAddr().String(), "-label", "1"}, c.args...)...)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
		data, oob := make([]byte, 16), make([]byte, 128)
		n, oobn, _, _, err := conn.ReadMsgUDP(data, oob)
		require.NoError(t, err)
		require.Equal(t, 4, n)
		messages := wiretest.Must(syscall.ParseSocketControlMessage(oob[:oobn]))(t)
		printed := map[int32]byte{}
		for _, m := range messages {
			printed[m.Header.Type] = m.Data[0]
		}
		require.Equal(t, map[int32]byte{syscall.IP_TOS: c.tos, syscall.IP_TTL: c.ttl}, printed, fmt.Sprint(c.args))
	}
}
