// Package tc attaches programs of traffic control to interfaces, on Linux.
package tc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"golang.org/x/sys/unix"
)

// WithTCX makes Attach use TCX if the kernel supports it. Tests clear it.
var WithTCX = true

// A Place is the priority of a filter: lower ones come first. There is one filter at a place.
type Place uint32

// Places of the agent's programs.
const (
	Answer Place = 4791 + iota // of a congested node
	Shape                      // of the shaper
)

// Attach attaches a program of traffic control to an interface, at ebpf.AttachTCXIngress or ebpf.AttachTCXEgress.
// Since Linux 6.6 the attachment ends with the process in any case, and several programs may be attached. On older
// kernels it is a filter that Close removes; a filter that another process left at its place is replaced.
func Attach(name string, program *ebpf.Program, where ebpf.AttachType, place Place) (io.Closer, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	if WithTCX {
		l, err := link.AttachTCX(link.TCXOptions{Interface: i.Index, Program: program, Attach: where})
		if err == nil {
			return l, nil
		} else if !errors.Is(err, ebpf.ErrNotSupported) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	f, err := newFilter(i, program, where, place)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// A filter is a filter of qdisc clsact.
type filter struct {
	socket *netlink.Socket // in the interface's namespace
	header []byte
}

// Values of linux/rtnetlink.h, linux/pkt_sched.h and linux/pkt_cls.h.
const (
	Kind   = 1          // TCA_KIND, an attribute
	Clsact = 0xFFFF0000 // handle of qdisc clsact, which queues no packet

	clsact  = 0xFFFFFFF1
	ingress = Clsact | 0xFFF2
	egress  = Clsact | 0xFFF3

	tcaOptions                      = 2
	bpfFD, bpfName, bpfFlags        = 6, 7, 8
	bpfDirect                       = 1 // the program's return value is the verdict
	nested                          = 0x8000
	handle                   uint32 = 1
)

// newFilter creates a filter with a program, and a qdisc for it if there is none.
func newFilter(i *net.Interface, program *ebpf.Program, where ebpf.AttachType, place Place) (*filter, error) {
	socket, err := netlink.Open(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	parent := uint32(ingress)
	if where == ebpf.AttachTCXEgress {
		parent = egress
	}
	everything := uint32(binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}))
	f := &filter{socket, Message(i.Index, handle, parent, uint32(place)<<16|everything)}
	err = createQdisc(socket, i, where)
	if err == nil {
		_ = socket.Request(unix.RTM_DELTFILTER, 0, f.header, nil) // left by another process
		var options []byte
		word := binary.NativeEndian.AppendUint32
		options = netlink.AppendAttribute(options, bpfFD, word(nil, uint32(program.FD()))...)
		options = netlink.AppendAttribute(options, bpfName, []byte("rocecn\x00")...)
		options = netlink.AppendAttribute(options, bpfFlags, word(nil, bpfDirect)...)
		b := netlink.AppendAttribute(append([]byte(nil), f.header...), Kind, []byte("bpf\x00")...)
		b = netlink.AppendAttribute(b, tcaOptions|nested, options...)
		err = socket.Request(unix.RTM_NEWTFILTER, unix.NLM_F_CREATE|unix.NLM_F_EXCL, b, nil)
		if err != nil {
			err = fmt.Errorf("filter with preference %d: %w", place, err)
		}
	}
	if err != nil {
		socket.Close()
		return nil, err
	}
	return f, nil
}

// createQdisc creates qdisc clsact if it is missing, which makes Linux empty the queues of the interface. At ingress,
// an existing qdisc ingress will do. Its filters with the parent of egress would run at ingress.
func createQdisc(socket *netlink.Socket, i *net.Interface, where ebpf.AttachType) error {
	qdisc := netlink.AppendAttribute(Message(i.Index, Clsact, clsact, 0), Kind, []byte("clsact\x00")...)
	// Without NLM_F_EXCL an existing clsact is kept. An existing qdisc ingress is an invalid argument.
	err := socket.Request(unix.RTM_NEWQDISC, unix.NLM_F_CREATE, qdisc, nil)
	switch {
	case err == nil, err == unix.EINVAL && where == ebpf.AttachTCXIngress:
		return nil
	case err == unix.EINVAL:
		return fmt.Errorf("qdisc ingress: want clsact (tc qdisc del dev %s ingress)", i.Name)
	}
	return fmt.Errorf("qdisc clsact: %w", err)
}

// Message returns struct tcmsg for an interface.
func Message(index int, handle, parent, info uint32) []byte {
	b := make([]byte, 4, 128) // family 8, padding 24
	for _, word := range []uint32{uint32(index), handle, parent, info} {
		b = binary.NativeEndian.AppendUint32(b, word)
	}
	return b
}

// Close removes the filter, but not the qdisc, which others may use by now. The filter is already gone if the
// interface is.
func (f *filter) Close() error {
	err := f.socket.Request(unix.RTM_DELTFILTER, 0, f.header, nil)
	if err == unix.ENODEV || err == unix.ENOENT {
		err = nil
	}
	return errors.Join(err, f.socket.Close())
}
