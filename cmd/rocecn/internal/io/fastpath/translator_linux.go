package fastpath

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/bpf"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/rocev2"
	"golang.org/x/sys/unix"
)

// A Translator turns Fast CNPs into CNPs in the kernel by XDP, for hosts that only understand CNPs. It runs on the
// hosts' network interface or in front of it, and needs CAP_BPF and CAP_NET_ADMIN. It accepts a Fast CNP if its
// source is accepted and its ICRC is valid for the packet as sent. It ignores a trace. It ends with Close or with
// the process.
type Translator struct {
	objects struct {
		Translator *ebpf.Program `ebpf:"translator"`
		Switches   *ebpf.Map     `ebpf:"switches"`
		Pairs      *ebpf.Map     `ebpf:"pairs"`
		Counters   *ebpf.Map     `ebpf:"counters"`
	}
	config TranslatorConfig
	links  bpf.Links
}

// OpenTranslator starts to translate Fast CNPs from sources set by [Translator.Accept] for flows set by
// [Translator.Learn]. It skips interfaces that do not exist.
func OpenTranslator(c TranslatorConfig) (*Translator, error) {
	t := &Translator{links: bpf.Links{}}
	err := t.loadProgram(&c)
	if err == nil {
		err = t.Watch(c.Interfaces)
	}
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("fastpath: %w", bpf.ExplainRights(err, "CAP_BPF and CAP_NET_ADMIN"))
	}
	return t, nil
}

// TryTranslator returns the error that OpenTranslator would return. It attaches nothing to interfaces.
func TryTranslator(c TranslatorConfig) error {
	t := new(Translator)
	defer t.Close()
	err := t.loadProgram(&c)
	if err == nil {
		err = checkFree(c.Interfaces)
	}
	if err != nil {
		return fmt.Errorf("fastpath: %w", bpf.ExplainRights(err, "CAP_BPF and CAP_NET_ADMIN"))
	}
	return nil
}

// checkFree returns an error if an interface cannot have a program.
func checkFree(interfaces []string) error {
	all, err := interfaceIndexes(interfaces)
	if err != nil {
		return err
	}
	for i, index := range all {
		taken, err := hasXDP(index)
		if taken {
			err = ErrTaken
		}
		if err != nil {
			return fmt.Errorf("%s: %w", interfaces[i], err)
		}
	}
	return nil
}

// hasXDP reports whether an interface has an XDP program. Index 0 has none.
func hasXDP(index int) (has bool, err error) {
	if index == 0 {
		return false, nil
	}
	s, err := netlink.Open(unix.NETLINK_ROUTE)
	if err != nil {
		return false, err
	}
	defer s.Close()
	request := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(request[4:], uint32(index))
	err = s.Request(unix.RTM_GETLINK, 0, request, func(m netlink.Message) {
		if m.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
			return
		}
		xdp, _ := findAttribute(m.Data[unix.SizeofIfInfomsg:], unix.IFLA_XDP)
		mode, ok := findAttribute(xdp, unix.IFLA_XDP_ATTACHED)
		has = ok && len(mode) == 1 && mode[0] != 0 // not XDP_ATTACHED_NONE
	})
	return has, err
}

// findAttribute returns the data of the first attribute of a kind.
func findAttribute(b []byte, kind uint16) (data []byte, ok bool) {
	for attr, data, b, ok := netlink.SplitAttribute(b); ok; attr, data, b, ok = netlink.SplitAttribute(b) {
		if attr == kind {
			return data, true
		}
	}
	return nil, false
}

func (t *Translator) loadProgram(c *TranslatorConfig) error {
	t.config = *c
	spec, err := bpf.Translate()
	if err != nil {
		return err
	}
	template, err := cnpTemplate(c.CNP)
	if err != nil {
		return err
	}
	var only [16]byte
	if c.Host.IsValid() {
		if only = c.Host.As16(); !c.Host.Is6() {
			return fmt.Errorf("%v: %w", c.Host, errAddress)
		}
	}
	if err := bpf.Set(spec, map[string]any{
		"option1": uint8(cmp.Or(c.CodePoints.Option1, fastcnp.Option1Type)),
		"option2": uint8(cmp.Or(c.CodePoints.Option2, fastcnp.Option2Type)),
		"cnp":     template, "crc": crcTables(),
		"only": only, "receivers": c.Receivers, "drop": c.Drop, "window": uint64(max(c.Window, 0)),
	}); err != nil {
		return err
	}
	return spec.LoadAndAssign(&t.objects, nil)
}

// Watch replaces the watched interfaces. Interfaces that stay are not interrupted, and missing ones are skipped. A
// recreated interface has a new index and must be watched again.
func (t *Translator) Watch(interfaces []string) error {
	now, wrong := interfaceIndexes(interfaces)
	return errors.Join(wrong, t.links.Watch(now, func(i int) (io.Closer, error) {
		l, err := t.attachProgram(now[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", interfaces[i], err)
		}
		return l, nil
	}, func(int) error { return nil }))
}

// attachProgram attaches the program to the driver of an interface. If the driver rejects it, as many do at the
// MTU of jumbo frames, it uses generic XDP.
func (t *Translator) attachProgram(index int) (link.Link, error) {
	o := link.XDPOptions{Program: t.objects.Translator, Interface: index}
	l, err := link.AttachXDP(o)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST):
		return nil, ErrTaken
	}
	o.Flags = link.XDPGenericMode
	if l, wrong := link.AttachXDP(o); wrong == nil {
		return l, nil
	}
	return nil, err // the driver's error is more specific
}

// Length of a CNP over IPv6, and offsets of its UDP source port and P_Key.
const (
	cnpSize = 80
	cnpPort = 40
	cnpPKey = 50
)

// cnpTemplate returns a CNP with zeros for the octets that the Fast CNP or the pair determines.
func cnpTemplate(c cnp.Config) (packet [cnpSize]byte, err error) {
	if c.Carriage.Checksum {
		return packet, errChecksum
	}
	var p rocev2.Packet
	p.Src = netip.MustParseAddr("2001:db8::1")
	if _, err = cnp.AppendFor(packet[:0], &p, netip.MustParseAddr("2001:db8::2"), 0, c); err != nil {
		return packet, err
	}
	clear(packet[8:40]) // addresses
	clear(packet[cnpPort:][:2])
	clear(packet[cnpPKey:][:2])
	clear(packet[cnpSize-4:]) // ICRC
	return packet, nil
}

// crcTables returns the CRC-32 of each octet with 0 to 3 octets after it.
func crcTables() (tables [4][256]uint32) {
	tables[0] = *crc32.IEEETable
	for n := 1; n < len(tables); n++ {
		for v, r := range tables[n-1] {
			tables[n][v] = r>>8 ^ tables[0][uint8(r)]
		}
	}
	return tables
}

// Accept accepts Fast CNPs from a prefix of IPv6 addresses.
func (t *Translator) Accept(sources netip.Prefix) error {
	key, err := lpmKey(sources)
	if err != nil {
		return err
	}
	return t.objects.Switches.Put(key, uint32(1))
}

// Learn sets the sending queue pair of a flow, and ends a window that is open.
func (t *Translator) Learn(p Pair, hostQP uint32) error {
	var value [16]byte // start of the window 64 (0: none), queue pair 32, UDP source port 16, unused 16
	binary.BigEndian.PutUint32(value[8:], hostQP&0xFFFFFF)
	// The source port depends on the addresses. The program rejects addresses that cannot be answered.
	var packet [cnpSize]byte
	var about rocev2.Packet
	about.Src, about.Dst = p.Host, p.Receiver
	switch _, err := cnp.AppendFor(packet[:0], &about, p.Receiver, hostQP, t.config.CNP); {
	case err == nil:
		copy(value[12:], packet[cnpPort:][:2])
	case !errors.Is(err, rocev2.ErrNotReachable):
		return fmt.Errorf("fastpath: %w", err)
	}
	return t.objects.Pairs.Put(p, value)
}

// Forget removes the queue pair of a flow.
func (t *Translator) Forget(p Pair) error { return ignoreMissing(t.objects.Pairs.Delete(p)) }

// ignoreMissing returns nil if err is about a missing key.
func ignoreMissing(err error) error {
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (p Pair) MarshalBinary() ([]byte, error) {
	if !p.Host.Is6() || !p.Receiver.Is6() {
		return nil, errAddress
	}
	host, receiver := p.Host.As16(), p.Receiver.As16()
	b := append(append(make([]byte, 0, 36), host[:]...), receiver[:]...)
	return binary.BigEndian.AppendUint32(b, p.ReceiverQP&0xFFFFFF), nil
}

var errAddress = errors.New("not an IPv6 address")

// Counters returns the counters. Any goroutine may call it.
func (t *Translator) Counters() (n Translated) {
	counters := bpf.Counters{Map: t.objects.Counters}
	for i, field := range []*uint64{ // in the order of translate.bpf.c
		&n.Translated, &n.Denied, &n.ICRC, &n.Address, &n.UnknownQP, &n.Passed, &n.Again,
	} {
		*field = counters.Sum(uint32(i))
	}
	return n
}

// Close detaches the program.
func (t *Translator) Close() error {
	o := &t.objects
	return errors.Join(t.links.Close(), o.Translator.Close(), o.Switches.Close(), o.Pairs.Close(), o.Counters.Close())
}
