// Package traffic makes captures of RoCEv2 traffic for tests, together with the truth about them:
// it is recorded while the packets are made, not derived from them afterwards.
package traffic

import (
	"io"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/rocev2"
)

// Options choose the properties of a capture. Incidents happen in any case.
type Options struct {
	Connections int
	NoCM        bool // no exchange of connection management was captured
	OneWay      bool // the opposite direction was not captured
	SnapLen     int  // 0: packets are whole
	Clean       bool // nothing happens
}

// A Truth is the true history of a flow.
type Truth struct {
	Transport                   bth.Transport
	SrcQP                       uint32
	Packets, IPOctets           uint64
	First, Last                 uint32 // PSNs
	Connections                 uint64
	Gaps, Missing, Late         uint64
	Unseen, Lost, Unjudged      uint64
	NAKed, RNR, Rest, Timeout   uint64 // repeats by cause
	ACKs, RNRNAKs, SequenceNAKs uint64
	CNPs, Fast, PPFC, Proxy     uint64
	CE                          uint64
	Begun, Complete             uint64 // messages of all kinds
	FirstTrouble                uint64 // frame
	RTTs                        uint64
	Responses, ResponseOctets   uint64 // READ responses and ATOMIC Acknowledges to the flow's source, all in order
}

// A Frame is a packet of a capture.
type Frame struct {
	Data []byte
	Orig int // its octets on the wire
	Time time.Time
}

// A Capture is a list of frames and the truth about them.
type Capture struct {
	Frames []*Frame
	Flows  map[rocev2.FlowKey]*Truth
}

// Write writes the capture as pcap.
func (c *Capture) Write(w io.Writer) error {
	out, err := capture.NewWriter(w, capture.Ethernet, time.Nanosecond)
	if err != nil {
		return err
	}
	for _, f := range c.Frames {
		if err := out.Write(&capture.Record{Data: f.Data, OrigLen: uint32(f.Orig), Time: f.Time}); err != nil {
			return err
		}
	}
	return nil
}

// Generate makes the capture of a seed.
func Generate(seed uint64, o Options) *Capture {
	g := &generator{
		Rand:     rand.New(rand.NewPCG(seed, 0x1B5)),
		options:  o,
		capture:  &Capture{Flows: map[rocev2.FlowKey]*Truth{}},
		troubled: map[*Frame]*Truth{},
	}
	var all [][]*Frame
	for i := range max(o.Connections, 1) {
		all = append(all, g.connection(i))
	}
	g.merge(all)
	for i, f := range g.capture.Frames {
		if t := g.troubled[f]; t != nil {
			t.FirstTrouble = uint64(i + 1)
		}
	}
	return g.capture
}

type generator struct {
	*rand.Rand
	options  Options
	capture  *Capture
	troubled map[*Frame]*Truth // by the frame of FirstTrouble
	commID   uint32
}

// merge puts the frames of all connections into one capture, each in its order,
// and gives them times.
func (g *generator) merge(all [][]*Frame) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for {
		var open []int
		for i, frames := range all {
			if len(frames) > 0 {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			return
		}
		i := open[g.IntN(len(open))]
		f := all[i][0]
		all[i] = all[i][1:]
		now = now.Add(time.Duration(1+g.IntN(20)) * time.Microsecond)
		f.Time = now
		if snap := g.options.SnapLen; snap > 0 && len(f.Data) > snap {
			f.Data = f.Data[:snap]
		}
		g.capture.Frames = append(g.capture.Frames, f)
	}
}

// A side is one end of a connection.
type side struct {
	addr netip.Addr
	qp   uint32
}

// connection makes the frames of one connection, and the truth about its flow.
func (g *generator) connection(i int) []*Frame {
	c := &connection{generator: g, mtu: 256 << g.IntN(5), wraps: i < 2}
	host := func(n byte) netip.Addr {
		if i%2 == 0 {
			return netip.AddrFrom4([4]byte{192, 0, 2, n})
		}
		return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: n})
	}
	c.from, c.to = side{host(1), uint32(0x100 + 2*i)}, side{host(2), uint32(0x10000 + 3*i)}
	switch g.IntN(6) {
	case 0:
		c.transport = bth.TransportUC
	case 1:
		c.transport = bth.TransportXRC
	}
	key := rocev2.FlowKey{Src: c.from.addr, Dst: c.to.addr, DestQP: c.to.qp}
	c.truth = &Truth{Transport: c.transport, SrcQP: c.from.qp}
	g.capture.Flows[key] = c.truth
	c.run()
	g.troubled[c.trouble] = c.truth
	if c.truth.Packets == 0 {
		delete(g.capture.Flows, key)
	}
	return c.frames
}
