package qplearn

import (
	"math/rand/v2"
	"time"
)

// Config has the limits of a Map and the rules of its elections. Zero fields stand for the defaults.
type Config struct {
	MaxPairs   int           // pairs, one for each direction of a connection: 65,536
	MaxPending int           // CM exchanges: 4,096
	MaxOpen    int           // flows without a pair, with 8 to 64 requests in flight each: MaxPairs
	Idle       time.Duration // time without a packet after which an entry is forgotten: 10 minutes
	MinVotes   int           // votes that a pair needs: 3
	Ratio      int           // votes of a pair for each vote of the next candidate: 2

	// Ports lets the UDP source port decide votes that tie, if the tied flows have different
	// ports. Many hosts use one port in both directions of a connection, but not all. Such a
	// pair is good enough for a display, but no proof for a CNP.
	Ports bool
	// Grow allocates memory as it is needed, up to the maxima, instead of all in New.
	Grow bool
	// Seed is the key of the hash table of requests in flight, which decides the requests that are
	// forgotten if there are too many. 0 stands for a random seed, so that an attacker cannot choose
	// requests that displace others. With any other seed the same packets give the same pairs.
	Seed uint64
}

func (c Config) withDefaults() Config {
	for field, value := range map[*int]int{
		&c.MaxPairs: 65536, &c.MaxPending: 4096, &c.MinVotes: 3, &c.Ratio: 2,
	} {
		if *field <= 0 {
			*field = value
		}
	}
	if c.MaxOpen <= 0 {
		c.MaxOpen = c.MaxPairs
	}
	if c.Idle <= 0 {
		c.Idle = 10 * time.Minute
	}
	for c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	c.MaxPairs, c.MaxOpen = max(c.MaxPairs, 2), max(c.MaxOpen, 2) // room for both directions of a connection
	return c
}
