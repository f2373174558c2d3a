package lab

import (
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/reaction"
)

// The trace of HPCC's packets is an IOAM trace: for each port its node, the time, and the octets in its queue.
// IOAM has no field for the octets that the port has sent: they are in the namespace-specific data, and only if
// acknowledgements carry the trace.
const (
	namespace  = 1
	traceOfFCN = ioam.BitNode | ioam.BitInterfaces | ioam.BitSeconds | ioam.BitFraction | ioam.BitQueueDepth
	traceByAck = traceOfFCN | ioam.BitWideNamespaceData
)

func (c *Config) traceType() ioam.TraceType {
	if c.Variant.byAck() {
		return traceByAck
	}
	return traceOfFCN
}

// traceOctets is the length of the Hop-by-Hop header with the trace.
func (c *Config) traceOctets() int {
	const header = 2 + 2 + 4 + 8 // of the extension header, padding, of the option, of the trace
	return (header + 4*c.traceHops()*c.traceType().NodeLen() + 7) &^ 7
}

// traceHops is TraceHops, or its default.
func (c *Config) traceHops() int {
	if c.TraceHops == 0 {
		return 5
	}
	return c.TraceHops
}

// traceHeader returns the Hop-by-Hop header of a packet, with the records written by ports so far.
func (n *Network) traceHeader(r ref, k *packet) []byte {
	t := ioam.Trace{OptType: ioam.OptTypePreallocated, Namespace: namespace, Type: n.cfg.traceType()}
	words := n.cfg.TraceHops * t.Type.NodeLen()
	w := ipv6opt.Begin(n.roles.ext[:0], wire.ProtoUDP)
	data, err := w.Reserve(ioam.IPv6MayChange, 4, 0, 2+8+4*words)
	if err != nil {
		panic("lab: " + err.Error()) // cannot happen: there is room for eight ports
	}
	o := ioam.Option{Type: ioam.OptTypePreallocated, Data: data[2:]}
	fresh, err := t.AppendFresh(data[2:2], words)
	if err != nil || len(fresh) != len(o.Data) {
		panic("lab: a trace of another length")
	}
	data[0], data[1] = 0, byte(o.Type)
	traced := n.pool.trace(r)
	for i := range int(k.hops) {
		node := n.newRecord(&traced.hops[i], traced.ports[i])
		if _, err := ioam.AddNode(o, &node); err != nil {
			panic("lab: " + err.Error())
		}
	}
	return w.Finish()
}

// newRecord returns the IOAM record of a port.
func (n *Network) newRecord(h *reaction.Hop, port int32) ioam.Node {
	at := sim.From(h.TS).Clock()
	p := n.ports[port]
	var node ioam.Node
	node.SetNode(64, uint32(p.owner.(*Switch).index))
	node.SetEgress(uint16(p.index))
	node.SetSeconds(uint32(at.Unix()))
	node.SetFraction(uint32(at.Nanosecond()))
	node.SetQueueDepth(uint32(h.QLen))
	node.SetWideNamespaceData(h.TxBytes)
	return node
}

// recordBandwidth returns the rate of a port, which the sender must know, because IOAM has no field for it.
func (n *Network) recordBandwidth(record ioam.Node) uint64 {
	id, ok := record.NodeID()
	port, known := record.Egress()
	if !ok || !known || int(id) >= len(n.switches) || int(port) >= len(n.switches[id].ports) {
		return 0
	}
	return uint64(n.switches[id].ports[port].rate)
}
