package conform

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/capture"
)

// A level is the obligation of a requirement.
type level string

// The levels.
const (
	must   level = "MUST"
	should level = "SHOULD"
	may    level = "MAY"
)

// A verdict is the result of a case.
type verdict string

// The verdicts.
const (
	pass          verdict = "pass"
	fail          verdict = "fail"
	inconclusive  verdict = "inconclusive"
	notApplicable verdict = "not_applicable"
)

// A testCase is one case: one requirement of CONFORMANCE.md, a stimulus and an expectation.
type testCase struct {
	id       string   // row of CONFORMANCE.md and a number, as in F12.1
	level    level    //
	section  string   // of the document
	expected string   // the requirement, as a report prints it
	needs    []string // words of device.supports; after !, those that exclude the case
	covers   []string // further rows, about formats, that the case checks
	run      func(x *trial) outcome
}

// requirement returns the row of CONFORMANCE.md.
func (c *testCase) requirement() string {
	row, _, _ := strings.Cut(c.id, ".")
	return row
}

// An outcome is the verdict of a case with its evidence.
type outcome struct {
	verdict        verdict
	expected, seen string
	frame          *seen // evidence of a failure, or nil
	about          *seen // packet that caused it, or nil
}

func passed(format string, args ...any) outcome {
	return outcome{verdict: pass, seen: fmt.Sprintf(format, args...)}
}

func failed(n *seen, expected, format string, args ...any) outcome {
	return outcome{verdict: fail, expected: expected, seen: fmt.Sprintf(format, args...), frame: n}
}

func unclear(format string, args ...any) outcome {
	return outcome{verdict: inconclusive, seen: fmt.Sprintf(format, args...)}
}

func inapplicable(format string, args ...any) outcome {
	return outcome{verdict: notApplicable, seen: fmt.Sprintf(format, args...)}
}

// A result is a case with its outcome. The JSON of a run has one for each line.
type result struct {
	Case        string  `json:"case"`
	Requirement string  `json:"requirement"`
	Level       level   `json:"level"`
	Section     string  `json:"section"`
	Verdict     verdict `json:"verdict"`
	Expected    string  `json:"expected"`
	Seen        string  `json:"seen"`
	Frame       int     `json:"frame,omitempty"`
	Capture     string  `json:"capture,omitempty"`
	Seconds     float64 `json:"seconds"`

	about, frame []field   // decoded packets: the tester's and the device's
	rates        []rateRow // before and after each message
}

// A roleInfo describes the suite of a role.
type roleInfo struct {
	cases    func() []testCase
	supports []string // the default of device.supports
	sides    []string // sides of the ports that the role needs
	hosts    []string // keys of hosts that the role needs
	forwards bool     // traffic of the tester crosses the device
}

// roleInfos are the roles of devices. init sets them, as the cases refer to them.
var roleInfos map[string]*roleInfo

var roleNames []string

func init() {
	both := []string{"sender", "receiver"}
	roleInfos = map[string]*roleInfo{
		"switch":   {switchCases, []string{"option1", "option2", "ipv6"}, both, both, true},
		"receiver": {receiverCases, []string{"ipv4", "ipv6"}, nil, both[:1], false},
		"sender":   {senderCases, []string{"option1", "ipv6"}, nil, both[1:], false},
		"proxy":    {proxyCases, []string{"proxy", "ipv6"}, both, both, true},
		"ingress":  {ingressCases, []string{"fcn", "ipv6"}, both, both, true},
		"border":   {borderCases, []string{"ipv4", "ipv6"}, both, both, true},
		"pause":    {pauseCases, []string{"ppfc-stop", "ppfc-resume", "ipv6"}, nil, both[1:], false},
	}
	roleNames = slices.Sorted(maps.Keys(roleInfos))
}

// runCase runs one case and writes its capture.
func (s *suite) runCase(c *testCase, number int, dir string) result {
	begin := s.rig.now()
	r := result{Case: c.id, Requirement: c.requirement(), Level: c.level, Section: c.section, Expected: c.expected}
	var o outcome
	x := s.newTrial(c, number)
	switch lacking := s.profile.lacking(c.needs...); {
	case strings.HasPrefix(lacking, "!"):
		o = inapplicable("device.supports has %q", lacking[1:])
	case lacking != "":
		o = inapplicable("device.supports lacks %q", lacking)
	case s.ctx.Err() != nil:
		o = unclear("interrupted")
	case s.ready != nil:
		o = unclear("%v", s.ready)
	default:
		x.drain()
		o = x.judge(x.runBody())
	}
	r.Verdict, r.Seen, r.rates = o.verdict, o.seen, x.rates
	if o.expected != "" {
		r.Expected = o.expected
	}
	if o.frame != nil {
		r.Frame = o.frame.number
		r.frame = o.frame.fields(&s.profile.CodePoints)
	}
	if o.about == nil {
		o.about = x.cause()
	}
	if o.about != nil {
		r.about = o.about.fields(&s.profile.CodePoints)
	}
	if dir != "" && len(x.frames) > 0 {
		r.Capture = c.id + ".pcapng"
		if err := x.writeCapture(filepath.Join(dir, r.Capture)); err != nil {
			r.Verdict, r.Seen = inconclusive, fmt.Sprintf("the capture could not be written: %v", err)
		}
	}
	r.Seconds = s.rig.now().Sub(begin).Seconds()
	return r
}

// runBody runs the body of the case. The command of the profile makes a host send while it runs.
func (x *trial) runBody() outcome {
	command := &x.profile.Congestion
	if command.By == "command" && !roleInfos[x.profile.Device.Role].forwards {
		stop, err := x.rig.start(command.Start)
		if err != nil {
			return unclear("congestion.start: %v", err)
		}
		defer func() {
			x.keepError("congestion.start", stop())
			x.runStop()
		}()
	}
	return x.outcomeOf(x.c.run)
}

// outcomeOf returns the outcome of a body, which [trial.require] may end early. An error of the tester itself, about an
// unforeseen packet, ends the case and not the run.
func (x *trial) outcomeOf(body func(x *trial) outcome) (o outcome) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case outcome:
			o = e
		default:
			o = unclear("an error of the tester ended the case: %v", e)
		}
	}()
	return body(x)
}

// require ends the case with another outcome if a condition does not hold. Only bodies of cases, and functions that
// they call, may use it.
func (x *trial) require(ok bool, otherwise outcome) {
	if !ok {
		panic(otherwise)
	}
}

// requireNone fails the case if a packet has arrived that must not. nil stands for none.
func (x *trial) requireNone(packets ...*seen) {
	for _, n := range packets {
		if n != nil {
			panic(failed(n, x.c.expected, "a %s to %v", n.kind, n.dst))
		}
	}
}

// requireField fails the case if a packet about a stream does not pass a check.
func (x *trial) requireField(n *seen, s *stream, c check) {
	if expected, got := c(x, n, s); expected != "" {
		panic(x.fieldFailed(n, s, expected, got))
	}
}

// fieldFailed returns the failure of a check of a packet about a stream, and names a packet of the stream.
func (x *trial) fieldFailed(n *seen, s *stream, expected, got string) outcome {
	o := failed(n, expected, "%s", got)
	o.about = x.packetOf(s)
	return o
}

// cause returns the first packet that the tester sent.
func (x *trial) cause() *seen {
	i := slices.IndexFunc(x.frames, func(n *seen) bool { return n.sent })
	if i < 0 {
		return nil
	}
	return x.frames[i]
}

// judge turns a pass into inconclusive if the device or the rig did not work as expected during the case. If the rig
// stopped or lost frames, or the machine of the tester was busy, a failure without a frame as evidence is inconclusive.
func (x *trial) judge(o outcome) outcome {
	if late := x.rig.late(x.begin); o.verdict == fail && o.frame == nil && late > x.profile.Time.Settle/4 {
		return unclear("%s, but the tester's machine is busy: a program ran %v late", o.seen, late)
	}
	if lost := x.rig.lost() - x.lostBegin; o.verdict == fail && o.frame == nil && lost > 0 {
		return unclear("%s, but the tester could not receive %d frames", o.seen, lost)
	}
	stopped := x.ctx.Err() != nil || x.err != nil
	if o.verdict != pass && o.verdict != inconclusive && !(o.verdict == fail && o.frame == nil && stopped) {
		return o
	}
	if o.verdict == pass {
		x.wait(20*time.Millisecond, func() bool { return false }) // for the rest of a flood
	}
	switch {
	case x.flooded:
		return unclear("the device floods: %d packets, after %d of the tester", len(x.received), x.sentCount)
	case x.ctx.Err() != nil:
		return unclear("interrupted")
	case x.err != nil:
		return unclear("%v", x.err)
	case x.reflected > 0:
		return unclear("the device returned %d of the tester's own packets", x.reflected)
	}
	return o
}

// drain waits until packets of the case before have arrived.
func (x *trial) drain() {
	const quiet = 20 * time.Millisecond
	for end := x.rig.now().Add(x.profile.Time.Settle); x.rig.now().Before(end) && !x.isOver(); {
		before := len(x.received)
		if !x.wait(quiet, func() bool { return len(x.received) > before }) {
			break
		}
	}
	x.frames, x.received, x.reflected, x.doubles, x.sentCount = nil, nil, 0, 0, 0
	clear(x.data)
	x.deadline = x.rig.now().Add(x.profile.Time.Case)
	x.flooded = false
}

// writeCapture writes the frames of the case with its id as their comments.
func (x *trial) writeCapture(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	w, err := capture.NewPcapngWriter(f)
	if err == nil {
		for i := range x.profile.Ports {
			p := &x.profile.Ports[i]
			if _, err = w.AddInterface(capture.Interface{Link: capture.Ethernet, Name: p.Interface,
				Comment: p.Side}); err != nil {
				break
			}
		}
	}
	for i := 0; err == nil && i < len(x.frames); i++ {
		n := x.frames[i]
		direction := "received"
		if n.sent {
			direction = "sent"
		}
		record := capture.Record{Data: n.frame, OrigLen: uint32(len(n.frame)), Time: n.at}
		err = w.Write(n.port, &record, x.c.id+" "+direction)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// run runs the cases, and calls report with each result.
func (s *suite) run(cases []numbered, dir string, report func(result) error) error {
	if err := s.findNeighbours(); err != nil {
		return err
	}
	if roleInfos[s.profile.Device.Role].forwards {
		s.ready = s.checkForwarding()
	}
	for i := range cases {
		if err := report(s.runCase(&cases[i].testCase, cases[i].number, dir)); err != nil {
			return err
		}
	}
	return nil
}

// A numbered is a case with its number in the suite of the role, on which its queue pairs depend.
type numbered struct {
	testCase
	number int
}

// choose returns the cases of a role with these ids or requirements; all, if there are none.
func choose(role string, ids []string) (chosen []numbered, err error) {
	unknown := slices.Clone(ids)
	for i, c := range roleInfos[role].cases() {
		named := slices.Contains(ids, c.id) || slices.Contains(ids, c.requirement())
		unknown = slices.DeleteFunc(unknown, func(id string) bool { return id == c.id || id == c.requirement() })
		if len(ids) == 0 || named {
			chosen = append(chosen, numbered{c, i})
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("%q: want ids of cases of the role %s, as in %q", unknown[0], role,
			roleInfos[role].cases()[0].id)
	}
	return chosen, nil
}

// checkForwarding sends data through the device until one arrives, and one in the reverse
// direction. This also fills the neighbour tables.
func (s *suite) checkForwarding() error {
	x := s.newTrial(&testCase{}, 0)
	from, to := s.portOf("sender"), s.portOf("receiver")
	oneWay := s.profile.Device.Role == "ingress" // its return traffic comes in tunnels
	for _, v6 := range []bool{true, false} {
		a, okA := pick(s.profile.Hosts.Sender, v6)
		b, okB := pick(s.profile.Hosts.Receiver, v6)
		if !okA || !okB {
			continue
		}
		x.received = nil
		arrived := map[int]bool{from: oneWay}
		data := flow{src: host(a, 0), dst: host(b, 0), opcode: 0x04, destQP: 0xFFFF, payload: make([]byte, 64)}
		for !arrived[from] || !arrived[to] {
			if x.isOver() || x.err != nil {
				return errNothingCrosses
			}
			for n := range uint32(2) {
				data.psn++
				data.src, data.dst = host(a, n), host(b, n)
				x.transmit(from, data.appendIP(nil))
				data.src, data.dst = data.dst, data.src
				x.transmit(to, data.appendIP(nil))
			}
			x.wait(100*time.Millisecond, func() bool {
				for _, n := range x.received {
					inner := n.innermost()
					if inner.destinationQP() == data.destQP && (inner.dst == host(a, 0) || inner.dst == host(b, 0)) &&
						(n.port == from) == (inner.dst == host(a, 0)) {
						arrived[n.port] = true
					}
				}
				return arrived[from] && arrived[to]
			})
		}
	}
	return nil
}

var errNothingCrosses = fmt.Errorf("no traffic crosses the device between the sender and the receiver port")
