// Package message decodes the messages of RoCEv2 congestion signalling. It
// verifies the ICRC of CNPs, Fast CNPs and PPFC notifications and the UDP
// checksum of FCN and proxy messages, but not the ICRC of data and
// acknowledgements. Given a frame or an IP packet, it reports the kind of the
// message and decodes it.
//
//	UDP to 4791   OpCode 0x81, P bit, not 16 octets   PPFC
//	              OpCode 0x81, Fast CNP option        Fast CNP
//	              OpCode 0x81, an option of another   UnknownOption
//	              type that must not be skipped
//	              OpCode 0x81                         CNP
//	              Acknowledge, ATOMIC Acknowledge     Ack
//	              other opcodes, unknown ones too     Data
//	UDP to the FCN port                               FCN
//	UDP to the proxy port                             Proxy
//	MAC control frames, opcodes 0x0101 and 0x0001     PFC, Pause
//
// A program that waits for one kind only needs only the package of that kind.
//
// The API of this package is stable except for the parts whose types and values come from drafts: the fields FastCNP,
// PPFC, FCN and Proxy of [Message], and the fields FCNPort, ProxyPort, ProxyFamily and CodePoints of [Config]. They
// change with the packages fastcnp, ppfc, fcn and proxymsg.
package message

import (
	"errors"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// Kind is a kind of message.
type Kind uint8

// The kinds.
const (
	Other Kind = iota // neither RoCEv2 nor one of the drafts' messages
	// one of those below, but it cannot be decoded; if Reach is not ReachNothing, see Packet.DstPort
	Broken
	Data    // other RoCEv2
	Ack     // Acknowledge and ATOMIC Acknowledge
	CNP     // of a receiver
	FastCNP // with the option of package fastcnp
	PPFC
	FCN
	Proxy
	PFC   // Ethernet flow control of single priorities; Reach is ReachNothing
	Pause // … of the whole link

	// UnknownOption is OpCode 0x81 with a destination option that a host must
	// not skip if it does not know it (RFC 8200 section 4.2), and that is not
	// one of Config.CodePoints. It may be a Fast CNP of another deployment's
	// option type. Then DestQP is a queue pair of another host, and no queue
	// pair must slow down.
	UnknownOption
)

var kinds = [...]string{
	"other", "error", "data", "ack", "cnp", "fastcnp", "ppfc", "fcn", "proxy", "pfc", "pause",
	"unknown_option",
}

// String returns the kind in lower case, "error" for Broken.
func (k Kind) String() string { return enumtext.Name(k, kinds[:], "Kind") }

// MarshalText returns the text of String.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText sets k to the kind that String returns the text for.
func (k *Kind) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(k, text, "message", "kind")
}

// Config has the choices of a deployment. The zero value has the defaults.
type Config struct {
	FCNPort     uint16             // 0 stands for fcn.Port
	ProxyPort   uint16             // 0 stands for proxymsg.Port
	ProxyFamily proxymsg.Family    // of the five-tuples of proxy messages; 0: inferred (D8)
	CodePoints  fastcnp.CodePoints // of the Fast CNP options (D2)

	// Messages that a deployment does not use. FCN or proxy ports are then as
	// any other, and the P bit is one of a CNP's reserved bits.
	NoFCN, NoProxy, NoPPFC bool

	// SkipVerify: do not verify ICRC and UDP checksum, because the caller does it
	// or needs only the kind.
	SkipVerify bool
}

// ports returns the UDP ports of FCN and proxy messages, or Port of package rocev2 for those that are not used.
func (c *Config) ports() (fcnPort, proxyPort uint16) {
	return port(c.FCNPort, fcn.Port, c.NoFCN), port(c.ProxyPort, proxymsg.Port, c.NoProxy)
}

// port returns one of ports. It does not use cmp.Or, which would take a tenth of the time to decode an FCN.
func port(configured, standard uint16, unused bool) uint16 {
	switch {
	case unused:
		return rocev2.Port
	case configured == 0:
		return standard
	}
	return configured
}

// Reach is the part of Message.Packet that the last Decode set.
type Reach uint8

// The parts.
const (
	ReachNothing   Reach = iota // no complete UDP datagram to one of the ports
	ReachUDP                    // Packet.Datagram is set
	ReachTransport              // all of Packet is set
)

var reaches = [...]string{"nothing", "UDP", "transport"}

// String returns "nothing", "UDP" or "transport".
func (r Reach) String() string { return enumtext.Name(r, reaches[:], "Reach") }

// A Message is a message of any kind. It can be decoded into again and again
// without an allocation. It is large: keep one and pass a pointer.
type Message struct {
	Kind  Kind
	Reach Reach

	// Verified is set if Decode verified the ICRC of a CNP, Fast CNP or PPFC or the
	// UDP checksum of an FCN or proxy message, and it is right. It is not set if
	// octets are missing (Packet.Truncated), with Config.SkipVerify, and for other
	// kinds: [rocev2.Packet.VerifyICRC] verifies data and acknowledgements.
	Verified bool

	// Packet is set as far as Reach says.
	Packet rocev2.Packet

	// The one that Kind names, if it names one, is set; the others are left
	// over from earlier messages.
	CNP     cnp.CNP
	FastCNP fastcnp.Notification
	PPFC    ppfc.Notification
	FCN     fcn.Message
	Proxy   proxymsg.Message
	PFC     pfc.PFC
	Pause   pfc.Pause

	frame rocev2.Frame // of Decode
}

// Decode sets m from a frame or an IP packet, as o describes it. m aliases b.
//
// Kind and Reach are always set. The error is not nil in these cases:
//   - Kind is Other: the reason why the packet is neither RoCEv2 nor one of the
//     messages, which [rocev2.ErrNotRoCEv2] matches.
//   - Kind is Broken: what is wrong with the packet.
//   - Another kind: the ICRC or UDP checksum is wrong, an error of
//     rocecn.ErrICRC. The message must not be acted on.
//
// Decode verifies the ICRC of CNPs, Fast CNPs and PPFC notifications and the UDP
// checksum of FCN and proxy messages unless octets are missing: see Verified and
// Config.SkipVerify. It does not verify the ICRC of data and acknowledgements.
//
// Decode looks only into IP in IP, as a host would: packets inside VXLAN, Geneve, GRE or MPLS are Other.
// DecodeInner looks into all tunnels.
func (m *Message) Decode(b []byte, o rocev2.DecodeOptions, c Config) error {
	m.Verified = false
	err := m.Packet.Decode(b, o)
	if err == nil {
		return m.decodeTransport(&c)
	}
	fcnPort, proxyPort := c.ports()
	switch otherwise := m.Packet.Datagram.Decode(b, o, rocev2.Port, fcnPort, proxyPort); otherwise {
	case nil:
		return m.decodeDatagram(err, fcnPort, &c)
	case rocev2.ErrPort:
		m.Kind, m.Reach = Other, ReachNothing
		return otherwise
	default:
		m.frame.Decode(b, o)
		return m.decodeNeither(&m.frame, otherwise)
	}
}

// DecodeFrame is Decode for a decoded frame, in its outer view. A message that comes from a mirror is Other, because it
// was sent to another node. m aliases the octets that f aliases.
func (m *Message) DecodeFrame(f *rocev2.Frame, c Config) error {
	v := f.Outer()
	if v.Mirrored() {
		m.Verified = false
		return m.decodeNeither(f, rocev2.ErrMirrored)
	}
	return m.decodeView(f, v, &c)
}

// decodeView is DecodeFrame for one of the views of a frame.
func (m *Message) decodeView(f *rocev2.Frame, v rocev2.View, c *Config) error {
	m.Verified = false
	if err := v.Packet(&m.Packet); err != nil {
		return m.decodeOther(f, v, err, c)
	}
	return m.decodeTransport(c)
}

// DecodeInner is DecodeFrame for the packet inside all of the frame's tunnels. Without a tunnel it is the same.
func (m *Message) DecodeInner(f *rocev2.Frame, c Config) error { return m.decodeView(f, f.Inner(), &c) }

// broken sets the kind of a message that cannot be decoded, and returns err.
func (m *Message) broken(err error) error {
	if err != nil {
		m.Kind = Broken
	}
	return err
}

// decodeControl decodes a MAC control frame, given without its EtherType. other
// is the error to return for control frames of other kinds.
func (m *Message) decodeControl(control []byte, other error) (err error) {
	switch opcode, _ := pfc.Opcode(control); opcode {
	case pfc.OpcodePFC:
		m.Kind = PFC
		_, err = m.PFC.Decode(control)
	case pfc.OpcodePause:
		m.Kind = Pause
		_, err = m.Pause.Decode(control)
	default:
		m.Kind = Other
		return other
	}
	return m.broken(err)
}

// decodeTransport decodes the data of a UDP datagram to port 4791.
func (m *Message) decodeTransport(c *Config) error {
	m.Reach = ReachTransport
	switch op := m.Packet.BTH.Opcode; {
	case op == bth.CNP:
		if err := m.decodeNotification(c); err != nil {
			return m.broken(err)
		}
		return m.verifyICRC(c)
	case op.IsAcknowledge():
		m.Kind = Ack
	default:
		m.Kind = Data
	}
	return nil
}

// decodeNotification decodes a packet with OpCode 0x81.
func (m *Message) decodeNotification(c *Config) (err error) {
	p := &m.Packet
	// A complete CNP is decoded directly into m.CNP, which is faster than
	// FromPacket and a copy.
	whole := len(p.Data) - 4 // up to the ICRC
	if p.Truncated {
		whole = 0
	}
	switch {
	case whole == cnp.Size && len(p.Ext) == 0:
		m.Kind = CNP
		_, err = m.CNP.Decode(p.Data[:whole])
		return err
	case ppfc.Is(p):
		if c.NoPPFC {
			return wireerr.CNPLength
		}
		m.Kind = PPFC
		if whole == bth.Size+ppfc.SizeIPv4 || whole == bth.Size+ppfc.SizeIPv6 {
			err = m.PPFC.Decode(p.Data[:whole])
		} else {
			m.PPFC, err = ppfc.FromPacket(p)
		}
		return err
	case len(p.Ext) == 0: // no option: do not copy a FastCNP, which is large
		m.Kind = CNP
		m.CNP, err = cnp.FromPacket(p)
		return err
	}
	m.Kind = FastCNP
	if err = m.FastCNP.DecodePacket(p, c.CodePoints); err == fastcnp.ErrNotFastCNP {
		m.Kind = CNP
		var c cnp.CNP
		switch c, err = cnp.FromPacket(p); err {
		case nil:
			m.CNP = c
		case cnp.ErrOption:
			m.Kind, err = UnknownOption, nil
		}
	}
	return err
}

// decodeOther decodes a packet that is not RoCEv2 because of err: an FCN or proxy message, flow control, or
// neither.
func (m *Message) decodeOther(f *rocev2.Frame, v rocev2.View, err error, c *Config) error {
	fcnPort, proxyPort := c.ports()
	otherwise := v.Datagram(&m.Packet.Datagram, rocev2.Port, fcnPort, proxyPort)
	if otherwise != nil {
		return m.decodeNeither(f, otherwise)
	}
	return m.decodeDatagram(err, fcnPort, c)
}

// decodeDatagram decodes a datagram that is not RoCEv2 because of err.
func (m *Message) decodeDatagram(err error, fcnPort uint16, c *Config) error {
	d := &m.Packet.Datagram
	m.Reach = ReachUDP
	switch d.DstPort {
	case rocev2.Port: // RoCEv2 that is broken after its UDP header
		m.Kind = Broken
		return err
	case fcnPort:
		m.Kind = FCN
		m.FCN, err = fcn.FromDatagram(d)
	default:
		m.Kind = Proxy
		m.Proxy, err = proxymsg.FromDatagram(d, c.ProxyFamily)
	}
	if err != nil {
		return m.broken(err)
	}
	return m.verifyChecksum(c)
}

// verifyICRC verifies the ICRC of the packet if it is complete.
func (m *Message) verifyICRC(c *Config) error {
	if c.SkipVerify || m.Packet.Truncated || m.Kind == UnknownOption {
		return nil
	}
	_, err := m.Packet.VerifyICRC()
	m.Verified = err == nil
	return err
}

// verifyChecksum verifies the UDP checksum of the datagram if it is complete.
func (m *Message) verifyChecksum(c *Config) error {
	if c.SkipVerify || m.Packet.Datagram.Truncated {
		return nil
	}
	err := m.Packet.Datagram.VerifyChecksum()
	m.Verified = err == nil
	return err
}

// decodeNeither decodes a frame without a datagram to one of the ports because of err: flow control, or something else.
func (m *Message) decodeNeither(f *rocev2.Frame, err error) error {
	m.Kind, m.Reach = Broken, ReachNothing
	switch {
	case !errors.Is(err, rocev2.ErrNotRoCEv2):
	case f.EtherType() == pfc.EtherType:
		return m.decodeControl(f.LinkPayload(), err)
	default:
		m.Kind = Other
	}
	return err
}
