package wire

// The functions below read single fields of a complete BTH (IBTA section 9.2), which has 12 octets. Package bth decodes
// the whole header.

// PadCount returns the number of pad octets after the payload, 0 to 3.
func PadCount(bth []byte) uint8 { return bth[1] >> 4 & 3 }

// PKey returns the partition key.
func PKey(bth []byte) uint16 { return be.Uint16(bth[2:]) }

// DestQP returns the destination queue pair, 24 bits.
func DestQP(bth []byte) uint32 { return be.Uint32(bth[4:]) & 0xFFFFFF }

// AckReq reports whether the sender requests an acknowledgement.
func AckReq(bth []byte) bool { return bth[8]>>7 != 0 }

// PSN returns the packet sequence number, 24 bits.
func PSN(bth []byte) uint32 { return be.Uint32(bth[8:]) & 0xFFFFFF }
