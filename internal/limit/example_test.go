package limit

import (
	"fmt"
	"time"
)

// A flow gets a notification every 50 µs at most, and all flows together 1,000 a second, with a
// burst of 2.
func Example() {
	perFlow := NewEvery(1 << 16)
	total := NewBucket(Rate{PerSecond: 1000, Burst: 2})

	now := time.Unix(0, 0)
	for _, flow := range []uint64{17, 17, 18, 19} {
		if !perFlow.Ready(flow, 50*time.Microsecond, now) || !total.Ready(now) {
			fmt.Println(flow, "limited")
			continue
		}
		perFlow.Record(flow, now)
		total.Charge(now)
		fmt.Println(flow, "sent")
	}
	// Output:
	// 17 sent
	// 17 limited
	// 18 sent
	// 19 limited
}
