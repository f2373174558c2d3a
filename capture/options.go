package capture

import "github.com/rocecn/rocecn/rocev2"

// Supported says that the packet begins with something that package rocev2
// knows: Ethernet, IP, or the pseudo-header of a Linux cooked or BSD loopback
// capture.
func (r *Record) Supported() bool {
	_, ok := rocev2.LinkTypeOf(uint32(r.Link))
	return ok
}

// Options says what the octets of a supported packet are.
func (r *Record) Options() rocev2.DecodeOptions {
	link, _ := rocev2.LinkTypeOf(uint32(r.Link))
	return rocev2.DecodeOptions{Link: link, Cut: r.Cut()}
}
