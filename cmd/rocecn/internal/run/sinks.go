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

// A sink is what a table [sink.NAME] of one type says.
type sink interface {
	check() error
	requiredCapabilities() []string
	// device is the interface or VRF by which all leaves, empty if the routes say.
	deviceName() string
	// works reports whether what is sent gets out, as far as the sink itself knows.
	canWrite() bool
	// open opens it for one role. now is the time of the packet that caused what is sent.
	open(now *time.Time) (netio.Sink, error)
}

// sinks are the types of sinks.
var sinks = map[string]func() sink{
	"raw":     func() sink { return new(rawSink) },
	"packet":  func() sink { return new(portSink) },
	"capture": func() sink { return new(captureSink) },
}

// sinkCommon are the keys of sinks of every type.
type sinkCommon struct {
	Type      string `json:"type"`
	PerSecond uint32 `json:"per_second"` // packets, over all roles; 0: no limit
	DSCP      int    `json:"dscp"`       // of notifications; -1, which is no value of the key: that of the role
}

func (s *sinkEntry) check() error {
	if s.DSCP > 63 {
		return config.Wrong("dscp", "%d: 0 to 63 allowed", s.DSCP)
	}
	return s.sink.check()
}

// rawSink is sent what the kernel routes.
type rawSink struct {
	Device string `json:"device"` // an interface or a VRF by which all leaves
}

func (s *rawSink) check() error                        { return checkPortName("device", s.Device) }
func (s *rawSink) requiredCapabilities() []string      { return []string{"CAP_NET_RAW"} }
func (s *rawSink) canWrite() bool                      { return true }
func (s *rawSink) deviceName() string                  { return s.Device }
func (s *rawSink) open(*time.Time) (netio.Sink, error) { return toSink(netio.OpenRaw(s.Device)) }

// portSink is sent what leaves by an interface to one neighbour.
type portSink struct {
	Interface string       `json:"interface"`
	Neighbour hardwareAddr `json:"neighbour"`
}

// A hardwareAddr is written as in 02:00:00:00:00:01.
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
		return config.Wrong("neighbour", "%v is the address of a group, not of one neighbour", net.HardwareAddr(to))
	case bytes.Equal(to, make([]byte, 6)) && s.Interface != "lo":
		return config.Wrong("neighbour", "%v is the address of nobody", net.HardwareAddr(to))
	}
	return cmp.Or(requireText("interface", s.Interface), checkPortName("interface", s.Interface))
}

// checkPortName refuses what can be no name of one interface.
func checkPortName(key, name string) error {
	if name == "any" {
		return config.Wrong(key, "packets leave by one interface: any does not go here")
	}
	return checkDeviceName(key, name)
}

func (s *portSink) requiredCapabilities() []string { return []string{"CAP_NET_RAW"} }
func (s *portSink) deviceName() string             { return s.Interface }
func (s *portSink) canWrite() bool                 { return true }
func (s *portSink) open(*time.Time) (netio.Sink, error) {
	return toSink(netio.OpenPort(s.Interface, net.HardwareAddr(s.Neighbour)))
}

// toSink returns no sink with an error.
func toSink[S netio.Sink](s S, err error) (netio.Sink, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// A sendFailure is why a packet could not be sent.
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

// classifyError tells what an error of sending is about.
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
