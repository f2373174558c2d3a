package run

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/netio"
)

// A sink is a table [sink.NAME] of one type.
type sink interface {
	check() error
	requiredCapabilities() []string
	// deviceName returns the interface or VRF by which all packets leave, or "" if routes decide.
	deviceName() string
	// canWrite reports whether packets get out, as far as the sink itself knows.
	canWrite() bool
	// open opens the sink for one role. now is the time of the packet that causes the next one.
	open(now *time.Time) (netio.Sink, error)
}

// sinks creates a sink by type.
var sinks = map[string]func() sink{
	"raw":     func() sink { return new(rawSink) },
	"packet":  func() sink { return new(portSink) },
	"capture": func() sink { return new(captureSink) },
}

// sinkCommon has the keys of sinks of every type.
type sinkCommon struct {
	Type      string `json:"type"`
	PerSecond uint32 `json:"per_second"` // packets per second over all roles; 0: no limit
	DSCP      int    `json:"dscp"`       // DSCP of notifications; -1 if absent: the role's
}

func (s *sinkEntry) check() error {
	if s.DSCP > 63 {
		return config.Wrong("dscp", "%d: want 0 to 63", s.DSCP)
	}
	return s.sink.check()
}

// rawSink sends packets by the kernel's routes.
type rawSink struct {
	Device string `json:"device"` // interface or VRF by which all packets leave, or ""
}

func (s *rawSink) check() error                        { return checkPortName("device", s.Device) }
func (s *rawSink) requiredCapabilities() []string      { return []string{"CAP_NET_RAW"} }
func (s *rawSink) canWrite() bool                      { return true }
func (s *rawSink) deviceName() string                  { return s.Device }
func (s *rawSink) open(*time.Time) (netio.Sink, error) { return netio.OpenRaw(s.Device) }

// portSink sends packets to one neighbour at one interface.
type portSink struct {
	Interface string       `json:"interface"`
	Neighbour hardwareAddr `json:"neighbour"`
}

// A hardwareAddr is a MAC address, such as 02:00:00:00:00:01.
type hardwareAddr net.HardwareAddr

func (a *hardwareAddr) UnmarshalText(text []byte) error {
	parsed, err := net.ParseMAC(string(text))
	if err != nil || len(parsed) != 6 {
		return fmt.Errorf("%q: want a hardware address, as in 02:00:00:00:00:01", text)
	}
	*a = hardwareAddr(parsed)
	return nil
}

func (s *portSink) check() error {
	switch to := s.Neighbour; {
	case to == nil:
		return config.Wrong("neighbour", "missing")
	case to[0]&1 == 1:
		return config.Wrong("neighbour", "%v: want the address of one neighbour, not of a group", net.HardwareAddr(to))
	case bytes.Equal(to, make([]byte, 6)) && s.Interface != "lo":
		return config.Wrong("neighbour", "%v: want the address of a neighbour", net.HardwareAddr(to))
	}
	return cmp.Or(requireText("interface", s.Interface), checkPortName("interface", s.Interface))
}

// checkPortName rejects names that do not name one interface.
func checkPortName(key, name string) error {
	if name == "any" {
		return config.Wrong(key, "any: want the name of one interface")
	}
	return checkDeviceName(key, name)
}

func (s *portSink) requiredCapabilities() []string { return []string{"CAP_NET_RAW"} }
func (s *portSink) deviceName() string             { return s.Interface }
func (s *portSink) canWrite() bool                 { return true }
func (s *portSink) open(*time.Time) (netio.Sink, error) {
	return netio.OpenPort(s.Interface, net.HardwareAddr(s.Neighbour))
}

// A sendFailure is a reason why a packet was not sent.
type sendFailure uint8

const (
	noRoute sendFailure = iota
	noNeighbour
	linkDown
	noBuffer
	limited
	notOpen
	otherFailure
	failures
)

var failureNames = [failures]string{
	"no_route", "no_neighbour", "link_down", "no_buffer", "limited", "not_open", "other",
}

// classifyError returns the failure that an error of a send call means.
func classifyError(err error) sendFailure {
	switch {
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return noRoute
	case errors.Is(err, syscall.ENETDOWN), errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV):
		return linkDown
	case errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return noBuffer
	}
	return otherFailure
}
