package host

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/rdma"
)

// An Observation is the state of the RDMA devices of a host at one time: a line of JSON.
type Observation struct {
	Time       time.Time        `json:"time"`
	Until      time.Time        `json:"until,omitzero"` // when the last counter had been read
	Host       string           `json:"host"`
	Ports      []Port           `json:"ports"`
	Devices    []Device         `json:"devices,omitempty"`
	Interfaces []Interface      `json:"interfaces"`
	QPs        []rdma.QueuePair `json:"qps"`
	// Missing lists the parts that could not be read. Their absence does not mean that the host does not have them.
	Missing []string `json:"missing,omitempty"`
}

// A Port is one of an RDMA device.
type Port struct {
	Device string `json:"device"` // such as mlx5_0
	Port   int    `json:"port"`
	// Addresses are those of its GIDs, and Interfaces the network interfaces that have them.
	Addresses  []netip.Addr      `json:"addresses"`
	Interfaces []string          `json:"interfaces"`
	Counters   map[string]uint64 `json:"counters"`    // those of InfiniBand's specification
	HW         map[string]uint64 `json:"hw_counters"` // those of the card, as its driver names them
}

// A Device has the counters that a driver keeps for an RDMA device and not for each port. Few drivers have any.
type Device struct {
	Name string            `json:"name"`        // such as mlx5_0
	HW   map[string]uint64 `json:"hw_counters"` // as its driver names them
}

// An Interface has the counters of a network interface that are about pauses, as ethtool -S names them.
type Interface struct {
	Name     string            `json:"name"`
	Counters map[string]uint64 `json:"counters"`
}

// Counter returns a counter of a port by its name, the card's first.
func (p *Port) Counter(name string) (n uint64, ok bool) {
	if n, ok = p.HW[name]; !ok {
		n, ok = p.Counters[name]
	}
	return n, ok
}

// Has reports whether the port has an address.
func (p *Port) Has(a netip.Addr) bool { return slices.Contains(p.Addresses, a) }

// Port returns a port of the observation, nil if there is none such.
func (o *Observation) Port(device string, port int) *Port {
	for i := range o.Ports {
		if p := &o.Ports[i]; p.Device == device && p.Port == port {
			return p
		}
	}
	return nil
}

// Device returns the counters of a device, or nil if there are none or if the observation does not contain exactly one
// of its ports. With one port, they are the counters of that port.
func (o *Observation) Device(name string) (counters map[string]uint64) {
	ports := 0
	for i := range o.Ports {
		if o.Ports[i].Device == name {
			ports++
		}
	}
	for i := range o.Devices {
		if o.Devices[i].Name == name && ports == 1 {
			counters = o.Devices[i].HW
		}
	}
	return counters
}

// Interface returns the counters of an interface, nil if there are none.
func (o *Observation) Interface(name string) map[string]uint64 {
	for i := range o.Interfaces {
		if o.Interfaces[i].Name == name {
			return o.Interfaces[i].Counters
		}
	}
	return nil
}

// A Window holds the two observations of a host that are closest to a period. From is at or before its begin and To at
// or after its end, if there are such observations: then they cover the period.
type Window struct {
	From, To *Observation
	Covers   bool
}

// Limits for a file of observations: length of a line, number of hosts, and total octets kept for them.
const (
	maxLine  = 16 << 20
	maxHosts = 256
	maxKept  = 256 << 20
)

var (
	errHosts = fmt.Errorf("more than %d hosts", maxHosts)
	errKept  = fmt.Errorf("more than %d octets of observations at one time", maxKept)
	errTime  = errors.New("no time: not a line of rocecn host")
	errPorts = fmt.Errorf("more than %d ports or interfaces, or too many addresses or devices", maxAllPorts)
)

// A Reader keeps of files of observations, of each host, those that are the closest around a time.
type Reader struct {
	from, to time.Time
	hosts    map[string]*kept
	order    []string // of hosts, as they first came
	octets   int
}

type kept struct{ from, to line }

// A line is an undecoded observation. Only those in the result are decoded.
type line struct {
	time time.Time
	text []byte
}

// NewReader returns a reader that keeps the observations around a period.
func NewReader(from, to time.Time) *Reader {
	return &Reader{from: from, to: to, hosts: map[string]*kept{}}
}

// Read reads a file of observations, in any order, of any hosts.
func (r *Reader) Read(in io.Reader) error {
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 64<<10), maxLine)
	n := 0
	for s.Scan() {
		n++
		if len(s.Bytes()) == 0 {
			continue
		}
		if err := r.addLine(s.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	return nil
}

func (r *Reader) addLine(text []byte) error {
	var head struct {
		Time  time.Time `json:"time"`
		Until time.Time `json:"until"`
		Host  string    `json:"host"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	if head.Time.IsZero() {
		return errTime
	}
	h := r.hosts[head.Host]
	if h == nil {
		if len(r.hosts) == maxHosts {
			return errHosts
		}
		h = &kept{}
		r.hosts[head.Host] = h
		r.order = append(r.order, head.Host)
	}
	until := head.Time
	if head.Until.After(until) {
		until = head.Until // a counter that had been read by then may have been read before
	}
	if h.from.text == nil || isPreferable(r.from.Sub(until), r.from.Sub(h.from.time)) {
		r.keep(&h.from, until, text)
	}
	if h.to.text == nil || isPreferable(head.Time.Sub(r.to), h.to.time.Sub(r.to)) {
		r.keep(&h.to, head.Time, text)
	}
	if r.octets > maxKept {
		return errKept
	}
	return nil
}

// isPreferable reports whether an observation at distance a from the period is preferable to one at distance than.
// Distances inside the period are below 0. An observation outside is preferable to one inside, and then the closer one.
func isPreferable(a, than time.Duration) bool {
	if a >= 0 && than >= 0 {
		return a < than
	}
	return a > than
}

func (r *Reader) keep(at *line, t time.Time, text []byte) {
	r.octets += len(text) - len(at.text)
	at.time, at.text = t, append([]byte(nil), text...)
}

// Windows yields the window of each host, in the order of the first lines, until yield returns an error.
func (r *Reader) Windows(yield func(w Window) error) error {
	for _, name := range r.order {
		h := r.hosts[name]
		w := Window{Covers: !h.from.time.After(r.from) && !h.to.time.Before(r.to)}
		var err error
		if w.From, err = decodeObservation(h.from.text); err == nil {
			w.To, err = decodeObservation(h.to.text)
		}
		if err == nil {
			err = yield(w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decodeObservation decodes an observation. It rejects lists longer than any host has, as lookups are linear.
func decodeObservation(text []byte) (*Observation, error) {
	o := &Observation{}
	if err := json.Unmarshal(text, o); err != nil {
		return nil, err
	}
	if len(o.Ports) > maxAllPorts || len(o.Interfaces) > maxAllPorts || len(o.Devices) > maxDevices {
		return nil, errPorts
	}
	for i := range o.Ports {
		if p := &o.Ports[i]; len(p.Addresses) > maxGIDs || len(p.Interfaces) > maxAllPorts {
			return nil, errPorts
		}
	}
	return o, nil
}
