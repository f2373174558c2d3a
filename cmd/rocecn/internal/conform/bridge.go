package conform

import "slices"

// isBridge reports whether the tester is a bridge between a device with traffic of its own, at the sender port, and its
// receivers.
func (s *suite) isBridge() bool {
	hasTraffic := s.profile.Device.Role == "sender" || s.profile.Device.Role == "pause"
	return hasTraffic && s.portOf("sender") >= 0 && s.portOf("receiver") >= 0
}

// forwardFrame forwards any frame to the other port of a bridge. Frames for the tester itself do no harm there.
func (s *suite) forwardFrame(n *seen) {
	if !s.isBridge() {
		return
	}
	from, to := s.portOf("sender"), s.portOf("receiver")
	switch n.port {
	case from:
		s.rig.send(to, replaceTag(n.frame, s.profile.Ports[from].VLAN, s.profile.Ports[to].VLAN))
	case to:
		s.rig.send(from, replaceTag(n.frame, s.profile.Ports[to].VLAN, s.profile.Ports[from].VLAN))
	}
}

// replaceTag returns a frame of a VLAN as one of another VLAN; 0 stands for frames without a tag.
func replaceTag(frame []byte, from, to uint16) []byte {
	const addresses, tagSize = 12, 4
	if from == to {
		return frame
	}
	rest := frame[addresses:]
	if from != 0 {
		rest = rest[tagSize:]
	}
	if to == 0 {
		return slices.Concat(frame[:addresses], rest)
	}
	tag := []byte{typeVLAN >> 8, typeVLAN & 0xFF, uint8(to >> 8), uint8(to)}
	return slices.Concat(frame[:addresses], tag, rest)
}
