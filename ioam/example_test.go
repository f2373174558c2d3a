package ioam_test

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
)

// The Hop-by-Hop Options header of a RoCEv2 packet that crossed three Linux
// nodes.
const hopByHop = "110901003146" + "0000" + "007b2800f2000000" +
	"3d0000d4019101926b01637500004b7d00000000" +
	"3e0000c3012d012e6b01637500004b7600000000" +
	"3f0000b200c900ca6b01637500004b6900000000" + "01020000"

func Example() {
	b, _ := hex.DecodeString(hopByHop)
	var header ipv6opt.Header
	if _, err := header.Decode(b); err != nil {
		fmt.Println(err)
		return
	}
	found, ok, err := header.Find(ioam.IPv6MayChange)
	if err != nil || !ok {
		fmt.Println("no trace", err)
		return
	}

	var option ioam.Option
	var trace ioam.Trace
	if err := option.Decode(found.Data); err != nil {
		fmt.Println(err)
		return
	}
	if err := trace.Decode(option); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(trace.OptType, "of namespace", trace.Namespace)
	for node := range trace.Nodes() { // newest first
		when, _ := node.Time(ioam.POSIX)
		fmt.Printf("node %X: hop limit %d, interfaces %d to %d, %s, queue depth %d\n",
			node.NodeID, node.HopLimit, node.Ingress, node.Egress, when.Format(time.TimeOnly+".000000"),
			node.QueueDepth)
	}
	// Output:
	// pre-allocated trace of namespace 123
	// node D4: hop limit 61, interfaces 401 to 402, 09:25:09.019325, queue depth 0
	// node C3: hop limit 62, interfaces 301 to 302, 09:25:09.019318, queue depth 0
	// node B2: hop limit 63, interfaces 201 to 202, 09:25:09.019305, queue depth 0
}

// A node that could not tell its queue depth wrote all ones.
func ExampleNode_Available() {
	n := ioam.Node{Type: ioam.BitNode | ioam.BitQueueDepth, NodeID: 0xA1, QueueDepth: ioam.NoValue}
	fmt.Println(n.Type)
	fmt.Println(n.Available())
	// Output:
	// 0x820000 (node, queue depth)
	// 0x800000 (node)
}

// A trace with room for two nodes of two words, and three nodes that want to
// record something.
func ExampleAddNode() {
	trace := ioam.Trace{Namespace: 123, Type: ioam.BitNode | ioam.BitQueueDepth}
	data, err := trace.AppendFresh(nil, 2*trace.Type.NodeLen())
	if err != nil {
		fmt.Println(err)
		return
	}
	option := ioam.Option{Type: ioam.TypePreallocated, Data: data}
	for hop := range uint32(3) {
		node := ioam.Node{Type: trace.Type, HopLimit: uint8(63 - hop), NodeID: 0xB2 + hop, QueueDepth: 10 * hop}
		added, err := ioam.AddNode(option, &node)
		fmt.Println(added, err)
	}
	fmt.Printf("%x\n", data)
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
	// 007b1400820000003e0000b30000000a3f0000b200000000
}

// A node that encapsulates puts a fresh trace into a Hop-by-Hop header, at
// offset 4n, with room for two nodes. It stands in front of the UDP header.
func ExampleTrace_AppendFresh() {
	trace := ioam.Trace{Namespace: 123, Type: ioam.BitNode | ioam.BitQueueDepth}
	option := ioam.Option{Type: ioam.TypePreallocated}
	data, err := trace.AppendFresh([]byte{option.Reserved, uint8(option.Type)}, 2*trace.Type.NodeLen())
	if err != nil {
		fmt.Println(err)
		return
	}
	header := ipv6opt.Begin(nil, 17)
	if err := header.Add(ioam.IPv6MayChange, 4, 0, data); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%x\n", header.Finish())
	// Output: 11030100311a0000007b10048200000000000000000000000000000000000000
}
