package rocelayers

import (
	"encoding/binary"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/rocev2"
)

// SerializeLayers is gopacket.SerializeLayers for packets that have an ICRC.
// The layers stand in wire order, from the outermost to the payload, an [ICRC]
// layer behind it or not.
//
// With ComputeChecksums it computes the ICRC in the Coverage that the ICRC
// layer asks for, by default AsSent, and then the checksum of the UDP layer
// around the BTH, which covers the ICRC. A UDP Checksum of 0 stays 0, which is
// what RoCEv2 senders send, unless SetNetworkLayerForChecksum was called. The
// ICRC layer's Value, the BTH's ICRC and the Checksum are set to what was
// written.
//
// Without ComputeChecksums, or without a BTH, it does what gopacket's does:
// checksums and ICRC are written as given.
func SerializeLayers(w gopacket.SerializeBuffer, opts gopacket.SerializeOptions, ls ...gopacket.SerializableLayer) error {
	c, ok := findCarriage(ls)
	if !opts.ComputeChecksums || !ok {
		return gopacket.SerializeLayers(w, opts, ls...)
	}
	if err := w.Clear(); err != nil {
		return err
	}
	for i := len(ls) - 1; i >= 0; i-- {
		o := opts
		o.ComputeChecksums = i != c.udpAt && i != c.bthAt
		if err := ls[i].SerializeTo(w, o); err != nil {
			return err
		}
		w.PushLayer(ls[i].LayerType())
		if i == c.ipAt {
			if err := c.seal(w.Bytes()); err != nil {
				return err
			}
		}
	}
	return nil
}

// carriage is the layers that the ICRC has to do with, and their places in the
// list of layers.
type carriage struct {
	ipAt, udpAt, bthAt int // of IP in IP the innermost

	udp  *layers.UDP
	bth  *BTH
	icrc *ICRC
}

// findCarriage returns the carriage of the first BTH; ok is false if there is
// none with IP and UDP layers before it.
func findCarriage(ls []gopacket.SerializableLayer) (c carriage, ok bool) {
	c.ipAt = -1
	for i, l := range ls {
		switch l := l.(type) {
		case *layers.IPv4, *layers.IPv6:
			c.ipAt, c.udp = i, nil
		case *layers.UDP:
			c.udpAt, c.udp = i, l
		case *BTH:
			c.bthAt, c.bth, c.icrc = i, l, &l.ICRC
			if last, ok := ls[len(ls)-1].(*ICRC); ok {
				c.icrc = last
			}
			return c, c.ipAt >= 0 && c.udp != nil
		}
	}
	return c, false
}

// seal puts ICRC and UDP checksum into the finished IP packet.
func (c *carriage) seal(ip []byte) error {
	if err := icrc.Put(ip, c.icrc.Coverage); err != nil {
		return err
	}
	var d rocev2.Datagram
	if err := d.DecodeIP(ip); err != nil {
		return err
	}
	c.icrc.Value = binary.LittleEndian.Uint32(d.Data[len(d.Data)-icrcSize:])
	c.bth.ICRC.Value = c.icrc.Value
	if !wantsChecksum(c.udp) {
		return nil
	}
	d.Checksum = 0xFFFF // to be computed
	out, err := d.AppendBinary(nil)
	if err != nil {
		return err
	}
	at := len(out) - len(d.Data) - 2 // the end of the UDP header
	copy(ip[at:], out[at:at+2])
	c.udp.Checksum = binary.BigEndian.Uint16(out[at:])
	return nil
}

// wantsChecksum tells whether the UDP checksum is to be computed.
func wantsChecksum(udp *layers.UDP) bool {
	if udp.Checksum != 0 {
		return true
	}
	probe := *udp // fails if no network layer was set, which cannot be seen
	return probe.SerializeTo(gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{ComputeChecksums: true}) == nil
}
