// Count prints how many CNPs and Fast CNPs a capture has, by flow: a CNP by the
// way that it took itself, from the receiver to the sender's queue pair, a Fast
// CNP by the data that it is about.
package main

import (
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"

	"github.com/google/gopacket/pcapgo"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

func main() {
	f, err := os.Open(os.Args[1])
	if err == nil {
		err = count(f, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func count(in io.Reader, out io.Writer) error {
	r, err := pcapgo.NewReader(in)
	if err != nil {
		return err
	}
	link, _ := rocev2.LinkTypeOf(uint32(r.LinkType()))
	cnps, fast, broken := map[rocev2.FlowKey]int{}, map[rocev2.FlowKey]int{}, 0
	var m message.Message // reusable
	for {
		data, info, err := r.ZeroCopyReadPacketData()
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		_ = m.Decode(data, rocev2.DecodeOptions{Link: link, Cut: info.CaptureLength < info.Length}, message.Config{}) // Kind says the rest
		switch m.Kind {
		case message.CNP:
			cnps[m.Packet.FlowKey()]++
		case message.FastCNP:
			fast[m.FastCNP.FlowKey()]++
		case message.Broken:
			broken++
		}
	}
	print(out, "CNP", cnps)
	print(out, "Fast CNP", fast)
	_, err = fmt.Fprintln(out, "broken", broken)
	return err
}

func print(out io.Writer, what string, counts map[rocev2.FlowKey]int) {
	for _, k := range slices.SortedFunc(maps.Keys(counts), rocev2.FlowKey.Compare) {
		fmt.Fprintln(out, what, k, counts[k])
	}
}
