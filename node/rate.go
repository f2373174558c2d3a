package node

// A Rate is a limit on the number of packets. The zero Rate sets no limit. The limit is a token bucket: it holds Burst
// packets, starts full, and fills at PerSecond. Configure rejects values that are negative or not finite, and a
// Burst without PerSecond.
type Rate struct {
	PerSecond float64 // packets a second on average
	Burst     int     // packets that may arrive at the same time; 0 stands for 1
}
