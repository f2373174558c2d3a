package answer

import (
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/rocev2"
)

// CheckFrame returns why a message to another node than the flow's source may not be about this frame: the errors of
// [rocev2.Frame.MayAnswer], and rocev2.ErrNotification for FCN and proxy messages to the experimental ports and to
// port. Port 0 stands for none. A builder knows only the configured port of its own message, not that of the other.
func CheckFrame(f *rocev2.Frame, port uint16) error {
	if port == 0 {
		port = wire.PortFCN
	}
	return f.MayAnswer(wire.PortFCN, wire.PortProxy, port)
}
