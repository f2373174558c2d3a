package fastpath

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/bpf"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/tc"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/rocev2"
)

// An Answerer is a congested node in the kernel. It needs Linux 6.1 or later with BTF, CAP_BPF, CAP_PERFMON and
// CAP_NET_ADMIN. For Fast CNPs the node must forward IPv6.
//
// A port has one queue as its root. Under mq, which has several queues, the one counts that changed last. The
// depth of a queue is known from the next packet on.
//
// An Answerer ends with Close or with the process. Before Linux 6.6 its filters of qdisc clsact stay if the
// process dies, until the next Answerer opens; after 10 s they do nothing.
type Answerer struct {
	objects struct {
		Enqueue  *ebpf.Program `ebpf:"enqueue"`
		Dequeue  *ebpf.Program `ebpf:"dequeue"`
		Reset    *ebpf.Program `ebpf:"reset"`
		Egress   *ebpf.Program `ebpf:"egress"`
		Answer   *ebpf.Program `ebpf:"answer"`
		Ports    *ebpf.Map     `ebpf:"ports"`
		Senders  *ebpf.Map     `ebpf:"senders"`
		Sent     *ebpf.Map     `ebpf:"sent"`
		Flows    *ebpf.Map     `ebpf:"flows"`
		Counters *ebpf.Map     `ebpf:"counters"`
	}
	config AnswererConfig
	token  uint32
	links  []io.Closer
	ports  bpf.Links
}

var (
	errForwarding = errors.New("the node does not forward IPv6: net.ipv6.conf.lo.forwarding is 0")
	errLoopback   = errors.New("interface lo is down, where the kernel makes Fast CNPs")
	errChecksum   = errors.New("the kernel makes no packets with a UDP checksum")
	errPrefix     = errors.New("not a prefix")
	errIPv4       = errors.New("there are no Fast CNPs over IPv4")
	errSelf       = errors.New("no IPv6 address to send Fast CNPs from")
)

// OpenAnswerer starts to answer packets in the network namespace of the calling thread, for the senders set by
// [Answerer.SetSender]. It skips ports that do not exist.
func OpenAnswerer(c AnswererConfig) (*Answerer, error) {
	a := &Answerer{ports: bpf.Links{}}
	err := a.loadPrograms(&c)
	if err == nil {
		err = c.checkForwarding()
	}
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
		return nil, fmt.Errorf("fastpath: %w", bpf.ExplainRights(err, "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"))
	}
	return a, nil
}

func (a *Answerer) loadPrograms(c *AnswererConfig) error {
	a.config = *c
	spec, err := bpf.Answer()
	if err != nil {
		return err
	}
	t := new(fastCNPTemplate)
	if c.Self.IsValid() {
		if t, err = newFastCNPTemplate(c.Self, c.FastCNP); err != nil {
			return err
		}
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
		"intervals": c.PerFlow, "remember": c.Remember, "label_key": expandLabelKey(c.LabelKey),
		"after_probe": uint32(c.AfterProbe),
		"fixed_port":  c.FastCNP.Carriage.SrcPort != 0,
		"fast_cnp":    t.packet, "icrc": t.sum, "tables": t.tables,
	}); err != nil {
		return err
	}
	if err := spec.LoadAndAssign(&a.objects, nil); err != nil {
		return err
	}
	return a.SetSender(netip.PrefixFrom(netip.IPv4Unspecified(), 0), Nothing) // ::/0 includes IPv4-mapped addresses
}

// expandLabelKey returns the key of the kernel's flow labels, which a key of 64 bits determines. A key of 0 stands for
// a random one.
func expandLabelKey(key uint64) (words [2]uint64) {
	var octets [16]byte
	rand.Read(octets[:])
	if key != 0 {
		sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("flow labels"), key))
		copy(octets[:], sum[:])
	}
	return [2]uint64{binary.NativeEndian.Uint64(octets[:]), binary.NativeEndian.Uint64(octets[8:])}
}

// attachTracing attaches the programs that record queue depths.
func (a *Answerer) attachTracing() error {
	for _, program := range []*ebpf.Program{a.objects.Enqueue, a.objects.Dequeue, a.objects.Reset} {
		l, err := link.AttachTracing(link.TracingOptions{Program: program})
		if err != nil {
			return err
		}
		a.links = append(a.links, l)
	}
	return nil
}

// checkForwarding returns an error if Fast CNPs are configured and could not leave the node.
func (c *AnswererConfig) checkForwarding() error {
	const forwarding = "/proc/sys/net/ipv6/conf/lo/forwarding"
	if !c.Self.IsValid() {
		return nil
	}
	if b, err := os.ReadFile(forwarding); err != nil || strings.TrimSpace(string(b)) == "0" {
		return errors.Join(err, errForwarding)
	}
	if lo, err := net.InterfaceByName("lo"); err != nil || lo.Flags&net.FlagUp == 0 {
		return errors.Join(err, errLoopback)
	}
	return nil
}

// attachAnswer attaches the program that turns a copy into a Fast CNP.
func (a *Answerer) attachAnswer() error {
	l, err := tc.Attach("lo", a.objects.Answer, ebpf.AttachTCXIngress, tc.Answer)
	if err == nil {
		a.links = append(a.links, l)
	}
	return err
}

// Watch replaces the watched ports. Ports that stay are not interrupted, and missing ones are skipped. A recreated
// interface has a new index and must be watched again.
func (a *Answerer) Watch(ports []Port) error {
	now, wrong := interfaceIndexes(portNames(ports))
	return errors.Join(wrong, a.ports.Watch(now, func(i int) (io.Closer, error) {
		index := uint32(now[i])
		if err := a.objects.Ports.Put(index, newPort(ports[i].Levels)); err != nil {
			return nil, err
		}
		l, err := tc.Attach(ports[i].Name, a.objects.Egress, ebpf.AttachTCXEgress, tc.Answer)
		if err != nil {
			return nil, errors.Join(err, a.objects.Ports.Delete(index))
		}
		return l, nil
	}, func(index int) error { return ignoreMissing(a.objects.Ports.Delete(uint32(index))) }))
}

func portNames(ports []Port) (all []string) {
	for _, p := range ports {
		all = append(all, p.Name)
	}
	return all
}

// A port is struct port of answer.bpf.c.
type port struct {
	up, down     [level.Max]uint64
	depth, level uint64
	noted        uint64 // time of the depth, on the clock of bpf.Monotonic
}

// newPort returns a port with an empty queue.
func newPort(t level.Thresholds) (p port) {
	for i := range p.up {
		p.up[i], p.down[i] = math.MaxUint64, math.MaxUint64
		if i < len(t.Up) {
			p.up[i], p.down[i] = t.Up[i], t.Up[i]
		}
		if i < len(t.Down) {
			p.down[i] = min(t.Down[i], p.up[i])
		}
	}
	return p
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (p port) MarshalBinary() (b []byte, err error) {
	for _, n := range slices.Concat(p.up[:], p.down[:], []uint64{p.depth, p.level, p.noted}) {
		b = binary.NativeEndian.AppendUint64(b, n)
	}
	return b, nil
}

// TryAnswerer returns the error that OpenAnswerer would return. It attaches nothing to interfaces, where another
// Answerer may run.
func TryAnswerer(c AnswererConfig) error {
	a := new(Answerer)
	defer a.Close()
	err := a.loadPrograms(&c)
	if err == nil {
		err = c.checkForwarding()
	}
	if err == nil {
		err = a.attachTracing()
	}
	if err == nil {
		_, err = interfaceIndexes(portNames(c.Ports))
	}
	if err != nil {
		return fmt.Errorf("fastpath: %w", bpf.ExplainRights(err, "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"))
	}
	return nil
}

// SetSender sets the policy for senders in a prefix; the longest prefix applies. IPv4 allows only Mark and
// Nothing, and so does IPv6 without AnswererConfig.Self. It may be called at any time, for example to set Mark for
// a host that has rejected a Fast CNP.
func (a *Answerer) SetSender(prefix netip.Prefix, p Policy) error {
	key, err := lpmKey(prefix)
	if err != nil {
		return err
	}
	if p != Mark && p != Nothing {
		switch {
		case prefix.Addr().Is4():
			return fmt.Errorf("fastpath: %v: %w", prefix, errIPv4)
		case !a.config.Self.IsValid():
			return fmt.Errorf("fastpath: %v: %w", prefix, errSelf)
		}
	}
	return a.objects.Senders.Put(key, uint32(p))
}

// HasProbed reports whether the kernel has sent a Fast CNP under the policy Probe of a host.
func (a *Answerer) HasProbed(host netip.Addr) bool {
	key, err := lpmKey(netip.PrefixFrom(host, host.BitLen()))
	var p uint32
	return err == nil && a.objects.Senders.Lookup(key, &p) == nil && Policy(p) != Probe
}

// RemoveSender removes the policy of a prefix.
func (a *Answerer) RemoveSender(prefix netip.Prefix) error {
	key, err := lpmKey(prefix)
	if err != nil {
		return err
	}
	return ignoreMissing(a.objects.Senders.Delete(key))
}

// HasSent reports whether an IPv6 packet is a Fast CNP that the kernel sent within the given time. It ignores
// traffic class and hop limit, which may change on the path. With AnswererConfig.Remember it knows the last 65,536 of
// them.
func (a *Answerer) HasSent(ip []byte, within time.Duration) bool {
	var p, about rocev2.Packet
	if p.DecodeIP(ip) != nil || len(ip) != fastCNPSize {
		return false
	}
	config := a.config.FastCNP
	config.Carriage.FlowLabel = wire.FlowLabel(ip)
	var s sentFastCNP
	if a.objects.Sent.Lookup(sentKey{p.Dst, config.Carriage.FlowLabel}, &s) != nil ||
		bpf.Monotonic()-int64(s.at) > int64(within) {
		return false
	}
	about.Src, about.Dst, about.SrcPort = p.Dst, s.original, s.port
	about.BTH.DestQP, about.BTH.PKey = s.qp, s.pKey
	want, _, err := fastcnp.AppendFor(nil, &about, a.config.Self, nil, config)
	if err != nil {
		return false
	}
	got := slices.Clone(ip)
	wire.SetTrafficClass(got, wire.TrafficClass(want))
	const hopLimit = 7
	got[hopLimit] = want[hopLimit]
	return bytes.Equal(want, got)
}

// A sentKey is struct sent_key of answer.bpf.c.
type sentKey struct {
	host  netip.Addr
	label uint32
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (k sentKey) MarshalBinary() ([]byte, error) {
	return binary.BigEndian.AppendUint32(k.host.AsSlice(), k.label), nil
}

// A sentFastCNP is struct sent of answer.bpf.c.
type sentFastCNP struct {
	at         uint64 // on the clock of bpf.Monotonic
	original   netip.Addr
	qp         uint32
	port, pKey uint16
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (s *sentFastCNP) UnmarshalBinary(b []byte) error {
	if len(b) != 32 {
		return errors.New("fastpath: not 32 octets")
	}
	s.at, s.original = binary.NativeEndian.Uint64(b), netip.AddrFrom16([16]byte(b[8:]))
	s.qp, s.port, s.pKey = binary.BigEndian.Uint32(b[24:]), binary.BigEndian.Uint16(b[28:]),
		binary.BigEndian.Uint16(b[30:])
	return nil
}

// An lpm is the key of a map of IPv6 prefixes.
type lpm struct {
	length  uint32
	address [16]byte
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (l lpm) MarshalBinary() ([]byte, error) {
	return append(binary.NativeEndian.AppendUint32(nil, l.length), l.address[:]...), nil
}

// lpmKey returns the key of a prefix. IPv4 becomes IPv4-mapped.
func lpmKey(prefix netip.Prefix) (lpm, error) {
	if !prefix.IsValid() || prefix.Addr().Is4In6() {
		return lpm{}, fmt.Errorf("fastpath: %v: %w", prefix, errPrefix)
	}
	prefix = prefix.Masked()
	bits := prefix.Bits()
	if prefix.Addr().Is4() {
		bits += 96
	}
	return lpm{uint32(bits), prefix.Addr().As16()}, nil
}

// Counters returns the counters. Any goroutine may call it.
func (a *Answerer) Counters() (n Answered) {
	counters := bpf.Counters{Map: a.objects.Counters}
	for i, field := range []*uint64{ // in the order of answer.bpf.c
		&n.Congested, &n.Broken, &n.Acknowledgement, &n.Notification, &n.NoMethod, &n.OwnAddress, &n.Address,
		&n.Routed, &n.NotCapable, &n.Limited, &n.MarkedOnly, &n.Copied, &n.NotCopied, &n.Marked,
		&n.Sent, &n.NoRoute, &n.Checksum, &n.Failed,
	} {
		*field = counters.Sum(uint32(i))
	}
	return n
}

// Close detaches the programs.
func (a *Answerer) Close() (err error) {
	err = a.ports.Close()
	for _, l := range a.links {
		err = errors.Join(err, l.Close())
	}
	a.links = nil
	o := &a.objects
	return errors.Join(err, o.Enqueue.Close(), o.Dequeue.Close(), o.Reset.Close(), o.Egress.Close(), o.Answer.Close(),
		o.Ports.Close(), o.Senders.Close(), o.Sent.Close(), o.Flows.Close(), o.Counters.Close())
}
