package fastpath

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/bpf"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/rocev2"
	"golang.org/x/sys/unix"
)

// A Translator makes CNPs of Fast CNPs in the kernel, by XDP, for hosts behind it: at
// their interface to the network, or in front of it. It needs CAP_BPF and CAP_NET_ADMIN.
// It believes a Fast CNP whose source is accepted and whose ICRC is right as sent; a
// trace in it is not looked at. It ends with Close, and with the process.
type Translator struct {
	objects struct {
		Translator *ebpf.Program `ebpf:"translator"`
		Switches   *ebpf.Map     `ebpf:"switches"`
		Pairs      *ebpf.Map     `ebpf:"pairs"`
		Counters   *ebpf.Map     `ebpf:"counters"`
	}
	config TranslatorConfig
	links  map[int]link.Link // by the number of the interface
}

// OpenTranslator begins to translate, for flows that [Translator.Learn] names, Fast CNPs
// of sources that [Translator.Accept] names. Interfaces that are not there it leaves out.
func OpenTranslator(c TranslatorConfig) (*Translator, error) {
	t := &Translator{links: map[int]link.Link{}}
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

// TryTranslator says why a Translator cannot be opened. It translates nothing, and leaves
// interfaces alone.
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

// checkFree says why an interface can have no program.
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

// hasXDP says whether an interface, if there is one of this number, has a program.
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
		how, ok := findAttribute(xdp, unix.IFLA_XDP_ATTACHED)
		has = ok && len(how) == 1 && how[0] != 0 // XDP_ATTACHED_NONE
	})
	return has, err
}

// findAttribute returns what an attribute among others has.
func findAttribute(b []byte, kind uint16) (data []byte, ok bool) {
	for what, data, b, ok := netlink.CutAttribute(b); ok; what, data, b, ok = netlink.CutAttribute(b) {
		if what == kind {
			return data, true
		}
	}
	return nil, false
}

// loadProgram loads the program.
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

// Watch makes these the interfaces, instead of those before: those that stay do not
// notice, and those that are not there are left out. An interface that was deleted and
// made again has another number, and must be watched again.
func (t *Translator) Watch(interfaces []string) error {
	now, wrong := interfaceIndexes(interfaces)
	for index, l := range t.links {
		if !slices.Contains(now, index) {
			delete(t.links, index)
			_ = l.Close() // with the interface it is gone already
		}
	}
	for i, index := range now {
		if index == 0 || t.links[index] != nil {
			continue
		}
		l, err := t.attachProgram(index)
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %w", interfaces[i], err))
			continue
		}
		t.links[index] = l
	}
	return wrong
}

// attachProgram attaches the program to an interface: by its driver, or, as many run none at the MTU of jumbo frames, by the
// kernel behind it.
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
	return nil, err // of the driver, which says more
}

// The length of a CNP over IPv6, and the offsets of its UDP source port and P_Key.
const (
	cnpSize = 80
	cnpPort = 40
	cnpPKey = 50
)

// cnpTemplate returns a CNP with zeros where others differ from it.
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

// crcTables returns the CRC-32 of each octet with 0 to 3 octets behind it.
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

// RemoveAccept takes back what Accept did with the same prefix.
func (t *Translator) RemoveAccept(sources netip.Prefix) error {
	key, err := lpmKey(sources)
	if err != nil {
		return err
	}
	return ignoreMissing(t.objects.Switches.Delete(key))
}

// Learn says that a flow comes from this queue pair of its host. A window that is open ends.
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

// Forget forgets what Learn has said.
func (t *Translator) Forget(p Pair) error { return ignoreMissing(t.objects.Pairs.Delete(p)) }

// ignoreMissing says that a key that is not there need not be deleted.
func ignoreMissing(err error) error {
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}

// MarshalBinary returns the pair as the kernel has it.
func (p Pair) MarshalBinary() ([]byte, error) {
	if !p.Host.Is6() || !p.Receiver.Is6() {
		return nil, errAddress
	}
	host, receiver := p.Host.As16(), p.Receiver.As16()
	b := append(append(make([]byte, 0, 36), host[:]...), receiver[:]...)
	return binary.BigEndian.AppendUint32(b, p.ReceiverQP&0xFFFFFF), nil
}

var errAddress = errors.New("not an IPv6 address")

// Counters returns what has been counted. Any goroutine may call it.
func (t *Translator) Counters() (n Translated) {
	counters := bpf.Counters{Map: t.objects.Counters}
	for i, field := range []*uint64{ // in the order of translate.bpf.c
		&n.Translated, &n.Denied, &n.ICRC, &n.Address, &n.UnknownQP, &n.Passed, &n.Again,
	} {
		*field = counters.Sum(uint32(i))
	}
	return n
}

// Close ends it.
func (t *Translator) Close() (err error) {
	for _, l := range t.links {
		err = errors.Join(err, l.Close())
	}
	t.links = nil
	o := &t.objects
	return errors.Join(err, o.Translator.Close(), o.Switches.Close(), o.Pairs.Close(), o.Counters.Close())
}
