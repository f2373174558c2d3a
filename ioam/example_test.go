package ioam_test

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
)

// The Hop-by-Hop Options header of a RoCEv2 packet that passed three Linux nodes.
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
		id, _ := node.NodeID()
		hopLimit, _ := node.HopLimit()
		fmt.Printf("node %X: hop limit %d", id, hopLimit)
		if at, ok := node.Time(ioam.TimeFormatPOSIX); ok {
			fmt.Print(", ", at.Format(time.TimeOnly+".000000"))
		}
		if depth, ok := node.QueueDepth(); ok {
			fmt.Print(", queue depth ", depth)
		}
		fmt.Println()
	}
	// Output:
	// pre-allocated trace of namespace 123
	// node D4: hop limit 61, 09:25:09.019325, queue depth 0
	// node C3: hop limit 62, 09:25:09.019318, queue depth 0
	// node B2: hop limit 63, 09:25:09.019305, queue depth 0
}

// A trace has node and queue depth. The node does not know its queue depth and wrote all ones.
func ExampleNode_QueueDepth() {
	octets, _ := hex.DecodeString("0000" + "007b100082000000" + "3d0000d4ffffffff")
	var option ioam.Option
	var trace ioam.Trace
	if err := option.Decode(octets); err != nil {
		fmt.Println(err)
		return
	}
	if err := trace.Decode(option); err != nil {
		fmt.Println(err)
		return
	}
	for node := range trace.Nodes() {
		fmt.Println(node.Type())
		fmt.Println(node.NodeID())
		fmt.Println(node.QueueDepth())
	}
	// Output:
	// 0x820000 (node, queue depth)
	// 212 true
	// 0 false
}

// A trace has space for two nodes of two words. The third node sets the overflow flag.
func ExampleAddNode() {
	trace := ioam.Trace{Namespace: 123, Type: ioam.BitNode | ioam.BitQueueDepth}
	data, err := trace.AppendFresh(nil, 2*trace.Type.NodeLen())
	if err != nil {
		fmt.Println(err)
		return
	}
	option := ioam.Option{Type: ioam.OptTypePreallocated, Data: data}
	for hop := range uint32(3) {
		var node ioam.Node
		node.SetNode(uint8(63-hop), 0xB2+hop)
		node.SetQueueDepth(10 * hop)
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

// An encapsulating node adds a Hop-by-Hop header with an empty trace at offset 4n, with
// space for two nodes. The header precedes the UDP header.
func ExampleTrace_AppendFresh() {
	trace := ioam.Trace{Namespace: 123, Type: ioam.BitNode | ioam.BitQueueDepth}
	option := ioam.Option{Type: ioam.OptTypePreallocated}
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
