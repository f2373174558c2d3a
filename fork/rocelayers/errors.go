// Code generated from rocelayers/errors.go by internal/genfork; DO NOT EDIT.

package rocelayers

import "github.com/rocecn/rocecn/internal/wireerr"

// ErrNoBTH: there is no BTH layer in the packet whose ICRC is to be verified,
// or before the layer that is to be decoded.
var ErrNoBTH = wireerr.New("rocelayers", "BTH", 0, "no such layer in the packet", wireerr.Other)

var (
	errNoIP      = wireerr.New("rocelayers", "BTH", 0, "no IP layer at hand that leads to it: decode with NewPacket or a Stack", wireerr.Other)
	errUDPLength = wireerr.New("rocelayers", "UDP", 0, "length below that of the octets there", wireerr.Malformed)
	errCut       = wireerr.New("rocelayers", "UDP", 0, "gopacket takes the packet for cut, and there is no UDP layer to tell: decode with a Stack", wireerr.Truncated)
	errNotIOAM   = wireerr.New("rocelayers", "IOAM", 0, "the IPv6 option type is neither 0x31 nor 0x11", wireerr.Other)
	errICRCSize  = wireerr.New("rocelayers", "ICRC", 4, "not exactly 4 octets", wireerr.Malformed)

	// Of writing.
	errSerialize   = wireerr.New("rocelayers", "BTH", 0, "its ICRC covers the IP and UDP layers: give these with it to rocelayers.SerializeLayers", wireerr.Range)
	errNoCarrier   = wireerr.New("rocelayers", "BTH", 0, "its ICRC covers the IP and UDP layers, which are not before it", wireerr.Range)
	errPaddingSize = wireerr.New("rocelayers", "BTH", 0, "Padding must have as many octets as Pad says", wireerr.Range)
	errICRCOrder   = wireerr.New("rocelayers", "ICRC", 0, "the layer belongs behind the BTH's payload", wireerr.Range)
	errLengths     = wireerr.New("rocelayers", "IP and UDP", 0, "their lengths do not end the packet where the message ends", wireerr.Range)
)
