package shape

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/bpf"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/tc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var (
	self, self4 = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.1")
	far, far4   = netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("192.0.2.2")
)

// frameTo returns a frame of this length of a flow.
func frameTo(t *testing.T, f Flow, op bth.Opcode, length int) []byte {
	t.Helper()
	p := rocev2.Packet{Datagram: rocev2.Datagram{Src: self, Dst: f.Dst, SrcPort: 0xC123, DstPort: rocev2.Port}}
	ethertype, headers := []byte{0x86, 0xDD}, 14+40+8+12+4
	if f.Dst.Is4() {
		p.Src, ethertype, headers = self4, []byte{8, 0}, 14+20+8+12+4
	}
	p.BTH.Header = bth.Header{Opcode: op, PKey: 0xFFFF, DestQP: f.DestQP}
	// The payload and extended headers are octets that the program does not read.
	octets := make([]byte, length-headers)
	ip := wiretest.Must(p.AppendBinary(nil))(t)
	header := ip[:headers-14-4]
	frame := append(append(append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}, ethertype...), header...), octets...)
	frame = append(frame, 0, 0, 0, 0)
	if f.Dst.Is4() {
		binary.BigEndian.PutUint16(frame[16:], uint16(length-14))
		binary.BigEndian.PutUint16(frame[14+20+4:], uint16(length-14-20))
	} else {
		binary.BigEndian.PutUint16(frame[18:], uint16(length-14-40))
		binary.BigEndian.PutUint16(frame[14+40+4:], uint16(length-14-40))
	}
	return frame
}

// loaded returns a Shaper without interfaces.
func loaded(t *testing.T, flows int) *Shaper {
	t.Helper()
	wiretest.Namespace(t, "link set lo up\n")
	s := wiretest.Must(Open(Config{MaxFlows: flows}))(t)
	t.Cleanup(func() { s.Close() })
	s.lend(t)
	return s
}

// lend lets orders apply for as long as a test takes on a busy machine.
func (s *Shaper) lend(t *testing.T) {
	t.Helper()
	require.NoError(t, s.objects.Lease.Put(uint32(0), uint64(math.MaxUint64)))
}

// leaves runs the program on a frame with a wanted departure time, and returns its departure time.
func (s *Shaper) leaves(t *testing.T, frame []byte, wanted uint64) uint64 {
	t.Helper()
	context, after := make([]byte, 192), make([]byte, 192) // struct __sk_buff
	const tstamp = 152
	binary.NativeEndian.PutUint64(context[tstamp:], wanted)
	verdict := wiretest.Must(s.objects.Shape.Run(&ebpf.RunOptions{Data: frame, Context: context, ContextOut: after}))(t)
	require.Equal(t, uint32(math.MaxUint32), verdict, "goes on")
	return binary.NativeEndian.Uint64(after[tstamp:])
}

// setClock sets the clock of a flow.
func (s *Shaper) setClock(t *testing.T, f Flow, c clock) {
	t.Helper()
	b := make([]byte, clockSize)
	ne := binary.NativeEndian
	ne.PutUint32(b[4:], c.fraction)
	ne.PutUint64(b[8:], c.next)
	ne.PutUint64(b[16:], c.responded)
	ne.PutUint64(b[24:], c.octets)
	require.NoError(t, s.objects.Clocks.Put(s.flows[f].slot, b))
}

func (s *Shaper) clockOf(t *testing.T, f Flow) clock {
	t.Helper()
	return wiretest.Must(s.readClock(s.flows[f].slot))(t)
}

// atOnce runs the program on a frame, and checks that it may leave immediately.
func (s *Shaper) leavesNow(t *testing.T, frame []byte) {
	t.Helper()
	before := uint64(bpf.Monotonic())
	at := s.leaves(t, frame, 0)
	require.GreaterOrEqual(t, at, before)
	require.LessOrEqual(t, at, uint64(bpf.Monotonic()))
}

const second = uint64(time.Second)

// Packets of random lengths leave when the earlier ones have taken their time at the rate, from the lowest rate to
// 800 Gbit/s. Exact fractions give the expected times: to the nanosecond, except for 2⁻¹⁹ of the time, as the
// kernel counts 2⁻²⁴ ns per octet.
func TestDepartures(t *testing.T) {
	s := loaded(t, 16)
	r := rand.New(rand.NewPCG(26, 2))
	for i, rate := range []uint64{1_000_000, 25_000_000, 999_999_937, 10e9, 100e9, 400e9, 800e9} {
		f := Flow{[]netip.Addr{far, far4}[i%2], 0x000100 + uint32(i)}
		require.NoError(t, s.Set(f, Order{Rate: rate}))
		start := uint64(bpf.Monotonic()) + 4*second
		s.setClock(t, f, clock{next: start})
		sent := int64(0)
		for range 200 {
			exact := new(big.Rat).Mul(big.NewRat(sent*8, 1), new(big.Rat).SetFrac64(1e9, int64(rate)))
			ns, _ := exact.Float64()
			at := s.leaves(t, frameTo(t, f, bth.RCRDMAWriteMiddle, 1100), 0)
			require.InDelta(t, ns, float64(at-start), 1+ns/(1<<19), "%d bit/s", rate)
			sent += 1100
			length := 200 + r.IntN(2000)
			s.leaves(t, frameTo(t, f, bth.UDSendOnly, length), 0)
			sent += int64(length)
		}
		require.EqualValues(t, sent, s.clockOf(t, f).octets)
	}
	require.Equal(t, Shaped{Delayed: 7 * 400}, s.Counters())
}

// By hand: at 400 Gbit/s an octet takes 0.02 ns, or 335,544 of the kernel's units of 2⁻²⁴ ns.
func TestFractions(t *testing.T) {
	s := loaded(t, 1)
	f := Flow{far, 0x17}
	require.NoError(t, s.Set(f, Order{Rate: 400e9}))
	start := uint64(bpf.Monotonic()) + 4*second
	s.setClock(t, f, clock{next: start, fraction: 1<<24 - 1})
	require.Equal(t, start, s.leaves(t, frameTo(t, f, bth.RCSendOnly, 1000), 0))
	// 2^24 - 1 + 335,544,000 = 352,321,215 = 20 · 2^24 + 16,776,895
	require.Equal(t, clock{next: start + 20, fraction: 16_776_895, octets: 1000}, s.clockOf(t, f))

	for _, c := range []struct{ rate, cost uint64 }{
		{0, 0}, {1, 134_217_728_000_000}, {MinRate, 134_217_728_000_000}, {1e9, 8 << 24}, {400e9, 335_544},
		{1 << 50, 119}, {math.MaxUint64, 1},
	} {
		t.Run(fmt.Sprint(c.rate), func(t *testing.T) {
			require.Equal(t, c.cost, octetCost(c.rate), c.rate)
			require.Less(t, c.cost, uint64(1)<<47, "with 2^16 octets below 2^64")
		})
	}
}

// Nothing overflows, and no wrong clock delays a flow for long: the highest cost, and times in the past, at the
// maximum and beyond the horizon.
func TestWrongClocks(t *testing.T) {
	s := loaded(t, 1)
	f := Flow{far, 0x17}
	require.NoError(t, s.Set(f, Order{Rate: 1e9}))
	frame := frameTo(t, f, bth.RCSendOnly, 1000)
	for _, next := range []uint64{0, 1, uint64(bpf.Monotonic()), uint64(bpf.Monotonic()) + 3600*second,
		math.MaxUint64, math.MaxUint64 - 8000} {
		s.setClock(t, f, clock{next: next, fraction: 1<<24 - 1})
		before := uint64(bpf.Monotonic())
		at := s.leaves(t, frame, 0)
		require.GreaterOrEqual(t, at, before)
		require.LessOrEqual(t, at, uint64(bpf.Monotonic()))
		require.Equal(t, clock{next: at + 8000, octets: 1000}, s.clockOf(t, f), "8 µs later the next one")
	}

	const horizon = 9 * second
	require.NoError(t, s.writeOrder(f, s.flows[f].slot, 1<<47-1, math.MaxUint64)) // a stop that is none
	s.setClock(t, f, clock{fraction: 1<<24 - 1})
	before := uint64(bpf.Monotonic())
	at := s.leaves(t, frame, 0)
	require.GreaterOrEqual(t, at, before)
	require.LessOrEqual(t, at, uint64(bpf.Monotonic()))
	next := s.clockOf(t, f).next
	require.Equal(t, at+8_388_607_999, next, "1000·(2^47-1) of 2^-24 ns")
	require.Equal(t, next, s.leaves(t, frame, 0))
	require.Greater(t, s.clockOf(t, f).next, next)
	require.LessOrEqual(t, s.clockOf(t, f).next, uint64(bpf.Monotonic())+horizon)
	require.Equal(t, uint64(1), s.Counters().Capped)
}

// Two queue pairs of one destination, and one queue pair of two destinations, do not affect each other.
func TestFlowsAreApart(t *testing.T) {
	s := loaded(t, 3)
	a, b, c := Flow{far, 0x17}, Flow{far, 0x18}, Flow{far4, 0x17}
	require.NoError(t, s.Set(a, Order{Rate: 1e6}))
	require.NoError(t, s.Set(b, Order{Rate: 2e6}))
	start := uint64(bpf.Monotonic()) + 4*second
	s.setClock(t, a, clock{next: start})
	s.setClock(t, b, clock{next: start})
	for i := range uint64(10) {
		require.Equal(t, start+i*8_000_000, s.leaves(t, frameTo(t, a, bth.RCSendOnly, 1000), 0))
		require.Equal(t, start+i*4_000_000, s.leaves(t, frameTo(t, b, bth.RCSendOnly, 1000), 0))
		require.Zero(t, s.leaves(t, frameTo(t, c, bth.RCSendOnly, 1000), 0))
	}
	// Another rate applies from the next packet on; earlier packets keep their times.
	require.NoError(t, s.Set(a, Order{Rate: 8e6}))
	require.Equal(t, start+80_000_000, s.leaves(t, frameTo(t, a, bth.RCSendOnly, 1000), 0))
	require.Equal(t, start+81_000_000, s.leaves(t, frameTo(t, a, bth.RCSendOnly, 1000), 0))
}

// No data leaves during a stop. Waiting packets wait until its end, also with a resume, and stay in order. A later
// departure time stays.
func TestStopAndResume(t *testing.T) {
	s := loaded(t, 1)
	f := Flow{far4, 0x17}
	frame := frameTo(t, f, bth.RCSendOnly, 1000)
	require.NoError(t, s.Set(f, Order{Rate: 8e9, Stop: time.Hour}), "MaxStop")
	first := s.leaves(t, frame, 0)
	require.InDelta(t, uint64(bpf.Monotonic())+uint64(MaxStop), first, float64(4*time.Second))
	require.Greater(t, first, uint64(bpf.Monotonic()))
	require.Equal(t, first+1000, s.leaves(t, frame, 0))
	require.NoError(t, s.Set(f, Order{Rate: 8e9}))
	require.Equal(t, first+2000, s.leaves(t, frame, 0), "after the waiting ones")
	require.NoError(t, s.Set(f, Order{}))
	require.Equal(t, first+3000, s.leaves(t, frame, 0))
	require.Equal(t, first+3000, s.leaves(t, frame, 0), "at full rate")
	require.Equal(t, first+5000, s.leaves(t, frame, first+5000))
	require.Equal(t, Shaped{Stopped: 1, Delayed: 5}, s.Counters())

	s.setClock(t, f, clock{})
	require.NoError(t, s.Set(f, Order{Rate: 8e9}))
	s.leavesNow(t, frame)
}

// Packets of four stopped flows leave at the limits of their flows after the stop, without a burst, and so do those
// that come when the stop is extended. A higher limit applies to later packets. All packets get a time, in order.
func TestStopsWithoutBurst(t *testing.T) {
	const packets, octets, spacing = 16, 1100, 17_600_000 // ns, at 500,000 bit/s
	s := loaded(t, 4)
	var flows []Flow
	for i := range uint32(4) {
		f := Flow{far, 17 + i}
		flows = append(flows, f)
		require.NoError(t, s.Set(f, Order{}))
	}
	stop := uint64(bpf.Monotonic()) + 5*second
	last := map[Flow]uint64{}
	give := func(rate, stop uint64, first func(last uint64) uint64, spacing uint64) {
		t.Helper()
		for _, f := range flows {
			require.NoError(t, s.writeOrder(f, s.flows[f].slot, octetCost(rate), stop))
		}
		for i := range uint64(packets) {
			for _, f := range flows {
				at := s.leaves(t, frameTo(t, f, bth.RCRDMAWriteMiddle, octets), 0)
				if i == 0 {
					last[f] = first(last[f]) - spacing
				}
				require.InDelta(t, float64(last[f]+spacing), float64(at), 100, "packet %d", i)
				last[f] = at
			}
		}
	}
	give(500_000, stop, func(uint64) uint64 { return stop }, spacing)
	extended := stop + second
	give(500_000, extended, func(uint64) uint64 { return extended }, spacing)
	give(2_000_000, 0, func(last uint64) uint64 { return last + spacing }, spacing/4)
	require.Equal(t, Shaped{Stopped: 2 * 4, Delayed: 4 * (3*packets - 2)}, s.Counters())
	for _, f := range flows {
		require.EqualValues(t, 3*packets*octets, s.clockOf(t, f).octets)
	}
}

// Acknowledgements do not wait for data, but stay after read responses. CNPs do not wait.
func TestAnswers(t *testing.T) {
	s := loaded(t, 1)
	f := Flow{far, 0x17}
	require.NoError(t, s.Set(f, Order{Rate: 1e6}))
	start := uint64(bpf.Monotonic()) + 4*second
	s.setClock(t, f, clock{next: start})
	ack, atomic := frameTo(t, f, bth.RCAcknowledge, 80), frameTo(t, f, bth.RCAtomicAcknowledge, 90)
	require.Equal(t, start, s.leaves(t, frameTo(t, f, bth.RCRDMAWriteOnly, 1000), 0))
	s.leavesNow(t, ack)
	require.Equal(t, start+8_000_000, s.leaves(t, frameTo(t, f, bth.RCRDMAReadResponseOnly, 500), 0))
	require.Equal(t, start+12_000_000, s.leaves(t, frameTo(t, f, bth.RCRDMAWriteOnly, 1000), 0))
	require.Equal(t, start+8_000_000, s.leaves(t, ack, 0))
	require.Equal(t, start+8_000_000, s.leaves(t, atomic, 0))
	require.Equal(t, start+20_000_000, s.leaves(t, frameTo(t, f, bth.RCRDMAReadRequest, 100), 0))
	require.Zero(t, s.leaves(t, frameTo(t, f, bth.CNP, 94), 0))
	require.Equal(t, uint64(2600), s.clockOf(t, f).octets)

	require.NoError(t, s.Set(f, Order{Rate: 1e6, Stop: time.Second}))
	s.setClock(t, f, clock{})
	s.leavesNow(t, ack)
}

// Packets other than RoCEv2 of a flow with an order are left alone.
func TestOthers(t *testing.T) {
	s := loaded(t, 2)
	six, four := Flow{far, 0x17}, Flow{far4, 0x17}
	for _, f := range []Flow{six, four} {
		require.NoError(t, s.Set(f, Order{}))
	}
	for _, c := range []struct {
		name  string
		frame []byte
	}{
		{"another queue pair", frameTo(t, Flow{far, 0x18}, bth.RCSendOnly, 200)},
		{"another destination", frameTo(t, Flow{self, 0x17}, bth.RCSendOnly, 200)},
		{"cut", frameTo(t, six, bth.RCSendOnly, 200)[:14+40+15]},
		{"truncated, IPv4", frameTo(t, four, bth.RCSendOnly, 200)[:14+20+15]},
		{"TCP", changed(frameTo(t, six, bth.RCSendOnly, 200), 14+6, 6)},
		{"TCP, IPv4", changed(frameTo(t, four, bth.RCSendOnly, 200), 14+9, 6)},
		{"another port", changed(frameTo(t, six, bth.RCSendOnly, 200), 14+40+3, 0xB8)},
		{"more fragments", changed(frameTo(t, four, bth.RCSendOnly, 200), 14+6, 0x20)},
		{"fragment", changed(frameTo(t, four, bth.RCSendOnly, 200), 14+7, 1)},
		{"ARP", changed(frameTo(t, four, bth.RCSendOnly, 200), 13, 6)},
	} {
		t.Run(c.name, func(t *testing.T) { require.Zero(t, s.leaves(t, c.frame, 0)) })
	}
	require.Zero(t, s.Counters())
	s.leavesNow(t, changed(frameTo(t, four, bth.RCSendOnly, 200), 14+6, 0x40))     // may not be fragmented
	s.leavesNow(t, changed(frameTo(t, six, bth.RCSendOnly, 200), 14+40+8+8, 0xFF)) // bits that are reserved

	// With options the header is longer.
	options := frameTo(t, four, bth.RCSendOnly, 200)
	options = append(append(append([]byte{}, options[:14+20]...), 1, 1, 1, 1), options[14+20:]...)
	s.leavesNow(t, changed(options, 14, 0x46))
	require.Equal(t, Shaped{Passed: 3}, s.Counters())
}

func changed(frame []byte, at int, to byte) []byte {
	frame[at] = to
	return frame
}

// Without Tick orders expire.
func TestLease(t *testing.T) {
	s := loaded(t, 1)
	f := Flow{far, 0x17}
	require.NoError(t, s.Set(f, Order{Rate: 1e6}))
	s.leavesNow(t, frameTo(t, f, bth.RCSendOnly, 200))
	require.NoError(t, s.objects.Lease.Put(uint32(0), uint64(bpf.Monotonic())-1))
	require.Zero(t, s.leaves(t, frameTo(t, f, bth.RCSendOnly, 200), 0))
	require.NoError(t, s.Tick())
	require.NotZero(t, s.leaves(t, frameTo(t, f, bth.RCSendOnly, 200), 0))
}

// A forgotten flow continues at full rate after its waiting packets, and is then removed. MaxFlows flows have
// orders, each with its own clock.
func TestForget(t *testing.T) {
	s := loaded(t, 2)
	id := func(n uint32) Flow { return Flow{far, n} }
	wait := uint64(bpf.Monotonic()) + 8*second
	for n := range uint32(4) {
		require.NoError(t, s.Set(id(n), Order{Rate: 1e6}))
		s.setClock(t, id(n), clock{next: wait, octets: 7})
	}
	require.ErrorIs(t, s.Set(id(4), Order{Rate: 1e6}), errFull)
	s.Forget(id(0))
	s.Forget(id(0))
	s.Forget(id(9))
	require.NoError(t, s.Tick())
	s.lend(t)
	require.Len(t, s.flows, 4)
	require.Equal(t, wait, s.leaves(t, frameTo(t, id(0), bth.RCSendOnly, 1000), 0))
	require.Equal(t, wait, s.leaves(t, frameTo(t, id(0), bth.RCSendOnly, 1000), 0))

	// It may get an order again before that.
	require.NoError(t, s.Set(id(0), Order{Rate: 1e6}))
	require.NoError(t, s.Tick())
	s.lend(t)
	require.Equal(t, wait, s.clockOf(t, id(0)).next)
	s.Forget(id(0))
	s.setClock(t, id(0), clock{})
	require.NoError(t, s.Tick())
	s.lend(t)
	require.Len(t, s.flows, 3)
	require.Zero(t, s.leaves(t, frameTo(t, id(0), bth.RCSendOnly, 1000), 0))

	require.NoError(t, s.Set(id(4), Order{Rate: 1e6}))
	require.Zero(t, s.clockOf(t, id(4)))
	s.Forget(id(1)) // a slot is freed immediately for the next flow
	require.NoError(t, s.Set(id(5), Order{Rate: 1e6}))
	require.NotContains(t, s.flows, id(1))

	sent := map[Flow]uint64{}
	for range 2 {
		s.Sent(func(f Flow, octets uint64) { sent[f] += octets })
	}
	require.Equal(t, map[Flow]uint64{id(2): 7, id(3): 7}, sent)
}

// pair returns a host with eth0 and its other end, eth1.
func pair(t *testing.T) (eth0, eth1 int) {
	t.Helper()
	wiretest.Namespace(t, `link set lo up
link add eth0 type veth peer name eth1
link set eth0 up
link set eth1 up
`)
	for _, name := range []string{"eth0", "eth1"} {
		i := wiretest.Must(net.InterfaceByName(name))(t)
		eth0, eth1 = eth1, i.Index
	}
	return eth0, eth1
}

// arrive waits for n frames.
func arrive(t *testing.T, at netio.Source, n int) (frames [][]byte) {
	t.Helper()
	poll := wiretest.Must(netio.NewPoll(t.Context(), at))(t)
	defer poll.Close()
	wiretest.Await(t, "all arrive", func() bool {
		_, packets, err := poll.Next(100 * time.Millisecond)
		require.NoError(t, err)
		for i := range packets {
			frames = append(frames, bytes.Clone(packets[i].Data))
		}
		return len(frames) >= n
	})
	require.Len(t, frames, n)
	return frames
}

// programs returns the number of programs at egress of an interface.
func programs(t *testing.T, index int) int {
	t.Helper()
	n := 0
	if result, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXEgress}); err == nil {
		n = len(result.Programs)
	}
	out, err := exec.Command("tc", "filter", "show", "dev", "eth0", "egress").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return n + strings.Count(string(out), "rocecn")
}

// Real packets all arrive in order, the clocks count them, and no program is left.
func TestLive(t *testing.T) {
	for _, c := range []struct {
		name string
		tcx  bool
	}{{"tcx", true}, {"clsact", false}} {
		t.Run(c.name, func(t *testing.T) {
			tc.WithTCX = c.tcx
			defer func() { tc.WithTCX = true }()
			live(t)
		})
	}
}

// Another program has an object at the place of the shaper's filter. The error names the interface, and no program is
// left.
func TestNoPlaceForFilter(t *testing.T) {
	command := wiretest.Tool(t, "tc")
	for _, c := range []struct{ name, command, config, want string }{
		{"qdisc without egress", "qdisc add dev eth0 ingress", "CONFIG_NET_SCH_INGRESS",
			"eth0: qdisc ingress: want clsact (tc qdisc del dev eth0 ingress)"},
		{"filter of another kind", "filter add dev eth0 egress pref 4792 protocol all u32 match u32 0 0 classid 1:1",
			"CONFIG_NET_CLS_U32", "eth0: filter with preference 4792: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			eth0, _ := pair(t)
			tc.WithTCX = false
			defer func() { tc.WithTCX = true }()
			if strings.HasPrefix(c.command, "filter") {
				require.NoError(t, exec.Command(command, "qdisc", "add", "dev", "eth0", "clsact").Run())
			}
			if out, err := exec.Command(command, strings.Fields(c.command)...).CombinedOutput(); err != nil {
				wiretest.NotInKernel(t, c.config, c.command+": "+string(out))
			}
			s, err := Open(Config{Interfaces: []string{"eth0"}, MaxFlows: 4})
			if err == nil {
				s.Close()
			}
			require.ErrorContains(t, err, c.want)
			require.Zero(t, programs(t, eth0))
		})
	}
}

func live(t *testing.T) {
	eth0, _ := pair(t)
	at := wiretest.Must(netio.OpenPackets(netio.PacketConfig{Interface: "eth1"}))(t)
	defer at.Close()
	require.Zero(t, programs(t, eth0))
	s := wiretest.Must(Open(Config{Interfaces: []string{"eth0", "eth7"}, MaxFlows: 4}))(t)
	defer s.Close()
	require.Equal(t, 1, programs(t, eth0))
	s.lend(t)
	flows := []Flow{{far, 0x17}, {far, 0x18}, {far4, 0x17}, {far4, 0x18}}
	start := uint64(bpf.Monotonic()) + 4*second
	for _, f := range flows[:3] {
		require.NoError(t, s.Set(f, Order{Rate: 8e9}))
		s.setClock(t, f, clock{next: start})
	}
	socket := wiretest.NewSocket(t, eth0)
	const each = 100
	for i := range each {
		for _, f := range flows {
			frame := frameTo(t, f, bth.RCSendOnly, 1000)
			binary.BigEndian.PutUint32(frame[996:], uint32(i))
			socket.Send(t, frame)
		}
	}
	for n, frame := range arrive(t, at, each*len(flows)) {
		require.EqualValues(t, n/len(flows), binary.BigEndian.Uint32(frame[996:]))
	}
	for _, f := range flows[:3] {
		require.Equal(t, clock{next: start + each*1000, octets: each * 1000}, s.clockOf(t, f))
	}
	require.Equal(t, Shaped{Delayed: 3 * each}, s.Counters())

	// Interfaces come and go.
	require.NoError(t, s.Watch([]string{"eth1"}))
	require.Zero(t, programs(t, eth0))
	require.NoError(t, s.Watch([]string{"eth0", "eth1"}))
	require.NoError(t, s.Watch([]string{"eth0"}))
	require.Equal(t, 1, programs(t, eth0))
	require.NoError(t, s.Close())
	require.Zero(t, programs(t, eth0))
}

// If the kernel has fq, InstallFQ installs it unless another qdisc was configured. Paced packets wait there in
// order, and others do not. fq is removed again. Without fq in the kernel nothing changes.
func TestFQ(t *testing.T) {
	eth0, _ := pair(t)
	root, waits, err := CheckFQ("eth0")
	require.NoError(t, err)
	require.Equal(t, "noqueue", root)
	require.False(t, waits)
	_, _, err = CheckFQ("eth7")
	require.ErrorIs(t, err, netio.ErrNoInterface)
	_, err = InstallFQ("eth7")
	require.ErrorIs(t, err, netio.ErrNoInterface)

	tried := TryFQ("eth0")
	root, _, err = CheckFQ("eth0")
	require.NoError(t, err)
	require.Equal(t, "noqueue", root)
	remove, err := InstallFQ("eth0")
	require.Equal(t, err, tried)
	if errors.Is(err, unix.ENOENT) { // no module sch_fq
		root, _, err := CheckFQ("eth0")
		require.NoError(t, err)
		require.Equal(t, "noqueue", root)
		return
	}
	require.NoError(t, err)
	root, waits, err = CheckFQ("eth0")
	require.NoError(t, err)
	require.Equal(t, "fq", root)
	require.True(t, waits)

	at := wiretest.Must(netio.OpenPackets(netio.PacketConfig{Interface: "eth1"}))(t)
	defer at.Close()
	s := wiretest.Must(Open(Config{Interfaces: []string{"eth0"}, MaxFlows: 1}))(t)
	defer s.Close()
	s.lend(t)
	slow, fast := Flow{far, 0x17}, Flow{far, 0x18}
	require.NoError(t, s.Set(slow, Order{Rate: 1e6, Stop: 2 * time.Second}))
	socket := wiretest.NewSocket(t, eth0)
	for i := range 5 {
		for _, f := range []Flow{slow, fast} {
			frame := frameTo(t, f, bth.RCSendOnly, 1000)
			binary.BigEndian.PutUint32(frame[996:], uint32(i))
			// Each has its own UDP source port, as queue pairs of soft-RoCE do: fq distinguishes flows by it.
			binary.BigEndian.PutUint16(frame[14+40:], uint16(0xC000+f.DestQP))
			socket.Send(t, frame)
		}
	}
	for n, frame := range arrive(t, at, 10) {
		qp, i := binary.BigEndian.Uint32(frame[14+40+8+4:]), binary.BigEndian.Uint32(frame[996:])
		require.Equal(t, []int{0x18 - n/5, n % 5}, []int{int(qp), int(i)})
	}

	// A crashed process leaves fq, and the next one takes it over.
	_, err = InstallFQ("eth0")
	require.NoError(t, err)
	require.NoError(t, remove())
	root, _, err = CheckFQ("eth0")
	require.NoError(t, err)
	require.Equal(t, "noqueue", root)
	require.NoError(t, remove(), "it is gone")
}

// A configured qdisc is left alone, and so is a configured fq.
func TestFQKeepsOtherFlows(t *testing.T) {
	pair(t)
	out, err := exec.Command("tc", "qdisc", "add", "dev", "eth0", "root", "handle", "7:", "tbf",
		"rate", "1gbit", "burst", "10k", "limit", "10k").CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, err = InstallFQ("eth0")
	require.ErrorContains(t, err, "qdisc tbf was configured")
	require.Equal(t, err, TryFQ("eth0"))
	root, waits, err := CheckFQ("eth0")
	require.NoError(t, err)
	require.Equal(t, "tbf", root)
	require.False(t, waits)
}

func TestWaitsIn(t *testing.T) {
	mq := discipline{kind: "mq", parent: root}
	for _, c := range []struct {
		all  []discipline
		want bool
	}{
		{nil, false},
		{[]discipline{{kind: "fq", parent: root}}, true},
		{[]discipline{{kind: "fq_codel", parent: root}}, false},
		{[]discipline{mq}, false},
		{[]discipline{mq, {kind: "fq", parent: 1}, {kind: "fq", parent: 2}}, true},
		{[]discipline{{kind: "fq", parent: 1}, mq, {kind: "pfifo_fast", parent: 2}}, false},
	} {
		require.Equal(t, c.want, isPaced(findRoot(c.all), c.all), c.all)
	}
}
