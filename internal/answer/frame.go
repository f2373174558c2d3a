package answer

import (
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/rocev2"
)

// CheckFrame returns why a message to another node than the flow's source may not be about this frame: the errors of
// [rocev2.Frame.MayAnswer], and rocev2.ErrNotification for FCN and proxy messages as well. port is another UDP port of
// such messages, or 0.
func CheckFrame(f *rocev2.Frame, port uint16) error {
	if err := f.MayAnswer(); err != nil {
		return err
	}
	t, err := f.FiveTuple()
	if err != nil {
		return err
	}
	if t.Protocol == wire.ProtoUDP &&
		(t.DstPort == wire.PortFCN || t.DstPort == wire.PortProxy || port != 0 && t.DstPort == port) {
		return rocev2.ErrNotification
	}
	return nil
}
