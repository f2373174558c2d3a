package node

import "github.com/rocecn/rocecn/internal/enumtext"

// A Request is the request of an accepted notification. ActionAccepted does not imply that a flow must slow down: it
// also occurs with a PPFC that resumes the flow.
type Request uint8

// The requests. NoRequest, the zero value, occurs with every Action other than ActionAccepted, and with a notification
// that repeats an earlier one (Decision.Repeated).
const (
	NoRequest       Request = iota
	RequestSlowDown         // reduce the rate of the flow (CNP, Fast CNP)
	RequestStop             // send nothing for Decision.Pause, or until RequestResume (PPFC)
	RequestHold             // do not send faster than now for Decision.Pause, or until RequestResume (PPFC)
	RequestAlarm            // inform an operator, and change nothing (PPFC)
	RequestResume           // end the stop, hold or alarm (PPFC)
	RequestNotify           // notify the sender of the flow by other means than RoCEv2 (proxy)
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
