package congested

import "github.com/rocecn/rocecn/internal/enumtext"

// A Method is a way of notifying a sender.
type Method uint8

// The methods.
const (
	NoMethod      Method = iota // the sender is not notified
	MethodFastCNP               // to the sender (FAST)
	MethodProxy                 // to the sender's proxy (PROXY)
	MethodFCN                   // to the ingress PE of the tunnel that the packet came in (FCN)
	MethodPPFC                  // to the sender, which is to pause (PPFC)
	MethodMark                  // only by ECN on the packet
)

var methods = []string{"none", "fastcnp", "proxy", "fcn", "ppfc", "mark"}

// String returns the method in lower case, "none" for NoMethod.
func (m Method) String() string { return enumtext.Name(m, methods, "Method") }

// MarshalText returns the text of String.
func (m Method) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText sets m from the text of String.
func (m *Method) UnmarshalText(text []byte) error { return enumtext.OneOf(m, text, methods) }

// A Capability is the knowledge of a node about the support of Fast CNP by a sender. The draft does not define the
// source of that knowledge (FAST section 4).
type Capability uint8

// The capabilities.
const (
	CapabilityUnknown Capability = iota // send, and mark ECN as well
	Capable                             // send, and do not mark ECN
	Incapable                           // mark ECN, and do not send
)

var capabilities = []string{"unknown", "yes", "no"}

// String returns "unknown", "yes" or "no".
func (c Capability) String() string { return enumtext.Name(c, capabilities, "Capability") }

// MarshalText returns the text of String.
func (c Capability) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText sets c from the text of String.
func (c *Capability) UnmarshalText(text []byte) error { return enumtext.OneOf(c, text, capabilities) }
