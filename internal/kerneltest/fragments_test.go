//go:build linux

package kerneltest

import (
	"encoding/binary"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// The first of two fragments does not identify the message. Without rules both cross, and Linux reassembles them
// for a socket, unless it finds headers missing itself. The rules drop them (RFC 7112), but let fragments of other
// packets cross.
func TestLinuxBorderFragments(t *testing.T) {
	requireRules(t)
	f := newFrontier(t)
	outside, inside := &f.sides[0], &f.sides[1]

	const (
		fcn  = `c000 03fd 000c 0000  beef5400`
		cnp  = `c000 12b7 0028 0000  8100ffff 40000011 00000000 00000000000000000000000000000000 01020304`
		data = `c000 12b7 0018 0000  0400ffff 00000011 00000000 01020304`
	)
	all := filter.Border{CNP: true, PPFC: true}
	id := byte(0) // of the last fragmented packet; after a drop, the remaining fragments wait for it
	for _, c := range []struct {
		name    string
		border  filter.Border
		version int
		ext     string // extension headers of the fragmentable part
		udp     string
		first   int  // octets of that part in the first fragment
		linux   bool // Linux reassembles it
		crosses bool // it crosses with the rules
	}{
		// Fragment, Routing (next 60) | Destination Options, UDP 1021.
		{"FCN after Routing and Destination Options", filter.Border{}, 6, `2b: 3c00fd00 00000000 1100 0104 00000000`,
			fcn,
			8, true, false},
		{"FCN after Destination Options", filter.Border{}, 6, `3c: 1100 0104 00000000`, fcn, 8, false, false},
		{"half of the Destination Options", filter.Border{}, 6, `3c: 1101 010c 000000000000000000000000`, fcn, 8, false,
			false},
		{"FCN", filter.Border{}, 6, `11:`, fcn, 8, true, false},
		{"CNP without its OpCode", all, 6, `11:`, cnp, 8, true, false},
		{"CNP without its OpCode, IPv4", all, 4, ``, cnp, 8, true, false},
		{"CNP alone kept in, IPv4", filter.Border{CNP: true}, 4, ``, cnp, 8, true, false},
		{"CNP that may cross", filter.Border{}, 6, `11:`, cnp, 8, true, true},
		{"CNP that may cross, IPv4", filter.Border{}, 4, ``, cnp, 8, true, true},
		{"data after Routing", filter.Border{}, 6, `2b: 1100fd00 00000000`, data, 16, true, true},
		{"data and its OpCode, IPv4", filter.Border{PPFC: true}, 4, ``, data, 16, true, true},
		{"other UDP", filter.Border{}, 6, `11:`, `c000 0035 000c 0000 01020304`, 8, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			next, ext, _ := strings.Cut(c.ext, ":")
			udp := wiretest.Hex(t, c.udp)
			from, to := outside.addr6.AsSlice(), inside.addr6.AsSlice()
			if c.version == 4 {
				from, to = outside.addr4.AsSlice(), inside.addr4.AsSlice()
			}
			pseudo := slices.Concat(from, to, []byte{0, protoUDP, 0, byte(len(udp))}, udp)
			binary.BigEndian.PutUint16(udp[6:], checksum(pseudo))
			whole := slices.Concat(wiretest.Hex(t, ext), udp)

			fragments := func() [2][]byte {
				if c.version == 4 {
					return [2][]byte{ipv4Fragment(0x2000, whole[:c.first]),
						ipv4Fragment(uint16(c.first/8), whole[c.first:])}
				}
				of := func(offset byte, part []byte) []byte {
					return ipv6Packet(44, slices.Concat(wiretest.Hex(t, next), []byte{0, 0, offset, 0, 0, 0, id}, part))
				}
				return [2][]byte{of(1, whole[:c.first]), of(byte(c.first), whole[c.first:])}
			}
			addr := inside.addr6
			if c.version == 4 {
				addr = inside.addr4
			}
			socket := inside.host.listen(t, addr, binary.BigEndian.Uint16(udp[2:]))
			witness := inside.host.listen(t, inside.addr6, 9)
			// arrives sends the fragments, and reports whether the first one crosses and whether the socket receives
			// the reassembled message.
			arrives := func() (first, message bool) {
				id++
				parts := fragments()
				for _, ip := range parts {
					address(ip, int(id), outside, inside)
				}
				first = f.cross(t, outside, inside, parts[:1])[int(id)]
				outside.end.sendIP(t, outside.router, parts[1])
				end := slices.Concat(outside.addr6.AsSlice(), inside.addr6.AsSlice(), []byte{0, protoUDP, 0, 9},
					[]byte{1, 1, 0,
						9, 0, 9, 0, 0, id, 0})
				binary.BigEndian.PutUint16(end[42:], checksum(end))
				ip := ipv6Packet(protoUDP, end[36:45])
				address(ip, lastPacket, outside, inside)
				outside.end.sendIP(t, outside.router, ip)
				var b [2]byte
				require.NoError(t, witness.SetReadDeadline(time.Now().Add(packetTimeout)))
				_, _, err := witness.ReadFromUDP(b[:])
				require.NoError(t, err)
				require.Equal(t, id, b[0])
				got, message := waiting(t, socket)
				if message {
					require.Equal(t, udp[8:], got)
				}
				return first, message
			}

			first, message := arrives()
			require.True(t, first, "without rules")
			require.Equal(t, c.linux, message, "without rules")
			c.border.FCNPort = 0x03FD // the port in these octets
			_, drop := c.border.Match(framed(fragments()[0]))
			require.Equal(t, !c.crosses, drop, "Match")
			for _, r := range rulesOf(t, &c.border) {
				f.border.Run(t, r.load, "sh", "-e")
				first, message := arrives()
				require.Equal(t, c.crosses, first, r.name)
				require.Equal(t, c.crosses, message, r.name)
				f.border.Run(t, r.undo, "sh", "-e")
			}
		})
	}
}

// ipv4Fragment returns a UDP packet or fragment without addresses.
func ipv4Fragment(fragment uint16, payload []byte) []byte {
	b := make([]byte, 20, 20+len(payload))
	b[0], b[9] = 0x45, protoUDP
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
	binary.BigEndian.PutUint16(b[6:], fragment)
	return append(b, payload...)
}

// ipv6Packet returns a packet without addresses.
func ipv6Packet(next uint8, payload []byte) []byte {
	b := make([]byte, 40, 40+len(payload))
	b[0], b[6] = 6<<4, next
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	return append(b, payload...)
}

// waiting returns the datagram that waits at a socket, if any.
func waiting(t *testing.T, c *net.UDPConn) (data []byte, ok bool) {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	b := make([]byte, 2048)
	var n int
	require.NoError(t, raw.Control(func(fd uintptr) {
		n, _, err = syscall.Recvfrom(int(fd), b, syscall.MSG_DONTWAIT)
	}))
	if err == syscall.EAGAIN {
		return nil, false
	}
	require.NoError(t, err)
	return b[:n], true
}
