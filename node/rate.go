package node

// A Rate is a limit on the number of packets. The zero Rate sets no limit. The limit is a token bucket: it holds Burst
// packets, starts full, and fills at PerSecond. Configure rejects values that are negative or not finite, and a
// Burst without PerSecond.
//
// In a limit on the messages of all sources (In, Out, Accepted) no source can take the part of others, if Burst is at
// least 8: while several sources have messages, one with more than a quarter of PerSecond leaves half of Burst to the
// others. For In and Accepted a source is the node that sends the message, for Out the prefix, /64 or /24, of the
// sender of the packets that the message is about, in its domain.
type Rate struct {
	PerSecond float64 // packets a second on average
	Burst     int     // packets that may arrive at the same time; 0 stands for 1
}
