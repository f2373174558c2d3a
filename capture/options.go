package capture

import "github.com/rocecn/rocecn/rocev2"

// Supported says that the packet begins with something that package rocev2
// knows: Ethernet, IP, or the pseudo-header of a Linux cooked or BSD loopback
// capture.
func (r *Record) Supported() bool {
	_, ok := rocev2.LinkTypeOf(r.Link)
	return ok
}

// Options says what Data is. Of a packet that is not [Record.Supported] every
// Decode then says that there is no such link type.
func (r *Record) Options() rocev2.DecodeOptions {
	link, ok := rocev2.LinkTypeOf(r.Link)
	if !ok {
		link = 0xFF
	}
	return rocev2.DecodeOptions{Link: link, Cut: r.Cut()}
}
