package fastpath

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/bpf"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
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
	links []link.Link
}

// OpenTranslator begins to translate, for flows that [Translator.Learn] names, Fast CNPs
// of sources that [Translator.Accept] names.
func OpenTranslator(c TranslatorConfig) (*Translator, error) {
	t := new(Translator)
	err := t.load(&c)
	if err == nil {
		err = t.attach(c.Interfaces)
	}
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("fastpath: %w", bpf.Rights(err, "CAP_BPF and CAP_NET_ADMIN"))
	}
	return t, nil
}

// load loads the program.
func (t *Translator) load(c *TranslatorConfig) error {
	spec, err := bpf.Translate()
	if err != nil {
		return err
	}
	template, err := cnpTemplate(c.CNP)
	if err != nil {
		return err
	}
	if err := bpf.Set(spec, map[string]any{
		"option1": uint8(cmp.Or(c.CodePoints.Option1, fastcnp.ExperimentalType)),
		"option2": uint8(cmp.Or(c.CodePoints.Option2, fastcnp.ExperimentalType)),
		"cnp":     template, "crc": crcTables(),
	}); err != nil {
		return err
	}
	return spec.LoadAndAssign(&t.objects, nil)
}

func (t *Translator) attach(interfaces []string) error {
	for _, name := range interfaces {
		i, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, netio.ErrNoInterface)
		}
		l, err := link.AttachXDP(link.XDPOptions{Program: t.objects.Translator, Interface: i.Index})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		t.links = append(t.links, l)
	}
	return nil
}

// cnpSize is the length of a CNP over IPv6.
const cnpSize = 80

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
	clear(packet[8:40])       // addresses
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

// Refuse takes back what Accept did with the same prefix.
func (t *Translator) Refuse(sources netip.Prefix) error {
	key, err := lpmKey(sources)
	if err != nil {
		return err
	}
	return there(t.objects.Switches.Delete(key))
}

// Learn says that a flow comes from this queue pair of its host.
func (t *Translator) Learn(p Pair, hostQP uint32) error {
	return t.objects.Pairs.Put(p, [4]byte(binary.BigEndian.AppendUint32(nil, hostQP&0xFFFFFF)))
}

// Forget forgets what Learn has said.
func (t *Translator) Forget(p Pair) error { return there(t.objects.Pairs.Delete(p)) }

// there says that a key that is not there need not be deleted.
func there(err error) error {
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
		&n.Translated, &n.Denied, &n.ICRC, &n.Address, &n.UnknownQP, &n.Passed,
	} {
		*field = counters.Of(uint32(i))
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
