// Package role has the common parts of the roles: their own addresses, the checks of their
// configurations, and the two places at which they charge limits, before a message is looked at and before one is sent.
package role

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/answer"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/limit"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// New returns a role as it is configured, none if the Config has an error.
func New[C any, R interface{ Configure(C) error }](r R, cfg C) (R, error) {
	if err := r.Configure(cfg); err != nil {
		return *new(R), err
	}
	return r, nil
}

// KindOf returns the kind of a RoCEv2 packet by its opcode: Data, Ack, or CNP for every notification.
func KindOf(op bth.Opcode) message.Kind {
	switch {
	case op == bth.CNP:
		return message.KindCNP
	case op.IsAcknowledge():
		return message.KindAck
	}
	return message.KindData
}

// Unanswered returns the reason for which nothing answers a packet of a kind.
func Unanswered(k message.Kind) node.Reason {
	switch k {
	case message.KindData:
		return node.NoReason
	case message.KindAck:
		return node.ReasonAcknowledgement
	}
	return node.ReasonNotification
}

// MayBe reports whether a broken RoCEv2 packet may be of a kind: its opcode is of that kind, or missing.
func MayBe(f *rocev2.Frame, kind message.Kind) bool {
	var d rocev2.Datagram
	v := f.Outer()
	v.AllowTruncated = true
	return v.Mirrored() || v.Datagram(&d, rocev2.Port) != nil || len(d.Data) == 0 ||
		KindOf(bth.Opcode(d.Data[0])) == kind
}

// Decode decodes the RoCEv2 packet in a frame, through IP in IP but no other tunnel, and returns its kind. If there is
// no such packet, the reason is ReasonNotOurs; if it cannot be decoded, the kind and the reason are ReasonBroken.
// A trimmed packet is data with ReasonTrimmed.
func Decode(p *rocev2.Packet, f *rocev2.Frame) (message.Kind, node.Reason) {
	v := f.Outer()
	if v.Mirrored() { // a copy of a packet that was sent to another node
		return message.KindOther, node.ReasonNotOurs
	}
	switch err := v.Packet(p); {
	case err == nil && p.Trimmed:
		return message.KindData, node.ReasonTrimmed
	case err == nil:
		return KindOf(p.BTH.Opcode), node.NoReason
	case errors.Is(err, rocev2.ErrNotRoCEv2):
		return message.KindOther, node.ReasonNotOurs
	}
	return message.KindError, node.ReasonBroken
}

// Teaches reports whether a frame, below its tunnels, is a RoCEv2 packet that is neither a notification nor trimmed:
// data, an acknowledgement or connection management. It decodes into d.
func Teaches(f *rocev2.Frame, d *rocev2.Datagram) bool {
	return f.Inner().Datagram(d, rocev2.Port) == nil && !d.Trimmed && len(d.Data) > 0 &&
		bth.Opcode(d.Data[0]) != bth.CNP
}

// Concerns reports whether a frame, below its tunnels, is a UDP datagram to one of these ports, a broken one or the
// first of several fragments. It reads no more than the headers.
func Concerns(f *rocev2.Frame, ports ...uint16) bool {
	var d rocev2.Datagram
	err := f.Inner().Datagram(&d, ports...)
	if errors.Is(err, rocev2.ErrFragment) {
		port, ok := f.Fragment()
		return ok && slices.Contains(ports, port)
	}
	return !errors.Is(err, rocev2.ErrNotRoCEv2)
}

// ToPort decodes a UDP datagram to a port into d. If there is none, the reason is ReasonNotOurs; if it is
// incomplete, ReasonBroken or ReasonFragment.
func ToPort(d *rocev2.Datagram, f *rocev2.Frame, port uint16) node.Reason {
	v := f.Outer()
	if v.Mirrored() { // a copy of a datagram that was sent to another node
		return node.ReasonNotOurs
	}
	err := v.Datagram(d, port)
	switch {
	case err == nil:
		return node.NoReason
	case errors.Is(err, rocev2.ErrFragment):
		if first, ok := f.Fragment(); ok && first == port {
			return node.ReasonFragment
		}
	case !errors.Is(err, rocev2.ErrNotRoCEv2):
		return node.ReasonBroken
	}
	return node.ReasonNotOurs
}

// PacketKey returns the addresses and the queue pair of a packet as a key. It is the key of the packet's flow, see
// [rocev2.Packet.FlowKey], and for a notification that of the notification's own path.
func PacketKey(p *rocev2.Packet) rocev2.FlowKey {
	return rocev2.FlowKey{Src: p.Src, Dst: p.FinalDst(), DestQP: p.BTH.DestQP}
}

// TableKey returns the key of a flow in a table.
func TableKey(k *qpmap.Key) flowtable.Key { return flowtable.KeyOf(k.Src, k.Dst, k.DestQP, k.Domain) }

// FlowOf is the inverse of TableKey.
func FlowOf(k *flowtable.Key) qpmap.Key { return qpmap.Key{FlowKey: k.FlowKey(), Domain: k.Domain} }

// Self are a node's own addresses, one a family, each the zero Addr if the node has none.
type Self struct{ V4, V6 netip.Addr }

// Has reports whether an address is one of them.
func (s Self) Has(a netip.Addr) bool { return a == s.V4 || a == s.V6 }

// Like returns the one of the family of another address.
func (s Self) Like(a netip.Addr) netip.Addr {
	if a.Is4() {
		return s.V4
	}
	return s.V6
}

// Peer returns the end of a packet that is not the node.
func (s Self) Peer(p *rocev2.Packet) netip.Addr {
	if s.Has(p.Src) {
		return p.Dst
	}
	return p.Src
}

// Check returns an error that names the invalid address, Self4 or Self6.
func (s Self) Check() error {
	if err := CheckAddr("Self4", s.V4, true); err != nil {
		return err
	}
	return CheckAddr("Self6", s.V6, false)
}

// Needed is Check for a role that cannot work without an address.
func (s Self) Needed() error {
	if s == (Self{}) {
		return errors.New("neither Self4 nor Self6 is given")
	}
	return s.Check()
}

// CheckAddr returns an error for an address that is given and is not one of its family that others can reach.
func CheckAddr(name string, a netip.Addr, is4 bool) error {
	if a.IsValid() && (a.Is4() != is4 || a.Zone() != "" || rocev2.CheckAnswerable(a) != nil) {
		return fmt.Errorf("%s %v is not a unicast address of its family that others can reach", name, a)
	}
	return nil
}

// CheckRate returns an error for a rate that cannot be a limit, such as a Burst without PerSecond.
func CheckRate(name string, r node.Rate) error {
	switch {
	case math.IsNaN(r.PerSecond) || math.IsInf(r.PerSecond, 0):
		return fmt.Errorf("%s: PerSecond %v is no finite number", name, r.PerSecond)
	case r.PerSecond < 0 || r.Burst < 0:
		return fmt.Errorf("%s %+v is negative", name, r)
	case r.Burst > 0 && r.PerSecond == 0:
		return fmt.Errorf("%s has a Burst without PerSecond", name)
	}
	return nil
}

// CheckTime returns an error for a negative duration.
func CheckTime(name string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s %v is negative", name, d)
	}
	return nil
}

// Memory has the sizes of a role's tables, and the seed of their hashes. They are set when the role is first enabled,
// and do not change afterwards.
type Memory struct {
	sizes [5]int
	seed  uint64
	taken bool
}

// Configure checks the Config of a role that is on, and takes the sizes and the seed from it. It returns the first of
// these errors, or one about the sizes, with the name of the package; then nothing has changed. If first is true, the
// role must allocate its tables now. A Seed of 0 stands for a random one, or for the one in use.
func (m *Memory) Configure(pkg string, seed uint64, sizes []Size, errs ...error) (first bool, err error) {
	next, err := m.checkSizes(seed, sizes)
	if err = cmp.Or(cmp.Or(errs...), err); err != nil {
		return false, fmt.Errorf("%s: %w", pkg, err)
	}
	first, *m = !m.taken, next
	return first, nil
}

func (m *Memory) checkSizes(seed uint64, sizes []Size) (next Memory, err error) {
	next = Memory{seed: seed, taken: true}
	for i, s := range sizes {
		switch {
		case s.N < 0:
			return next, fmt.Errorf("%s %d is negative", s.Name, s.N)
		case s.N > MaxSize:
			return next, fmt.Errorf("%s %d is over the maximum, %d", s.Name, s.N, MaxSize)
		}
		if next.sizes[i] = s.N; s.N == 0 {
			next.sizes[i] = s.Default
		}
		if m.taken && next.sizes[i] != m.sizes[i] {
			return next, fmt.Errorf("%s cannot change: memory was taken for %d", s.Name, m.sizes[i])
		}
	}
	switch {
	case m.taken && seed != 0 && seed != m.seed:
		return next, errors.New("the Seed cannot change: tables are in use")
	case m.taken:
		next.seed = m.seed
	case seed == 0:
		next.seed = rand.Uint64()
	}
	return next, nil
}

// Latest is the time of the packet before, for which the zero Time stands. A limit alone does not know it: many packets
// never come to a limit.
type Latest struct{ at time.Time }

// Or returns now, or the time of the packet before if now is zero.
func (l *Latest) Or(now time.Time) time.Time {
	if now.IsZero() {
		return l.at
	}
	l.at = now
	return now
}

// RequestOf returns the request of a PPFC.
func RequestOf(t ppfc.Type) node.Request { return requests[t] }

// requests has the requests by type of PPFC.
var requests = [...]node.Request{
	ppfc.Resume: node.RequestResume, ppfc.Stop: node.RequestStop, ppfc.Hold: node.RequestHold,
	ppfc.Alarm: node.RequestAlarm,
}

// MaxSize is the maximum of a size, such that no table has more than a few GB.
const MaxSize = 1 << 26

// CheckCarriage returns an error for a Carriage with which no packet can be built.
func CheckCarriage(name string, c rocev2.Carriage) error {
	if _, _, err := answer.IPFields(&c); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// CheckFastCNP returns an error for a Config with which no Fast CNP can be built, or with option types that the draft
// forbids, which every role rejects (D21). name is the name of the field that holds it, with a dot, or empty if its
// fields belong to the role's own Config.
func CheckFastCNP(name string, c fastcnp.Config) error {
	for _, t := range [...]ipv6opt.Type{c.CodePoints.Option1, c.CodePoints.Option2} {
		if t != 0 && (t.Action() != ipv6opt.ActionDiscardICMP || t.MayChange()) {
			return fmt.Errorf("%sCodePoints: option type %#02x: its act bits must be 10, its chg bit 0", name,
				uint8(t))
		}
	}
	switch {
	case c.Long > fastcnp.LongTraceFallBack:
		return fmt.Errorf("%sLong %d: want LongTraceReject, LongTraceTrim or LongTraceFallBack", name, c.Long)
	case c.Coverage > icrc.Skipped:
		return fmt.Errorf("%sCoverage %d: want AsSent, Without or Skipped", name, c.Coverage)
	}
	return CheckCarriage(name+"Carriage", c.Carriage)
}

// Size returns the i-th of the sizes given to Configure, or its default.
func (m *Memory) Size(i int) int { return m.sizes[i] }

// Seed returns the seed.
func (m *Memory) Seed() uint64 { return m.seed }

// A Size is the number of entries that a table has. An N of 0 stands for the default.
type Size struct {
	Name       string // in the Config
	N, Default int
}

// An Intake checks the messages of other nodes before they are read: that the role is on and the message for it, the
// access list, the rate of each source, and that of all. Everybody can send messages, so these checks cost little, and
// a message is charged to the rates before anything in it is looked at.
type Intake struct {
	On   bool // the role is
	Self Self // where messages are sent to

	accept *acl.List
	seed   uint64
	from   *limit.Buckets // by source
	all    *limit.Shared  // by source
}

// Configure sets the rules. The state of the limits stays.
func (i *Intake) Configure(accept *acl.List, all, perSource node.Rate, maxSources int, seed uint64) {
	i.accept, i.seed = accept, seed
	i.from, i.all = i.from.With(limit.Rate(perSource), maxSources), i.all.With(limit.Rate(all))
}

// Message looks for a message, a UDP datagram to a port, and reports whether there is one. It sets q, and in d the
// kind, the source, and the reason if the message is not to be read.
func (i *Intake) Message(
	d *node.Decision, q *rocev2.Datagram, f *rocev2.Frame, port uint16, kind message.Kind, now time.Time,
) bool {
	reason := ToPort(q, f, port)
	if reason == node.ReasonNotOurs {
		return false
	}
	d.Packet, d.Reason = kind, reason
	if i.Check(d, q, now); d.Reason == node.NoReason && q.VerifyChecksum() != nil {
		d.Reason = node.ReasonChecksum
	}
	return true
}

// Check sets the source of a message, and the reason if it is not to be read. A reason that d has already stands for
// a message of which q is not set.
func (i *Intake) Check(d *node.Decision, q *rocev2.Datagram, now time.Time) {
	if d.Reason == node.NoReason {
		d.From = q.Src
	}
	switch {
	case !i.On:
		d.Reason = node.ReasonDisabled
	case d.Reason != node.NoReason:
	case !i.Self.Has(q.Dst):
		d.Reason = node.ReasonNotOurs
	case len(q.Outer) > 0:
		d.Reason = node.ReasonTunnelled
	default:
		if d.Reason = i.Admit(q.Src, now); d.Reason == node.NoReason && q.Truncated {
			d.Reason = node.ReasonBroken
		}
	}
}

// Admit returns ReasonDenied or Limited for a message that is not to be read; otherwise NoReason, and the message is
// charged to its source and to all. A message that one limit rejects is not charged to the other.
func (i *Intake) Admit(src netip.Addr, now time.Time) node.Reason {
	if !i.accept.Contains(src) {
		return node.ReasonDenied
	}
	var key uint64
	if i.from != nil || i.all != nil {
		key = Hash(&qpmap.Key{FlowKey: rocev2.FlowKey{Src: src}}, i.seed)
	}
	if !i.from.Ready(key, now) || !i.all.Ready(key, now) {
		return node.ReasonLimited
	}
	i.from.Charge(key, now)
	i.all.Charge(key, now)
	return node.NoReason
}

// A Pace limits the messages that a role sends or accepts: it has the least time between two of the same key, and the
// rate of all. Only Charge charges a message to them.
type Pace struct {
	each *limit.Every // by key
	all  *limit.Shared
	seed uint64
}

// A Source is the source of the packets that messages are about. The limit on all messages gives each prefix of
// sources, /64 or /24, in each domain a part of its own.
type Source struct {
	Addr   netip.Addr
	Domain uint32
}

// SourceOf returns the source of a flow.
func SourceOf(k *qpmap.Key) Source { return Source{k.Src, k.Domain} }

// Share returns the key of the source's prefix in a [limit.Shared].
func (s Source) Share(seed uint64) uint64 {
	k := flowtable.Key{Src: s.Addr.As16(), Domain: s.Domain}
	if host := k.Src[15:]; s.Addr.Is4() {
		clear(host)
	} else {
		clear(k.Src[8:])
	}
	return k.Hash(seed)
}

// Configure sets the rate of all messages. If interval is above 0, it allocates room for the last times of maxKeys keys
// once. The state of the limits is kept.
func (p *Pace) Configure(all node.Rate, interval time.Duration, maxKeys int, seed uint64) {
	p.seed = seed
	if p.all = p.all.With(limit.Rate(all)); p.each == nil && interval > 0 {
		p.each = limit.NewEvery(maxKeys)
	}
}

// Ready reports whether both limits let one of a key pass, about packets of a source.
func (p *Pace) Ready(key uint64, from Source, interval time.Duration, now time.Time) bool {
	each := p.each.Ready(key, interval, now)
	return (p.all == nil || p.all.Ready(from.Share(p.seed), now)) && each // both see the time, should it jump back
}

// ReadyKey is Ready without the limit on all messages.
func (p *Pace) ReadyKey(key uint64, interval time.Duration, now time.Time) bool {
	return p.each.Ready(key, interval, now)
}

// ChargeDebt is Charge for a message to which the limit on all messages does not apply: later ones that it applies to
// have to wait for it.
func (p *Pace) ChargeDebt(key uint64, now time.Time) {
	p.each.Record(key, now)
	p.all.ChargeDebt(now)
}

// Charge charges one of a key, about a packet of a source.
func (p *Pace) Charge(key uint64, from Source, now time.Time) {
	p.each.Record(key, now)
	if p.all != nil {
		p.all.Charge(from.Share(p.seed), now)
	}
}
