package node

import "github.com/rocecn/rocecn/internal/enumtext"

// A Request is the request of an accepted notification. ActionAccepted does not imply that a flow has to
// become slower: a PPFC that lets it run again is accepted as well.
type Request uint8

// The requests. NoRequest, the zero value, is the request of every Decision with an Action other than ActionAccepted,
// and of a notification that repeats an earlier one (Decision.Repeated).
const (
	NoRequest       Request = iota
	RequestSlowDown         // reduce the rate of the flow (CNP, Fast CNP)
	RequestStop             // send nothing until Resume, or for Decision.Pause (PPFC)
	RequestHold             // do not send faster than now until Resume, or for Decision.Pause (PPFC)
	RequestAlarm            // change nothing, but tell an operator (PPFC)
	RequestResume           // Stop, Hold and Alarm have ended (PPFC)
	RequestNotify           // notify the sender of the flow by a means of its own (proxy)
)

var requestTexts = []string{"", "slow_down", "stop", "hold", "alarm", "resume", "notify"}

// String returns the request in lower case, as in "slow_down"; the empty string for NoRequest.
func (r Request) String() string {
	if r == NoRequest {
		return ""
	}
	return enumtext.Name(r, requestTexts, "Request")
}

// MarshalText returns the text of String.
func (r Request) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText sets r to the request that String returns the text for.
func (r *Request) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(r, text, "node", "request")
}
