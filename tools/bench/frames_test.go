package bench

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	sender   = netip.MustParseAddr("2001:db8:1::1")
	receiver = netip.MustParseAddr("2001:db8:4::e")
	loopback = netip.MustParseAddr("2001:db8:ffff::5") // of the congested switch
)

// frame puts an IPv6 packet just built into Ethernet.
func frame(b testing.TB, ip []byte, err error) []byte {
	require.NoError(b, err)
	return append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xDD}, ip...)
}

// congestion is the type of a trace with node, interfaces, time and queue depth: 5 words a node.
const congestion = ioam.BitNode | ioam.BitInterfaces | ioam.BitSeconds | ioam.BitFraction | ioam.BitQueueDepth

// trace returns the data of an IOAM option with the trace of so many nodes.
func trace(b testing.TB, typ ioam.TraceType, nodes int) []byte {
	t := ioam.Trace{Namespace: 123, Type: typ}
	for i := range nodes {
		var n ioam.Node
		n.SetNode(uint8(64-i), uint32(i))
		if typ == congestion {
			n.SetIngress(1)
			n.SetEgress(2)
			n.SetSeconds(1700000000)
			n.SetFraction(0)
			n.SetQueueDepth(uint32(i) << 10)
		}
		require.Equal(b, typ, n.Type())
		t.Data = wiretest.Must(n.AppendBinary(t.Data))(b)
	}
	return wiretest.Must(t.AppendBinary([]byte{0, uint8(ioam.OptTypePreallocated)}))(b)
}

// dataFrame is an RDMA WRITE Middle of 1024 octets over IPv6, with a trace of so
// many nodes in a Hop-by-Hop header, if any.
func dataFrame(b testing.TB, nodes int) []byte {
	p := rocev2.Packet{
		Datagram: rocev2.Datagram{Src: sender, Dst: receiver, TrafficClass: 2, HopLimit: 64, SrcPort: 49152,
			DstPort: rocev2.Port},
		BTH:     bth.Headers{Header: bth.Header{Opcode: bth.RCRDMAWriteMiddle, PKey: 0xFFFF, DestQP: 0x111111, PSN: 5}},
		Payload: make([]byte, 1024),
	}
	if nodes > 0 {
		w := ipv6opt.Begin(nil, 17)
		require.NoError(b, w.Add(ioam.IPv6MayChange, 4, 0, trace(b, congestion, nodes)))
		p.NextHeader, p.Ext = ipv6opt.HopByHop, w.Finish()
	}
	ip, err := p.AppendBinary(nil)
	return frame(b, ip, err)
}

// congested is dataFrame, decoded.
func congested(b testing.TB, nodes int) *rocev2.Packet {
	var p rocev2.Packet
	require.NoError(b, p.DecodeEthernet(dataFrame(b, nodes)))
	return &p
}

// run runs a benchmark that reports its allocations.
func run(b *testing.B, name string, f func(b *testing.B)) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		f(b)
	})
}

// check fails a benchmark after an error.
func check(b *testing.B, err error) {
	if err != nil {
		b.Fatal(err)
	}
}

// batch is so many frames at a time.
const batch = 64

// worker has the state that a core needs to answer frames. Cores share none of it.
type worker struct {
	p      rocev2.Packet
	out    []byte
	answer func(b []byte, congested *rocev2.Packet) ([]byte, error)
}

// do answers every frame of a batch, and appends the answers to w.out.
func (w *worker) do(frames [][]byte) error {
	w.out = w.out[:0]
	for _, frame := range frames {
		err := w.p.DecodeEthernet(frame)
		if err == nil {
			w.out, err = w.answer(w.out, &w.p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// jobs are the ways to answer.
func jobs() map[string]func(b []byte, congested *rocev2.Packet) ([]byte, error) {
	return map[string]func(b []byte, congested *rocev2.Packet) ([]byte, error){
		"Fast CNP": func(b []byte, p *rocev2.Packet) ([]byte, error) {
			out, _, err := fastcnp.AppendFor(b, p, loopback, nil, fastcnp.Config{})
			return out, err
		},
		"CNP": func(b []byte, p *rocev2.Packet) ([]byte, error) {
			// The receiver knows the queue pair of the sender.
			return cnp.AppendFor(b, p, p.Dst, p.BTH.DestQP^0x555555, cnp.Config{})
		},
	}
}

// frames returns a batch of data frames, each of another flow of the sender.
func frames(b testing.TB) [][]byte {
	all := make([][]byte, batch)
	for i := range all {
		all[i] = dataFrame(b, 0)
		const destQP, destination = 14 + 40 + 8 + 4, 14 + 24
		binary.BigEndian.PutUint32(all[i][destQP:], uint32(i)*0x10305)
		all[i][destination+15] = uint8(i)
	}
	return all
}

// BenchmarkBatch reads and answers data frames by the batch, on one core and on
// several; an op is a frame.
func BenchmarkBatch(b *testing.B) {
	frames, jobs := frames(b), jobs()
	for _, name := range []string{"Fast CNP", "CNP"} {
		for cores := 1; cores <= runtime.GOMAXPROCS(0); cores *= 2 {
			plural := "s"[:min(cores-1, 1)]
			run(b, fmt.Sprintf("%s/%d core%s", name, cores, plural), func(b *testing.B) {
				var wg sync.WaitGroup
				for range cores {
					wg.Go(func() {
						w := worker{out: make([]byte, 0, batch*128), answer: jobs[name]}
						for n := 0; n < b.N; n += batch * cores {
							if err := w.do(frames); err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

func TestBatchAllocatesNothing(t *testing.T) {
	frames := frames(t)
	for name, answer := range jobs() {
		w := worker{out: make([]byte, 0, batch*128), answer: answer}
		require.NoError(t, w.do(frames))
		require.Zero(t, testing.AllocsPerRun(100, func() { _ = w.do(frames) }), name)
	}
}

// BenchmarkBuild builds every message as a whole IPv6 packet, from the congested packet that it
// answers, which is decoded already. The lower bounds are the ICRC of the packet built, if it has
// one, and a copy of that packet.
func BenchmarkBuild(b *testing.B) {
	data, traced := congested(b, 0), congested(b, 4)

	cnpFor := func(b *testing.B, name string, data *rocev2.Packet) {
		packet, err := cnp.AppendFor(nil, data, data.FinalDst(), 0x118, cnp.Config{})
		require.NoError(b, err)
		buildFloors(b, name, packet, true)
		run(b, name+"AppendFor", func(b *testing.B) {
			out := make([]byte, 0, 128)
			for b.Loop() {
				out, err = cnp.AppendFor(out[:0], data, data.FinalDst(), 0x118, cnp.Config{})
				check(b, err)
			}
		})
		if data.Src.Is6() {
			buildLayers(b, name, packet)
		}
	}
	cnpFor(b, "CNP/", data)
	over4 := *data // as far as an answer needs it
	over4.Src, over4.Dst = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	cnpFor(b, "CNP over IPv4/", &over4)

	fastFor := func(b *testing.B, name string, data *rocev2.Packet) {
		packet, _, err := fastcnp.AppendFor(nil, data, loopback, nil, fastcnp.Config{})
		require.NoError(b, err)
		buildFloors(b, name, packet, true)
		run(b, name+"AppendFor", func(b *testing.B) {
			out := make([]byte, 0, 512)
			for b.Loop() {
				out, _, err = fastcnp.AppendFor(out[:0], data, loopback, nil, fastcnp.Config{})
				check(b, err)
			}
		})
		buildLayers(b, name, packet)
	}
	fastFor(b, "Fast CNP 1/", data)
	fastFor(b, "Fast CNP 2/", traced)

	packet, err := ppfc.AppendFor(nil, data, loopback, ppfc.Extension{}, ppfc.Config{})
	require.NoError(b, err)
	buildFloors(b, "PPFC/", packet, true)
	run(b, "PPFC/AppendFor", func(b *testing.B) {
		out := make([]byte, 0, 128)
		for b.Loop() {
			out, err = ppfc.AppendFor(out[:0], data, loopback, ppfc.Extension{}, ppfc.Config{})
			check(b, err)
		}
	})
	buildLayers(b, "PPFC/", packet)

	tunnelled := tunnel(b, data.IP)
	packet = wiretest.Must(fcn.AppendFor(nil, tunnelled, loopback, 7, fcn.Config{}))(b)
	buildFloors(b, "FCN/", packet, false)
	run(b, "FCN/AppendFor", func(b *testing.B) {
		out := make([]byte, 0, 128)
		for b.Loop() {
			out, err = fcn.AppendFor(out[:0], tunnelled, loopback, 7, fcn.Config{})
			check(b, err)
		}
	})
	buildLayers(b, "FCN/", packet)

	f := flow(b)
	packet = wiretest.Must(proxymsg.AppendFor(nil, f, loopback, sender, 5, proxymsg.Config{}))(b)
	buildFloors(b, "proxy/", packet, false)
	run(b, "proxy/AppendFor", func(b *testing.B) {
		out := make([]byte, 0, 2048)
		for b.Loop() {
			out, err = proxymsg.AppendFor(out[:0], f, loopback, sender, 5, proxymsg.Config{})
			check(b, err)
		}
	})
}

func buildFloors(b *testing.B, name string, packet []byte, withICRC bool) {
	if withICRC {
		run(b, name+"ICRC", func(b *testing.B) {
			for b.Loop() {
				icrc.Sum(packet, icrc.AsSent)
			}
		})
	}
	run(b, name+"copy", func(b *testing.B) {
		to := make([]byte, len(packet))
		for b.Loop() {
			copy(to, packet)
		}
	})
	var d rocev2.Datagram
	err := d.DecodeIP(packet)
	require.NoError(b, err)
	run(b, name+"IP and UDP", func(b *testing.B) { // around UDP data that is there
		out := make([]byte, 0, 2048)
		for b.Loop() {
			out, err = d.AppendBinary(out[:0])
			check(b, err)
		}
	})
}

// tunnel returns the flow of an IPv6 packet in an ECN-capable tunnel.
func tunnel(b *testing.B, ip []byte) *rocev2.Frame {
	outer := wiretest.Must((&encap.IPInIPv6{Src: sender, Dst: receiver}).Append(nil, ip, 0xBEEF5))(b)
	outer[1] |= uint8(rocev2.ECT0) << 4
	var f rocev2.Frame
	f.Decode(outer, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	return &f
}
