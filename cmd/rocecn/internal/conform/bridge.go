package conform

import (
	"fmt"
	"slices"
)

// isBridge reports whether the tester is a bridge between a device with traffic of its own, at the sender port, and its
// receivers.
func (s *suite) isBridge() bool {
	hasTraffic := s.profile.Device.Role == "sender" || s.profile.Device.Role == "pause"
	return hasTraffic && s.portOf("sender") >= 0 && s.portOf("receiver") >= 0
}

// forwardFrame forwards any frame to the other port of a bridge. Frames for the tester itself do no harm there.
func (x *trial) forwardFrame(n *seen) {
	if !x.isBridge() {
		return
	}
	from, to := x.portOf("sender"), x.portOf("receiver")
	switch n.port {
	case from:
	case to:
		from, to = to, from
	default:
		return
	}
	err := x.rig.send(to, replaceTag(n.frame, x.profile.Ports[from].VLAN, x.profile.Ports[to].VLAN))
	x.keepError(fmt.Sprintf("port[%d]: a frame could not be forwarded", to), err)
}

// replaceTag returns a frame of a VLAN as one of another VLAN, with the same priority; 0 stands for frames without a
// tag.
func replaceTag(frame []byte, from, to uint16) []byte {
	const addresses, tagSize = 12, 4
	if from == to {
		return frame
	}
	rest, priority := frame[addresses:], uint8(0)
	if from != 0 {
		priority = rest[2] & 0xF0
		rest = rest[tagSize:]
	}
	if to == 0 {
		return slices.Concat(frame[:addresses], rest)
	}
	tag := []byte{typeVLAN >> 8, typeVLAN & 0xFF, priority | uint8(to>>8), uint8(to)}
	return slices.Concat(frame[:addresses], tag, rest)
}
