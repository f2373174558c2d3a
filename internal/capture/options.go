package capture

import "github.com/rocecn/rocecn/rocev2"

// Options says what the octets of a supported packet are.
func (r *Record) Options() rocev2.DecodeOptions {
	link, _ := rocev2.LinkTypeOf(uint32(r.Link))
	return rocev2.DecodeOptions{Link: link, Cut: r.Cut()}
}
