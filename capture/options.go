package capture

import "github.com/rocecn/rocecn/rocev2"

// Supported tells whether package rocev2 can decode packets of this link type:
// Ethernet, IP, or the pseudo-header of a Linux cooked or BSD loopback capture.
func (r *Record) Supported() bool {
	_, ok := rocev2.LinkTypeOf(r.Link)
	return ok
}

// Options returns what the Decode methods of packages rocev2 and message must know
// of Data: its link type, and whether the snap length cut it. Of a packet that is
// not [Record.Supported] they say that there is no such link type.
func (r *Record) Options() rocev2.DecodeOptions {
	link, ok := rocev2.LinkTypeOf(r.Link)
	if !ok {
		link = 0xFF
	}
	return rocev2.DecodeOptions{Link: link, Cut: r.Cut()}
}
