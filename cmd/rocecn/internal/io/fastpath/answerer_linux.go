package fastpath

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/bpf"
)

// An Answerer is a congested node in the kernel. It needs Linux 6.1 or later, with
// BTF, CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, and a node that forwards IPv6. A port
// has one queue as its root: under mq, whose queues are several, the one counts that
// moved last. How long a queue is that is there before is known from its next packet on.
// It ends with Close, and with the process, but before Linux 6.6 its filters of qdisc
// clsact stay if the process dies, until the next one begins.
type Answerer struct {
	objects struct {
		Enqueue  *ebpf.Program `ebpf:"enqueue"`
		Dequeue  *ebpf.Program `ebpf:"dequeue"`
		Reset    *ebpf.Program `ebpf:"reset"`
		Egress   *ebpf.Program `ebpf:"egress"`
		Answer   *ebpf.Program `ebpf:"answer"`
		Ports    *ebpf.Map     `ebpf:"ports"`
		Senders  *ebpf.Map     `ebpf:"senders"`
		Flows    *ebpf.Map     `ebpf:"flows"`
		Counters *ebpf.Map     `ebpf:"counters"`
	}
	token uint32
	links []io.Closer
	ports map[int]io.Closer // by the number of the interface
}

var (
	errForwarding = errors.New("the node does not forward IPv6: net.ipv6.conf.lo.forwarding is 0")
	errChecksum   = errors.New("the kernel makes no packets with a UDP checksum")
	errPrefix     = errors.New("not an IPv6 prefix")
)

// OpenAnswerer begins to answer packets of the calling thread's network namespace, of
// senders that [Answerer.SetSender] names. Ports that are not there it leaves out.
func OpenAnswerer(c AnswererConfig) (*Answerer, error) {
	a := &Answerer{ports: map[int]io.Closer{}}
	err := a.load(&c)
	if err == nil {
		err = a.attachTracing()
	}
	if err == nil {
		err = a.attachAnswer()
	}
	if err == nil {
		err = a.Watch(c.Ports)
	}
	if err != nil {
		a.Close()
		return nil, fmt.Errorf("fastpath: %w", bpf.Rights(err, "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"))
	}
	return a, nil
}

// load loads the programs.
func (a *Answerer) load(c *AnswererConfig) error {
	spec, err := bpf.Answer()
	if err != nil {
		return err
	}
	t, err := newFastCNPTemplate(c.Self, c.FastCNP)
	if err != nil {
		return err
	}
	namespace, err := bpf.Namespace()
	if err != nil {
		return err
	}
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	var token [4]byte
	rand.Read(token[:])
	a.token = binary.NativeEndian.Uint32(token[:]) | 1
	if err := bpf.Set(spec, map[string]any{
		"namespace": namespace, "loopback": uint32(loopback.Index), "token": a.token,
		"interval": uint64(max(c.PerFlow, 0)), "fixed_port": c.FastCNP.Carriage.SrcPort != 0,
		"fast_cnp": t.packet, "icrc": t.sum, "tables": t.tables,
	}); err != nil {
		return err
	}
	return spec.LoadAndAssign(&a.objects, nil)
}

// attachTracing attaches the programs that follow the queues.
func (a *Answerer) attachTracing() error {
	const forwarding = "/proc/sys/net/ipv6/conf/lo/forwarding"
	if b, err := os.ReadFile(forwarding); err != nil || strings.TrimSpace(string(b)) == "0" {
		return errors.Join(err, errForwarding)
	}
	for _, program := range []*ebpf.Program{a.objects.Enqueue, a.objects.Dequeue, a.objects.Reset} {
		l, err := link.AttachTracing(link.TracingOptions{Program: program})
		if err != nil {
			return err
		}
		a.links = append(a.links, l)
	}
	return nil
}

// attachAnswer attaches the program that makes the answer of a copy.
func (a *Answerer) attachAnswer() error {
	l, err := attachTC("lo", a.objects.Answer, ebpf.AttachTCXIngress)
	if err == nil {
		a.links = append(a.links, l)
	}
	return err
}

// Watch makes these the ports, instead of those before: those that stay do not notice,
// and those that are not there are left out. An interface that was deleted and made
// again has another number, and must be watched again.
func (a *Answerer) Watch(ports []Port) error {
	now := map[int]Port{}
	for _, p := range ports {
		if i, err := net.InterfaceByName(p.Name); err == nil {
			now[i.Index] = p
		}
	}
	for index, l := range a.ports {
		if _, ok := now[index]; !ok {
			delete(a.ports, index)
			_ = l.Close() // with the interface it is gone already
			if err := there(a.objects.Ports.Delete(uint32(index))); err != nil {
				return err
			}
		}
	}
	for index, p := range now {
		if a.ports[index] != nil {
			continue
		}
		if err := a.objects.Ports.Put(uint32(index), [2]uint64{p.Threshold, 0}); err != nil {
			return err
		}
		l, err := attachTC(p.Name, a.objects.Egress, ebpf.AttachTCXEgress)
		if err != nil {
			return errors.Join(err, a.objects.Ports.Delete(uint32(index)))
		}
		a.ports[index] = l
	}
	return nil
}

// TryAnswerer says why an Answerer cannot be opened. It answers nothing, and leaves
// traffic control alone, where another Answerer may be.
func TryAnswerer(c AnswererConfig) error {
	a := new(Answerer)
	defer a.Close()
	err := a.load(&c)
	if err == nil {
		err = a.attachTracing()
	}
	if err != nil {
		return fmt.Errorf("fastpath: %w", bpf.Rights(err, "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"))
	}
	return nil
}

// SetSender says what to do for the senders in a prefix of IPv6 addresses. The longest
// prefix that has a sender counts; Nothing removes a prefix. It may be called while the
// kernel answers: a host that has rejected a Fast CNP becomes one to Mark for.
func (a *Answerer) SetSender(prefix netip.Prefix, p Policy) error {
	key, err := lpmKey(prefix)
	if err != nil {
		return err
	}
	if p != Nothing {
		return a.objects.Senders.Put(key, uint32(p))
	}
	return there(a.objects.Senders.Delete(key))
}

// An lpm is the key of a map of IPv6 prefixes.
type lpm struct {
	length  uint32
	address [16]byte
}

// MarshalBinary returns the key as the kernel has it.
func (l lpm) MarshalBinary() ([]byte, error) {
	return append(binary.NativeEndian.AppendUint32(nil, l.length), l.address[:]...), nil
}

func lpmKey(prefix netip.Prefix) (lpm, error) {
	if !prefix.IsValid() || !prefix.Addr().Is6() || prefix.Addr().Is4In6() {
		return lpm{}, fmt.Errorf("fastpath: %v: %w", prefix, errPrefix)
	}
	prefix = prefix.Masked()
	return lpm{uint32(prefix.Bits()), prefix.Addr().As16()}, nil
}

// Counters returns what has been counted. Any goroutine may call it.
func (a *Answerer) Counters() (n Answered) {
	counters := bpf.Counters{Map: a.objects.Counters}
	for i, field := range []*uint64{ // in the order of answer.bpf.c
		&n.Congested, &n.Broken, &n.Acknowledgement, &n.Notification, &n.NoMethod, &n.OwnAddress, &n.Address,
		&n.Routed, &n.NotCapable, &n.Limited, &n.MarkedOnly, &n.Copied, &n.NotCopied, &n.Marked,
		&n.Sent, &n.NoRoute, &n.Checksum, &n.Failed,
	} {
		*field = counters.Of(uint32(i))
	}
	return n
}

// Close ends it.
func (a *Answerer) Close() (err error) {
	for _, l := range slices.Concat(slices.Collect(maps.Values(a.ports)), a.links) {
		err = errors.Join(err, l.Close())
	}
	a.ports, a.links = nil, nil
	o := &a.objects
	return errors.Join(err, o.Enqueue.Close(), o.Dequeue.Close(), o.Reset.Close(), o.Egress.Close(), o.Answer.Close(),
		o.Ports.Close(), o.Senders.Close(), o.Flows.Close(), o.Counters.Close())
}
