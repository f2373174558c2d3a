package answer

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// count is what became of the packets.
type count struct {
	read    int
	matched int
	written [3]int         // by the number of the option, 1 or 2
	skipped map[string]int // by the reason
}

func (c *count) skip(why string) {
	if c.skipped == nil {
		c.skipped = map[string]int{}
	}
	c.skipped[why]++
}

// print writes the summary, the most frequent reasons first:
//
//	packets: 253 read, 72 matched; Fast CNPs: 70 with option 1, 2 with option 2
//	skipped: 159 not RoCEv2, 22 ack
func (c *count) print(w io.Writer) {
	fmt.Fprintf(w, "packets: %d read, %d matched; Fast CNPs: %d with option 1, %d with option 2\n",
		c.read, c.matched, c.written[1], c.written[2])
	if len(c.skipped) == 0 {
		return
	}
	why := slices.SortedFunc(maps.Keys(c.skipped), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.skipped[b], c.skipped[a]), cmp.Compare(a, b))
	})
	for i, reason := range why {
		why[i] = fmt.Sprintf("%d %s", c.skipped[reason], reason)
	}
	fmt.Fprintf(w, "skipped: %s\n", strings.Join(why, ", "))
}
