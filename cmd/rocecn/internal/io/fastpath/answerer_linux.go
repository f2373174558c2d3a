package fastpath

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/bpf"
	"github.com/rocecn/rocecn/netio"
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
}

var (
	errForwarding = errors.New("the node does not forward IPv6: net.ipv6.conf.lo.forwarding is 0")
	errChecksum   = errors.New("the kernel makes no packets with a UDP checksum")
	errPrefix     = errors.New("not an IPv6 prefix")
)

// OpenAnswerer begins to answer packets of the calling thread's network namespace, of
// senders that [Answerer.SetSender] names.
func OpenAnswerer(c AnswererConfig) (*Answerer, error) {
	a := new(Answerer)
	err := a.load(&c)
	if err == nil {
		err = a.attach(c.Ports)
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

// attach attaches the programs, those last that answer.
func (a *Answerer) attach(ports []Port) error {
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
	if err := a.attachTC("lo", a.objects.Answer, ebpf.AttachTCXIngress); err != nil {
		return err
	}
	for _, p := range ports {
		i, err := net.InterfaceByName(p.Name)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, netio.ErrNoInterface)
		}
		if err := a.objects.Ports.Put(uint32(i.Index), [2]uint64{p.Threshold, 0}); err != nil {
			return err
		}
		if err := a.attachTC(p.Name, a.objects.Egress, ebpf.AttachTCXEgress); err != nil {
			return err
		}
	}
	return nil
}

// attachTC attaches a program of traffic control.
func (a *Answerer) attachTC(name string, program *ebpf.Program, where ebpf.AttachType) error {
	l, err := attachTC(name, program, where)
	if err == nil {
		a.links = append(a.links, l)
	}
	return err
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
	for _, l := range a.links {
		err = errors.Join(err, l.Close())
	}
	a.links = nil
	o := &a.objects
	return errors.Join(err, o.Enqueue.Close(), o.Dequeue.Close(), o.Reset.Close(), o.Egress.Close(), o.Answer.Close(),
		o.Ports.Close(), o.Senders.Close(), o.Flows.Close(), o.Counters.Close())
}
