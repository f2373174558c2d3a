package qdisc

import (
	"encoding/binary"
	"net"
	"strings"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"github.com/rocecn/rocecn/netio"
	"golang.org/x/sys/unix"
)

// Kind returns the kind of the root qdisc of an interface, such as fq_codel, or noqueue if packets do not wait.
func Kind(name string) (kind string, err error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return "", netio.ErrNoInterface
	}
	s, err := netlink.Open(unix.NETLINK_ROUTE)
	if err != nil {
		return "", err
	}
	defer s.Close()
	link := make([]byte, unix.SizeofIfInfomsg) // family 8, padding 8, type 16, index 32, flags 32, change 32
	binary.NativeEndian.PutUint32(link[4:], uint32(i.Index))
	err = s.Request(unix.RTM_GETLINK, 0, link, func(m netlink.Message) {
		if m.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
			return
		}
		b := m.Data[unix.SizeofIfInfomsg:]
		for attr, data, b, ok := netlink.SplitAttribute(b); ok; attr, data, b, ok = netlink.SplitAttribute(b) {
			if attr == unix.IFLA_QDISC {
				kind = strings.TrimRight(string(data), "\x00")
			}
		}
	})
	return kind, err
}
