// Package message decodes the messages of RoCEv2 congestion signalling: [Message.Decode] returns the [Kind] of the
// message in a frame or an IP packet and decodes it. It verifies the ICRC of CNPs, Fast CNPs and PPFC notifications and
// the UDP checksum of FCN and proxy messages, but not the ICRC of data and acknowledgements. A program that receives
// only one kind of message can use the package of that kind instead. See the examples.
//
//	UDP to 4791   opcode 0x81, P bit, not 16 octets   KindPPFC
//	              opcode 0x81, Fast CNP option        KindFastCNP
//	              opcode 0x81, another option that    KindUnknownOption
//	              must not be skipped
//	              opcode 0x81                         KindCNP
//	              Acknowledge, ATOMIC Acknowledge     KindAck
//	              other opcodes, including unknown    KindData
//	UDP to the FCN port                               KindFCN
//	UDP to the proxy port                             KindProxy
//	MAC control frames, opcodes 0x0101 and 0x0001     KindPFC, KindPause
//
// The API of this package is stable except for the parts with types and values from drafts: the fields FastCNP,
// PPFC, FCN and Proxy of [Message], and the fields FCNPort, ProxyPort, ProxyFamily and CodePoints of [Config]. They
// change with the packages fastcnp, ppfc, fcn and proxymsg.
package message

import (
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
	// KindOther is a packet that is neither RoCEv2 nor one of the messages below.
	KindOther Kind = iota

	// KindError is a message of one of the kinds below that cannot be decoded. If Reach is not ReachNothing,
	// Packet.DstPort shows its protocol.
	KindError

	KindData    // RoCEv2 other than acknowledgements and notifications; Packet.Trimmed if a switch has trimmed it
	KindAck     // Acknowledge or ATOMIC Acknowledge
	KindCNP     // CNP of a receiver
	KindFastCNP // Fast CNP, see package fastcnp
	KindPPFC    // PPFC notification, see package ppfc
	KindFCN     // FCN message, see package fcn
	KindProxy   // proxy message, see package proxymsg
	KindPFC     // Ethernet flow control of priorities; Reach is ReachNothing
	KindPause   // Ethernet flow control of the whole link; Reach is ReachNothing

	// KindUnknownOption is a packet with opcode 0x81 and a destination option that is not one of Config.CodePoints and
	// that a host must not skip if it does not know it (RFC 8200 section 4.2). It may be a Fast CNP with the option
	// type of another deployment: then DestQP is a queue pair of another host, and no queue pair must slow down.
	KindUnknownOption
)

var kinds = [...]string{
	"other", "error", "data", "ack", "cnp", "fastcnp", "ppfc", "fcn", "proxy", "pfc", "pause",
	"unknown_option",
}

// String returns the kind in lower case, as in "fastcnp" or "unknown_option". It returns "error" for KindError.
func (k Kind) String() string { return enumtext.Name(k, kinds[:], "Kind") }

// MarshalText returns the text of String.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText sets k to the kind with this String.
func (k *Kind) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(k, text, "message", "kind")
}

// Config is the configuration of a deployment. The zero value has the defaults.
type Config struct {
	FCNPort     uint16             // UDP port of FCN; 0 stands for fcn.Port
	ProxyPort   uint16             // UDP port of proxy messages; 0 stands for proxymsg.Port
	ProxyFamily proxymsg.Family    // family of the five-tuples of proxy messages; 0: inferred (D8)
	CodePoints  fastcnp.CodePoints // types of the Fast CNP options (D2)

	// NoFCN, NoProxy and NoPPFC are set for messages that a deployment does not use. The FCN or proxy port is then
	// ignored, and the P bit is a reserved bit of a CNP.
	NoFCN, NoProxy, NoPPFC bool

	// SkipVerify disables the verification of ICRC and UDP checksum, for callers that do it or need only the kind.
	SkipVerify bool
}

// udpPorts returns the UDP ports of FCN and proxy messages, and rocev2.Port for those that are not used.
func (c *Config) udpPorts() (fcnPort, proxyPort uint16) {
	return choosePort(c.FCNPort, fcn.Port, c.NoFCN), choosePort(c.ProxyPort, proxymsg.Port, c.NoProxy)
}

// choosePort returns one of the ports of udpPorts. It does not use cmp.Or, which would take 10 % of the time to decode
// an FCN message.
func choosePort(configured, standard uint16, unused bool) uint16 {
	switch {
	case unused:
		return rocev2.Port
	case configured == 0:
		return standard
	}
	return configured
}

// Reach is the part of Message.Packet that the last call of Decode set.
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

// Message is a message of any kind. It can be reused for decoding, without allocations. It is large: pass a pointer.
type Message struct {
	Kind  Kind
	Reach Reach

	// Verified is true if Decode verified the ICRC of a CNP, Fast CNP or PPFC notification or the UDP checksum of an
	// FCN or proxy message, and it is correct. It is false if octets are missing (Packet.Truncated), if the
	// UDP checksum is 0, which means none over IPv4, with Config.SkipVerify, and for other kinds:
	// [rocev2.Packet.VerifyICRC] verifies data and acknowledgements.
	Verified bool

	// Packet is set as far as Reach.
	Packet rocev2.Packet

	// Only the field of Kind is valid. The others are those of earlier messages.
	CNP     cnp.CNP
	FastCNP fastcnp.Notification
	PPFC    ppfc.Notification
	FCN     fcn.Message
	Proxy   proxymsg.Message
	PFC     pfc.PFC
	Pause   pfc.Pause

	frame rocev2.Frame // used by Decode
}

// Decode sets m from a frame or an IP packet, depending on o. m aliases b.
//
// Kind and Reach are always set. The error is not nil in these cases:
//   - Kind is KindOther: the reason, which matches [rocev2.ErrNotRoCEv2].
//   - Kind is KindError: the defect of the packet.
//   - Another kind: the ICRC or UDP checksum is wrong. The error matches rocecn.ErrICRC. Ignore the message.
//
// Decode verifies the ICRC of CNPs, Fast CNPs and PPFC notifications and the UDP
// checksum of FCN and proxy messages unless octets are missing: see Verified and
// Config.SkipVerify. It does not verify the ICRC of data and acknowledgements.
//
// If the outer packet is KindOther, Decode decodes the packet inside all tunnels and mirrors, as the command rocecn
// does. Packet.Outer is then not empty: the message was not sent to the node that the frame is addressed to, and a host
// must not act on it. With o.Outer, Decode looks only into IP in IP (D12). DecodeView decodes one of the two packets.
func (m *Message) Decode(b []byte, o rocev2.DecodeOptions, c Config) error {
	m.Verified = false
	err := m.Packet.Decode(b, o)
	if err == nil {
		return m.decodeTransport(&c)
	}
	m.frame.Decode(b, o)
	err = m.decodeOther(m.frame.Outer(), err, &c)
	if m.Kind != KindOther || m.frame.Tunnels().Len() == 0 { // there are none with o.Outer
		return err
	}
	if inner := m.DecodeView(m.frame.Inner(), c); m.Kind != KindOther {
		return inner
	}
	return err
}

// DecodeView sets m from one of the views of a decoded frame, as Decode does from a frame. The outer view is that of
// Decode with DecodeOptions.Outer: a mirrored message is KindOther there, because it was sent to another node. m
// aliases the octets of the frame.
func (m *Message) DecodeView(v rocev2.View, c Config) error {
	m.Verified = false
	if !v.IsInner() && v.Mirrored() {
		return m.decodeNeither(v.Frame(), rocev2.ErrMirrored, true)
	}
	if err := v.Packet(&m.Packet); err != nil {
		return m.decodeOther(v, err, &c)
	}
	return m.decodeTransport(&c)
}

// markError sets Kind to KindError if err is not nil, and returns err.
func (m *Message) markError(err error) error {
	if err != nil {
		m.Kind = KindError
	}
	return err
}

// decodeControl decodes a MAC control frame, which begins after the EtherType. other is
// the error for control frames of other kinds.
func (m *Message) decodeControl(control []byte, other error) (err error) {
	switch opcode, _ := pfc.Opcode(control); opcode {
	case pfc.OpcodePFC:
		m.Kind = KindPFC
		_, err = m.PFC.Decode(control)
	case pfc.OpcodePause:
		m.Kind = KindPause
		_, err = m.Pause.Decode(control)
	default:
		m.Kind = KindOther
		return other
	}
	return m.markError(err)
}

// decodeTransport decodes the data of a UDP datagram to port 4791.
func (m *Message) decodeTransport(c *Config) error {
	m.Reach = ReachTransport
	switch op := m.Packet.BTH.Opcode; {
	case op == bth.CNP:
		if err := m.decodeNotification(c); err != nil {
			return m.markError(err)
		}
		return m.verifyICRC(c)
	case op.IsAcknowledge():
		m.Kind = KindAck
	default:
		m.Kind = KindData
	}
	return nil
}

// decodeNotification decodes a packet with opcode 0x81.
func (m *Message) decodeNotification(c *Config) (err error) {
	p := &m.Packet
	// Decoding a complete CNP directly into m.CNP is faster than FromPacket and a copy.
	size := len(p.Data) - 4 // without the ICRC; 0 if octets are missing
	if p.Truncated {
		size = 0
	}
	switch {
	case size == cnp.Size && len(p.Ext) == 0:
		m.Kind = KindCNP
		_, err = m.CNP.Decode(p.Data[:size])
		return err
	case ppfc.IsNotification(p):
		if c.NoPPFC {
			return wireerr.CNPLength
		}
		m.Kind = KindPPFC
		if size == bth.Size+ppfc.SizeIPv4 || size == bth.Size+ppfc.SizeIPv6 {
			err = m.PPFC.Decode(p.Data[:size])
		} else {
			m.PPFC, err = ppfc.FromPacket(p)
		}
		return err
	case len(p.Ext) == 0: // no option
		m.Kind = KindCNP
		m.CNP, err = cnp.FromPacket(p)
		return err
	}
	m.Kind = KindFastCNP
	if m.FastCNP, err = fastcnp.FromPacket(p, c.CodePoints); err == fastcnp.ErrNotFastCNP {
		m.Kind = KindCNP
		var c cnp.CNP
		switch c, err = cnp.FromPacket(p); err {
		case nil:
			m.CNP = c
		case cnp.ErrOption:
			m.Kind, err = KindUnknownOption, nil
		}
	}
	return err
}

// isOther reports whether an error of Packet.Decode or Datagram.Decode means other traffic.
func isOther(err error) bool {
	return err == rocev2.ErrPort || wireerr.HasRoot(err, rocev2.ErrNotRoCEv2)
}

// decodeOther decodes a packet that is not RoCEv2 because of err.
func (m *Message) decodeOther(v rocev2.View, err error, c *Config) error {
	other := isOther(err)
	if hasUDP(err, other) {
		fcnPort, proxyPort := c.udpPorts()
		datagramErr := v.Datagram(&m.Packet.Datagram, rocev2.Port, fcnPort, proxyPort)
		if datagramErr == nil {
			return m.decodeDatagram(err, fcnPort, c)
		}
		err, other = datagramErr, isOther(datagramErr)
	}
	return m.decodeNeither(v.Frame(), err, other)
}

// hasUDP reports whether a packet that is not RoCEv2 because of err may have a UDP header. If it has none, decoding a
// datagram would return err again.
func hasUDP(err error, other bool) bool { return !other || err == rocev2.ErrPort }

// decodeDatagram decodes a datagram that is not RoCEv2 because of err.
func (m *Message) decodeDatagram(err error, fcnPort uint16, c *Config) error {
	d := &m.Packet.Datagram
	m.Reach = ReachUDP
	switch d.DstPort {
	case rocev2.Port: // RoCEv2 with an error after the UDP header
		m.Kind = KindError
		return err
	case fcnPort:
		m.Kind = KindFCN
		m.FCN, err = fcn.FromDatagram(d)
	default:
		m.Kind = KindProxy
		m.Proxy, err = proxymsg.FromDatagram(d, c.ProxyFamily)
	}
	if err != nil {
		return m.markError(err)
	}
	return m.verifyChecksum(c)
}

// verifyICRC verifies the ICRC of the packet if it is complete.
func (m *Message) verifyICRC(c *Config) error {
	if c.SkipVerify || m.Packet.Truncated || m.Kind == KindUnknownOption {
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
	m.Verified = err == nil && m.Packet.Datagram.Checksum != 0
	return err
}

// decodeNeither decodes a frame that, because of err, has no datagram to one of the ports. If that is other traffic, it
// may be flow control.
func (m *Message) decodeNeither(f *rocev2.Frame, err error, other bool) error {
	m.Kind, m.Reach = KindError, ReachNothing
	switch {
	case !other:
	case f.EtherType() == pfc.EtherType:
		return m.decodeControl(f.LinkPayload(), err)
	default:
		m.Kind = KindOther
	}
	return err
}
