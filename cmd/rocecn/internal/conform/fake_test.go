package conform

import (
	"context"
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/reaction"
)

// A memoryRig is a rig in memory with a clock of its own, which advances only while the tester waits.
type memoryRig struct {
	clock   time.Time
	device  model
	pending []arrival // by time

	deliver func(port int, frame []byte) // sends frames of the device on a network; nil: they are pending

	fault *fault        // in the way of the device's packets; nil: none
	busy  time.Duration // by which the machine of the tester is late

	lostFrames  uint64        // more at each call of lost
	lostCount   uint64        // frames lost so far
	isBusy      func() bool   // reports whether the machine is late now; nil: always
	commands    int           // that have begun
	commandTime time.Duration // that each takes
}

// A model is a device in memory.
type model interface {
	// receive processes a frame of the tester.
	receive(r *memoryRig, port int, frame []byte)
	// advance does the work that is due at the time of the rig.
	advance(r *memoryRig)
}

func (r *memoryRig) now() time.Time { return r.clock }

func (r *memoryRig) send(port int, frame []byte) error {
	if r.fault != nil && r.fault.in != nil {
		if frame = r.fault.in(r, port, slices.Clone(frame)); frame == nil {
			return nil
		}
	}
	r.device.receive(r, port, frame)
	return nil
}

// emit delivers a frame of the device to the tester after a delay.
func (r *memoryRig) emit(port int, frame []byte, delay time.Duration) {
	if r.deliver != nil {
		r.deliver(port, frame)
		return
	}
	if r.fault != nil && r.fault.out != nil {
		for _, a := range r.fault.out(r, port, frame) {
			r.insert(arrival{a.port, r.clock.Add(delay), a.frame})
		}
		return
	}
	r.insert(arrival{port, r.clock.Add(delay), frame})
}

func (r *memoryRig) insert(a arrival) {
	i := len(r.pending)
	for i > 0 && r.pending[i-1].at.After(a.at) {
		i--
	}
	r.pending = slices.Insert(r.pending, i, a)
}

func (r *memoryRig) receive(until time.Time) ([]arrival, error) {
	for {
		r.device.advance(r)
		n := 0
		for n < len(r.pending) && !r.pending[n].at.After(r.clock) {
			n++
		}
		if n > 0 {
			list := slices.Clone(r.pending[:n])
			r.pending = slices.Delete(r.pending, 0, n)
			return list, nil
		}
		if !r.clock.Before(until) {
			return nil, nil
		}
		next := r.clock.Add(time.Millisecond)
		if next.After(until) {
			next = until
		}
		if len(r.pending) > 0 && r.pending[0].at.Before(next) {
			next = r.pending[0].at
		}
		r.clock = next
	}
}

func (r *memoryRig) start([]string) (func() error, error) {
	return nil, errors.New("there are no such commands in memory")
}

// finish implements [rig]. The commands are "enable" and "disable" for the role of the device, and "true".
func (r *memoryRig) finish(command []string, _ time.Duration, receive func() bool) error {
	r.commands++
	for end := r.clock.Add(r.commandTime); r.clock.Before(end) && receive(); {
	}
	switch command[0] {
	case "enable", "disable":
		r.device.(interface{ enable(on bool) }).enable(command[0] == "enable")
	case "true":
	default:
		return errors.New("there are no such commands in memory")
	}
	return nil
}

// late implements [rig]: the clock is in memory.
func (r *memoryRig) late(time.Time) time.Duration {
	if r.isBusy != nil && !r.isBusy() {
		return 0
	}
	return r.busy
}

// lost implements [rig].
func (r *memoryRig) lost() uint64 {
	r.lostCount += r.lostFrames
	return r.lostCount
}

func (r *memoryRig) close() {}

// The hardware addresses in memory: the tester's and the device's on each port.
func testerMAC(port int) mac { return mac{2, 0, 0, 0, 1, uint8(port)} }
func deviceMAC(port int) mac { return mac{2, 0, 0, 0, 2, uint8(port)} }

// A router is a model that forwards between the ports 0, sender, 1, receiver, and 2, control. Its port to the receivers
// has a queue.
type router struct {
	restart func(on bool) // switches the role on or off
	driver  roles.Driver
	queue   bool // the role is about the packets in the queue

	tunnelQueue bool // the role is about packets before they enter the tunnel, which has the queue
	self        []netip.Addr
	busy        time.Time // until then the port to the receivers sends
	congested   bool
	packets     [][]byte // that the role sends
	mark        bool     // the role asks for a mark
	action      node.Action
}

func newRouter(t testing.TB, role, config string, self ...string) *router {
	m := &router{queue: role == "switch", tunnelQueue: role == "ingress"}
	for _, a := range self {
		m.self = append(m.self, netip.MustParseAddr(a))
	}
	start := func(config string) {
		m.driver = driverOf(t, role, config)
		m.driver.Report = func(d *node.Decision, packet []byte, _ bool) {
			m.mark, m.action = d.MarkECN, d.Action
			if len(packet) > 0 {
				m.packets = append(m.packets, slices.Clone(packet))
			}
		}
	}
	m.restart = func(on bool) {
		text := "enabled = true"
		if !on {
			text = "enabled = false"
		}
		start(regexp.MustCompile("enabled = (true|false)").ReplaceAllString(config, text))
	}
	start(config)
	return m
}

// enable switches the role on or off.
func (m *router) enable(on bool) { m.restart(on) }

func driverOf(t testing.TB, role, config string) roles.Driver {
	t.Helper()
	i := wiretest.Must(roles.Read([]byte("[role."+role+"]\n"+config), role))(t)
	i.Config.Rehearse(1)
	return roles.Driver{Role: wiretest.Must(i.Apply(nil))(t), Encapsulations: i.Config.Encapsulations()}
}

// Properties of the queue.
const (
	queueRate  = 10e6
	queueLimit = 60000
)

var queueLevels = []float64{5000, 15000, 30000}

func portTo(dst netip.Addr) int {
	switch s := dst.String(); {
	case strings.HasPrefix(s, "2001:db8:a:"), strings.HasPrefix(s, "10.10."), s == "2001:db8:1::a":
		return 0
	case strings.HasPrefix(s, "2001:db8:f:"), strings.HasPrefix(s, "10.15."), strings.HasPrefix(s, "2001:db8:e:"):
		return 1
	}
	return 2
}

func (m *router) receive(r *memoryRig, port int, frame []byte) {
	m.advance(r)
	p, _ := readFrame(frame, []uint16{portVXLAN})
	if p == nil || mac(frame[:6]) != deviceMAC(port) {
		return
	}
	record := &capture.Record{Data: frame, OrigLen: uint32(len(frame)), Time: r.clock, Link: capture.Ethernet}
	own := slices.Contains(m.self, p.dst)
	m.action = node.NoAction
	if m.tunnelQueue && !own && portTo(p.dst) == 1 && !m.enqueueTunnelled(r, record, len(p.ip)) {
		return
	}
	if own || !m.queue {
		m.driver.Receive(record, node.Event{Observe: !own && m.observes()})
	}
	switch {
	case own && p.inner != nil: // the end of a tunnel
		m.route(r, slices.Clone(p.inner.ip))
	case !own && m.action != node.ActionDropped && m.action != node.ActionForwarded:
		ip := slices.Clone(p.ip)
		if m.queue && portTo(p.dst) == 1 {
			m.enqueue(r, record, ip)
		} else {
			m.route(r, ip)
		}
	}
	m.flush(r)
}

// observes reports whether the role only learns from packets that it does not have to forward or to answer.
func (m *router) observes() bool { _, ok := m.driver.Role.(*roles.Proxy); return ok }

// enqueue puts a packet into the queue to the receivers.
func (m *router) enqueue(r *memoryRig, record *capture.Record, ip []byte) {
	if m.busy.Before(r.clock) {
		m.busy = r.clock
	}
	depth := m.busy.Sub(r.clock).Seconds()*queueRate/8 + float64(len(ip))
	if depth > queueLimit {
		return
	}
	m.busy = m.busy.Add(time.Duration(float64(len(ip)) * 8 / queueRate * 1e9))
	level := uint8(0)
	for _, l := range queueLevels {
		if depth > l {
			level++
		}
	}
	if m.mark = false; level > 0 {
		m.congested = true
		m.driver.Receive(record, node.Event{Level: level})
	}
	if m.mark {
		if ip[0]>>4 == 6 {
			ip[1] |= 0x30
		} else {
			ip[1] |= 3
			ip = appendIPv4(nil, netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:])), ip[1], ip[9],
				ip[20:])
		}
	}
	m.transmit(r, 1, ip, m.busy.Sub(r.clock))
}

// enqueueTunnelled puts a packet into the queue of the tunnel, and gives it to the role if the queue is long. It
// reports whether the packet was not dropped.
func (m *router) enqueueTunnelled(r *memoryRig, record *capture.Record, octets int) bool {
	if m.busy.Before(r.clock) {
		m.busy = r.clock
	}
	depth := m.busy.Sub(r.clock).Seconds() * queueRate / 8
	if depth > queueLimit {
		return false
	}
	m.busy = m.busy.Add(time.Duration(float64(octets) * 8 / queueRate * 1e9))
	if depth > queueLevels[0] { // the role of the tool leaves its own queue to others
		d := m.driver
		d.Role = m.driver.Role.(*roles.Ingress).Role
		d.Receive(record, node.Event{Level: 1})
	}
	return true
}

// route forwards a packet with one hop less.
func (m *router) route(r *memoryRig, ip []byte) {
	m.transmit(r, portTo(readIP(ip, nil, 1).dst), ip, 20*time.Microsecond)
}

func (m *router) transmit(r *memoryRig, port int, ip []byte, delay time.Duration) {
	if ip[0]>>4 == 6 {
		ip[7]--
	}
	r.emit(port, appendEthernet(nil, testerMAC(port), deviceMAC(port), 0, ip), delay)
}

// flush sends the packets of the role.
func (m *router) flush(r *memoryRig) {
	for _, ip := range m.packets {
		port := portTo(readIP(ip, nil, 1).dst)
		r.emit(port, appendEthernet(nil, testerMAC(port), deviceMAC(port), 0, ip), 50*time.Microsecond)
	}
	m.packets = nil
}

func (m *router) advance(r *memoryRig) {
	if m.congested && !m.busy.After(r.clock) {
		m.congested = false
		m.driver.Role.Receive(nil, nil, node.Event{Now: r.clock})
	}
	m.driver.Due(r.clock)
	m.flush(r)
}

// A hostModel is a host on port 0: a receiver, or a sender with traffic of its own.
type hostModel struct {
	*router
	flows []hostFlow

	kernel bool // the kernel of the host rejects unknown options
}

type hostFlow struct {
	flow
	next time.Time
}

// lineRate is the rate of each flow of the host, in bits a second.
const lineRate = 4e6

func newHostModel(t testing.TB, role, config string, flows ...flow) *hostModel {
	m := &hostModel{router: newRouter(t, role, config, "2001:db8:d::1", "10.13.0.1")}
	for _, f := range flows {
		m.flows = append(m.flows, hostFlow{flow: f})
	}
	return m
}

func (m *hostModel) receive(r *memoryRig, port int, frame []byte) {
	p, _ := readFrame(frame, nil)
	if p == nil {
		return
	}
	record := &capture.Record{Data: frame, OrigLen: uint32(len(frame)), Time: r.clock, Link: capture.Ethernet}
	m.driver.Receive(record, node.Event{})
	if o := p.options(protocolOptions); len(o) > 0 && o[0].kind>>6 == 2 && o[0].kind != 0x9E && !m.kernel {
		n := &seen{packet: p}
		ip := rejectionOf(n, p.dst)
		r.emit(0, appendEthernet(nil, testerMAC(0), deviceMAC(0), 0, ip), 50*time.Microsecond)
	}
	for _, ip := range m.packets {
		r.emit(0, appendEthernet(nil, testerMAC(0), deviceMAC(0), 0, ip), 50*time.Microsecond)
	}
	m.packets = nil
}

func (m *hostModel) advance(r *memoryRig) {
	var rates *reaction.Table
	if s, ok := m.driver.Role.(*roles.Sender); ok {
		rates = s.Rates()
	}
	for i := range m.flows {
		f := &m.flows[i]
		if f.next.IsZero() {
			f.next = r.clock.Add(time.Duration(i) * time.Millisecond)
		}
		for !f.next.After(r.clock) {
			rate := uint64(lineRate)
			if f.src.Is4() {
				rate /= 2 // a flow of IPv6 is the fastest one
			}
			if rates != nil {
				o := rates.Now(reaction.FlowID{Dst: f.dst, DestQP: f.destQP}, r.clock)
				if o.Stop > 0 {
					f.next = r.clock.Add(min(o.Stop, time.Millisecond))
					continue
				}
				rate = min(rate, o.Rate)
			}
			f.psn++
			ip := f.appendIP(nil)
			record := &capture.Record{Data: ip, OrigLen: uint32(len(ip)), Time: r.clock, Link: capture.Raw}
			m.driver.Receive(record, node.Event{})
			r.emit(0, appendEthernet(nil, testerMAC(0), deviceMAC(0), 0, ip), 10*time.Microsecond)
			f.next = f.next.Add(time.Duration(float64(len(ip)+ethernetSize) * 8 / float64(rate) * 1e9))
			if late := r.clock.Add(-20 * time.Millisecond); f.next.Before(late) {
				f.next = late // at most these are made up for
			}
		}
	}
}

// inMemory runs the suite against a model, and returns the results by case.
func inMemory(t testing.TB, profile string, m model, f *fault, ids ...string) map[string]result {
	t.Helper()
	results := map[string]result{}
	runInMemory(t, profile, m, f, ids, func(r result) { results[r.Case] = r })
	return results
}

// runInMemory runs the suite against a model. Each case ends within the time limit.
func runInMemory(t testing.TB, profile string, m model, f *fault, ids []string, report func(r result)) {
	t.Helper()
	runWithRig(t, profile, &memoryRig{device: m, fault: f}, ids, report)
}

// runWithRig runs the suite against the model of a rig. Each case ends within the time limit, and the commands.
func runWithRig(t testing.TB, profile string, r *memoryRig, ids []string, report func(r result)) {
	t.Helper()
	p := wiretest.Must(readProfile([]byte(profile), ""))(t)
	for i := range p.Ports {
		p.Ports[i].MAC.mac, p.Ports[i].NeighbourMAC.mac = testerMAC(i), deviceMAC(i)
	}
	r.clock = time.Unix(1_800_000_000, 0).UTC()
	s := &suite{ctx: context.Background(), profile: p, rig: r}
	err := s.run(wiretest.Must(choose(p.Device.Role, ids))(t), "", func(res result) error {
		report(res)
		limit := p.Time.Case.Seconds() + p.Time.Settle.Seconds() + 1 + 2*r.commandTime.Seconds()
		if res.Seconds > limit {
			t.Errorf("%s took %.1f s: want at most %.1f s", res.Case, res.Seconds, limit)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A fault is between the device and the tester.
type fault struct {
	// in changes a frame to the device, or returns nil to drop it.
	in func(r *memoryRig, port int, frame []byte) []byte
	// out returns the frames that arrive in place of one of the device.
	out func(r *memoryRig, port int, frame []byte) []arrival
}

func hostOfText(text string) netip.Addr { return netip.MustParseAddr(text) }
