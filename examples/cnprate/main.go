// Cnprate prints the rate of CNPs and Fast CNPs of each flow in a pcap capture, read
// through gopacket: the mean between the first and the last one, and the largest
// number in one second of the clock.
//
//	go run ./examples/cnprate <testdata/tour.pcap
package main

import (
	"cmp"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/pcapgo"
	"github.com/rocecn/rocecn/rocelayers"
)

// A flow is the flow that a Fast CNP names, or the sender's address and queue pair that a CNP names.
type flow struct {
	kind  gopacket.LayerType
	named string
}

type rate struct {
	n           int
	first, last time.Time
	now, peak   int // number in the second of last, and the largest number in a second
}

func (r *rate) add(t time.Time) {
	if t.Unix() != r.last.Unix() {
		r.now = 0
	}
	r.n, r.now, r.last = r.n+1, r.now+1, t
	r.peak = max(r.peak, r.now)
}

func (r *rate) String() string {
	mean := "-"
	if d := r.last.Sub(r.first).Seconds(); d > 0 {
		mean = fmt.Sprintf("%.1f/s", float64(r.n-1)/d)
	}
	return fmt.Sprintf("%d, mean %s, peak %d/s", r.n, mean, r.peak)
}

func printRates(in io.Reader, out io.Writer) error {
	r, err := pcapgo.NewReader(in)
	if err != nil {
		return err
	}
	var s rocelayers.Stack // a DecodingLayerParser with all layers
	rates, broken, wrong := map[flow]*rate{}, 0, 0
	for {
		frame, info, err := r.ZeroCopyReadPacketData()
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if s.Decode(frame) != nil {
			broken++
		}
		for _, t := range s.Decoded {
			f := flow{kind: t}
			switch t {
			case rocelayers.LayerTypeCNP:
				f.named = fmt.Sprintf("to %v qp 0x%06x", s.Packet().Dst, s.Packet().BTH.DestQP)
			case rocelayers.LayerTypeFastCNP:
				f.named = fmt.Sprint("about ", s.FastCNP.FlowKey())
			default:
				continue
			}
			if _, err := s.BTH.VerifyICRC(); err != nil {
				wrong++
				continue
			}
			if rates[f] == nil {
				rates[f] = &rate{first: info.Timestamp}
			}
			rates[f].add(info.Timestamp)
		}
	}
	for _, f := range slices.SortedFunc(maps.Keys(rates), func(a, b flow) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.named, b.named))
	}) {
		fmt.Fprintf(out, "%v %s: %v\n", f.kind, f.named, rates[f])
	}
	_, err = fmt.Fprintln(out, "broken:", broken, "wrong ICRC:", wrong)
	return err
}

func main() {
	if err := printRates(os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
