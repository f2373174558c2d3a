package flows

// lifeDistance is how far from the PSN expected next, either way, a request
// may be: one beyond it begins a new life of the flow.
const lifeDistance = 1 << 16

// minMTU is the smallest path MTU: responses of a READ have at least so many
// octets, but for the last.
const minMTU = 256

// isMTU says whether a payload is as long as a path MTU can be, which the
// first and middle packets of a message are.
func isMTU(octets uint32) bool {
	return octets >= minMTU && octets <= 4096 && octets&(octets-1) == 0
}
