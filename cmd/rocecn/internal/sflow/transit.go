package sflow

// Transit is the way of a packet through the switch, from optional records of sflow_transit.txt and sflow_drops.txt,
// and those that the agent of Linux adds to a discarded packet.
type Transit struct {
	Queue uint32 // egress queue
	Delay uint32 // nanoseconds in the switch; 0xFFFFFFFF means that or more
	Depth uint32 // octets in the egress queue

	HasQueue, HasDelay, HasDepth bool

	// Names of the reason for which the packet was discarded, or nil. They alias the datagram.
	TrapGroup, Trap []byte // of the kernel's devlink, such as buffer_drops, tail_drop
	LinuxReason     []byte // of the kernel's network stack, such as NO_SOCKET
}

// readRecord reads a record of the way through the switch, and skips others.
//
//	extended_egress_queue   1036  queue
//	extended_transit_delay  1039  delay
//	extended_queue_depth    1040  depth
//	extended_hw_trap        1041  length, group, padding, length, trap, padding
//	extended_linux_reason   1042  length, reason, padding
func (t *Transit) readRecord(format uint32, record []byte) error {
	r := reader{rest: record}
	read := *t
	switch format {
	case egressQueue:
		read.Queue, read.HasQueue = r.word(), true
	case transitDelay:
		read.Delay, read.HasDelay = r.word(), true
	case queueDepth:
		read.Depth, read.HasDepth = r.word(), true
	case hardwareTrap:
		read.TrapGroup = r.octets(r.word())
		read.Trap = r.octets(r.word())
	case linuxReason:
		read.LinuxReason = r.octets(r.word())
	}
	if r.short {
		return ErrLength
	}
	*t = read
	return nil
}
