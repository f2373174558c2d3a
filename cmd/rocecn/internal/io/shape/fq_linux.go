package shape

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/tc"
	"github.com/rocecn/rocecn/netio"
	"golang.org/x/sys/unix"
)

// Values of linux/rtnetlink.h and linux/pkt_sched.h.
const (
	root         = 0xFFFFFFFF
	fqHandle     = 4791 << 16 // handle of a qdisc that InstallFQ installed
	ingressBlock = 13         // an attribute
	tcmsgSize    = 20
)

// A discipline is a queueing discipline of an interface.
type discipline struct {
	kind           string
	handle, parent uint32
}

// listDisciplines returns the disciplines of an interface. The kernel does not list noqueue.
func listDisciplines(index int) (all []discipline, err error) {
	s, err := netlink.Open(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	err = s.Dump(unix.RTM_GETQDISC, tc.Message(0, 0, 0, 0), func(m netlink.Message) {
		if m.Type != unix.RTM_NEWQDISC || len(m.Data) < tcmsgSize {
			return
		}
		word := func(n int) uint32 { return binary.NativeEndian.Uint32(m.Data[4*n:]) }
		if word(1) != uint32(index) || word(2) == tc.Clsact {
			return
		}
		d := discipline{handle: word(2), parent: word(3)}
		b := m.Data[tcmsgSize:]
		for attr, data, b, ok := netlink.SplitAttribute(b); ok; attr, data, b, ok = netlink.SplitAttribute(b) {
			if attr == tc.Kind {
				d.kind = strings.TrimRight(string(data), "\x00")
			}
		}
		all = append(all, d)
	})
	return all, err
}

// lookUpInterface returns the index of an interface and its qdiscs.
func lookUpInterface(name string) (index int, all []discipline, err error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return 0, nil, netio.ErrNoInterface
	}
	if all, err = listDisciplines(i.Index); err != nil {
		return 0, nil, fmt.Errorf("shape: %w", err)
	}
	return i.Index, all, nil
}

// CheckFQ reports whether packets are paced at an interface: whether its root is fq, or mq with fq in all queues.
// root is the kind of the root.
func CheckFQ(name string) (root string, waits bool, err error) {
	_, all, err := lookUpInterface(name)
	if err != nil {
		return "", false, err
	}
	of := findRoot(all)
	return of.kind, isPaced(of, all), nil
}

// findRoot returns the root discipline of an interface.
func findRoot(all []discipline) discipline {
	for _, d := range all {
		if d.parent == root {
			return d
		}
	}
	return discipline{kind: "noqueue"}
}

// isPaced reports whether all queues of a root are paced.
func isPaced(of discipline, all []discipline) bool {
	if of.kind != "mq" {
		return of.kind == "fq"
	}
	below := 0
	for _, d := range all {
		if d.parent == root {
			continue
		}
		if below++; d.kind != "fq" {
			return false
		}
	}
	return below > 0
}

// TryFQ returns the error that InstallFQ would return, and changes nothing. It needs CAP_NET_ADMIN.
func TryFQ(name string) error {
	index, all, err := lookUpInterface(name)
	if err != nil {
		return err
	}
	of := findRoot(all)
	if isPaced(of, all) || of.handle != 0 {
		return checkChosen(name, of, all)
	}
	// The kernel rejects blocks, which fq does not support, after it has found fq and before it changes anything.
	block := netlink.AppendAttribute(nil, ingressBlock, binary.NativeEndian.AppendUint32(nil, 1)...)
	if err := replaceRoot(name, index, block...); !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	return nil
}

// replaceRoot makes fq the root of an interface, with these attributes.
func replaceRoot(name string, index int, attributes ...byte) error {
	b := netlink.AppendAttribute(tc.Message(index, fqHandle, root, 0), tc.Kind, []byte("fq\x00")...)
	err := sendRequest(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, append(b, attributes...))
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("shape: %s: this kernel has no qdisc fq, module sch_fq: %w", name, err)
	case err != nil:
		return fmt.Errorf("shape: %s: qdisc fq: %w", name, err)
	}
	return nil
}

// checkChosen returns an error if a qdisc other than fq was configured.
func checkChosen(name string, of discipline, all []discipline) error {
	if isPaced(of, all) || of.handle == 0 {
		return nil
	}
	return fmt.Errorf("shape: %s: qdisc %s was configured: remove it, or replace it with fq", name, of.kind)
}

// InstallFQ makes fq the root of an interface unless another qdisc was configured. remove removes it, and the
// kernel installs its default. If fq is already there, nothing is done, except that an fq left by a crashed
// process is taken over. InstallFQ needs CAP_NET_ADMIN.
func InstallFQ(name string) (remove func() error, err error) {
	index, all, err := lookUpInterface(name)
	if err != nil {
		return nil, err
	}
	switch of := findRoot(all); {
	case of.kind == "fq" && of.handle == fqHandle:
	case isPaced(of, all):
		return func() error { return nil }, nil
	case of.handle != 0:
		return nil, checkChosen(name, of, all)
	default:
		if err := replaceRoot(name, index); err != nil {
			return nil, err
		}
	}
	return func() error {
		err := sendRequest(unix.RTM_DELQDISC, 0, tc.Message(index, fqHandle, root, 0))
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
			return nil // gone or replaced
		}
		return err
	}, nil
}

func sendRequest(kind, flags uint16, data []byte) error {
	s, err := netlink.Open(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Request(kind, flags, data, nil)
}
