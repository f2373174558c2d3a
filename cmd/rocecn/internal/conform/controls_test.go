package conform

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// offCases are the cases about devices that are off, by role.
var offCases = []struct{ role, id, supports string }{
	{"switch", "F42.1", ""}, {"receiver", "F42.1", ""}, {"proxy", "P43.1", ""}, {"ingress", "W40.1", ""},
	{"border", "F42.1", ""}, {"sender", "F42.1", `"ipv6"`}, {"pause", "X15.2", `"ipv6"`},
}

// subjectOf returns the subject of a role.
func subjectOf(role string) subject {
	return subjects[slices.IndexFunc(subjects, func(s subject) bool { return s.name == role })]
}

// withKeys returns a profile with further keys of the table device, and other abilities.
func withKeys(profile, supports, keys string) string {
	if i := strings.Index(profile, "supports = ["); i >= 0 {
		j := i + strings.Index(profile[i:], "]\n")
		profile = profile[:i] + profile[j+2:]
	}
	return strings.Replace(profile, "[device]\n", "[device]\nsupports = ["+supports+"]\n"+keys, 1)
}

// A device that is off passes only if it reacts to the same packets once it is enabled.
func TestOff(t *testing.T) {
	const commands = "enable = [\"enable\"]\ndisable = [\"disable\"]\n"
	noEnable := strings.ReplaceAll(commands, `["enable"]`, `["true"]`)
	for _, c := range []struct {
		name, keys string
		isLost     func(r *memoryRig) bool // reports whether a packet of the device is lost
		slow       time.Duration           // that each command takes
		want       verdict
		seen       string
	}{
		{"reacts when enabled", commands, nil, 0, pass, "and a reaction after device.enable"},
		{"is not enabled", noEnable, nil, 0, inconclusive, "but also no reaction after device.enable"},
		{"is not enabled and a packet is lost", noEnable, firstAfterCommand(), 0, inconclusive,
			"but also no reaction after device.enable"},
		{"device.enable ends all traffic", noEnable, func(r *memoryRig) bool { return r.commands > 0 }, 0,
			inconclusive, ""},
		{"device.enable takes most of time.case", commands, nil, 4900 * time.Millisecond, pass,
			"and a reaction after device.enable"},
		{"no commands", "", nil, 0, inconclusive, "want device.enable"},
		{"wrong command", strings.ReplaceAll(commands, `["enable"]`, `["x"]`), nil, 0, inconclusive,
			"device.enable: "},
		{"device.disable fails", strings.ReplaceAll(commands, `["disable"]`, `["x"]`), nil, 0, inconclusive,
			"device.disable: "},
		{"is dead", commands, func(*memoryRig) bool { return true }, 0, inconclusive, ""},
	} {
		for _, off := range offCases {
			t.Run(c.name+"/"+off.role, func(t *testing.T) {
				s := subjectOf(off.role)
				config := strings.Replace(s.config, "enabled = true", "enabled = false", 1)
				f := &fault{out: func(r *memoryRig, port int, frame []byte) []arrival {
					if c.isLost != nil && c.isLost(r) {
						return nil
					}
					return []arrival{{port: port, frame: frame}}
				}}
				profile := strings.Replace(s.profile, `case = "10s"`, `case = "5s"`, 1)
				rig := &memoryRig{device: s.model(t, config), fault: f, commandTime: c.slow}
				runWithRig(t, withKeys(profile, off.supports, c.keys), rig, []string{off.id}, func(r result) {
					require.Equal(t, c.want, r.Verdict, r.Seen)
					require.Contains(t, r.Seen, c.seen)
				})
			})
		}
	}
}

// firstAfterCommand returns a function that reports whether a packet is the first one after a command of its rig.
func firstAfterCommand() func(r *memoryRig) bool {
	lost := map[*memoryRig]bool{}
	return func(r *memoryRig) bool {
		isFirst := r.commands > 0 && !lost[r]
		lost[r] = lost[r] || isFirst
		return isFirst
	}
}

// A check of a field that no notification has passes no case.
func TestUnchecked(t *testing.T) {
	for _, c := range []struct {
		name string
		ids  []string
		out  func(*memoryRig, int, []byte) []arrival
	}{
		{"two options", []string{"F25.1", "F26.1", "F26.2", "F27.1", "F28.1", "F29.1", "F31.1", "F32.1", "F34.1",
			"F34.2", "F44.1"}, setOption(func(h []byte) []byte {
			h[1]++
			return slices.Concat(h, []byte{0x1E, 6, 0, 0, 0, 0, 0, 0})
		})},
		{"no trace", []string{"F32.1", "F34.1", "F34.2"}, setOption(func(h []byte) []byte {
			if h[4] != 0x9E {
				return h
			}
			end := 6 + int(h[5])
			return slices.Concat([]byte{h[0], 2, 0x9E, 16}, h[end-16:end], []byte{1, 2, 0, 0})
		})},
		{"PPFC extension of 20 octets", []string{"X07.1", "X08.1", "X10.1", "X11.1", "X13.1"},
			replace(kindPPFC, func(p *packet) []byte { return p.ip[:len(p.ip)-4] })},
		{"no stop", []string{"X11.1"}, rewrite(kindPPFC, func(p *packet) { b := p.afterBTH(); b[len(b)-7] |= 1 })},
		{"FCN of two octets", []string{"W34.1"},
			replace(kindFCN, func(p *packet) []byte { return p.ip[:len(p.ip)-2] })},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := subjectOf("switch")
			results := inMemory(t, s.profile, s.model(t, s.config), &fault{out: c.out}, c.ids...)
			require.Len(t, results, len(c.ids))
			for id, r := range results {
				require.Equal(t, inconclusive, r.Verdict, "%s: %s", id, r.Seen)
			}
		})
	}
}

// A border that forwards nothing after a packet that it dropped passes no case about such packets.
func TestBorderThatCloses(t *testing.T) {
	s, closed := subjectOf("border"), false
	in := func(_ *memoryRig, _ int, frame []byte) []byte {
		p, _ := readFrame(frame, nil)
		if closed = closed || p != nil && p.kind(&points) == kindFastCNP; closed {
			return nil
		}
		return frame
	}
	results := inMemory(t, s.profile, s.model(t, s.config), &fault{in: in}, "F39.1")
	require.Len(t, results, 1)
	for id, r := range results {
		require.Equal(t, inconclusive, r.Verdict, "%s: %s", id, r.Seen)
		require.Contains(t, r.Seen, "data no longer crosses")
	}
}

// If a resume does not end a stop, the report has the time without packets after it. Here it is
// a stop of 65 ms after one of 60 ms.
func TestGapAfterResume(t *testing.T) {
	s := subjectOf("pause")
	in := onPPFC(func(p *packet) {
		if b := p.afterBTH(); len(b) == 24 && b[17]&3 == 1 {
			b[17] &^= 3
			b[22], b[23] = 0xFF, 0xFF
		}
	})
	results := inMemory(t, s.profile, s.model(t, s.config), &fault{in: in}, "X14.2")
	require.Len(t, results, 1)
	for id, r := range results {
		require.Equal(t, fail, r.Verdict, "%s: %s", id, r.Seen)
		gap := wiretest.Must(time.ParseDuration(strings.TrimPrefix(r.Seen, "no packet for ")))(t)
		require.Greater(t, gap, 64*time.Millisecond)
	}
}

// Each of several CNPs is checked, not only the first one.
func TestSecondCNPWrong(t *testing.T) {
	s, count := subjectOf("ingress"), 0
	out := rewrite(kindCNP, func(p *packet) {
		if count++; count > 1 {
			p.afterBTH()[3] = 0x5A // a reserved octet
		}
	})
	results := inMemory(t, s.profile, s.model(t, s.config), &fault{out: out}, "F07.1")
	require.Len(t, results, 1)
	for id, r := range results {
		require.Equal(t, fail, r.Verdict, "%s: %s", id, r.Seen)
	}
	require.Greater(t, count, 1)
}

// A switch that only sends fewer Fast CNPs to a host that rejects them violates the requirement.
func TestReducedAfterRejection(t *testing.T) {
	s := subjectOf("switch")
	rejects := map[netip.Addr]bool{}
	count := 0
	r := inMemory(t, s.profile, s.model(t, s.config), &fault{in: incoming(func(p *packet) []byte {
		if p.protocol != protocolICMPv6 {
			return p.ip
		}
		rejects[p.src] = true
		return nil
	}), out: func(_ *memoryRig, port int, frame []byte) []arrival {
		if p, _ := readFrame(frame, nil); p != nil && p.kind(&points) == kindFastCNP && rejects[p.dst] {
			if count++; count%5 != 0 {
				return nil
			}
		}
		return []arrival{{port: port, frame: frame}}
	}}, "F17.1")["F17.1"]
	require.Equal(t, fail, r.Verdict, r.Seen)
}

// A switch that sends no more Fast CNPs to any host after a rejection has not learned from it.
func TestRejectionControls(t *testing.T) {
	for _, id := range []string{"F17.1", "F17.2"} {
		t.Run(id, func(t *testing.T) {
			rejections := 0
			s := subjectOf("switch")
			r := inMemory(t, s.profile, s.model(t, s.config), &fault{in: incoming(func(p *packet) []byte {
				if p.protocol == protocolICMPv6 {
					rejections++
				}
				return p.ip
			}), out: func(_ *memoryRig, port int, frame []byte) []arrival {
				if p, _ := readFrame(frame, nil); p != nil && p.kind(&points) == kindFastCNP && rejections >= 2 {
					return nil
				}
				return []arrival{{port: port, frame: frame}}
			}}, id)[id]
			require.Equal(t, inconclusive, r.Verdict, r.Seen)
		})
	}
}

// The tester never sends faster than the rate of the profile, in any case.
func TestRate(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			const rate = 1e6
			profile := strings.Replace(s.profile, `rate = "20M"`, `rate = "1M"`, 1)
			if !strings.Contains(profile, congested[:12]) {
				profile += "\n[congestion]\nrate = \"1M\"\n"
			}
			type moment struct {
				at   time.Time
				bits int
			}
			var recent []moment // the last 100 ms
			bits := 0
			inMemory(t, profile, s.model(t, s.config), &fault{in: func(r *memoryRig, _ int, frame []byte) []byte {
				for len(recent) > 0 && r.clock.Sub(recent[0].at) > 100*time.Millisecond {
					bits -= recent[0].bits
					recent = recent[1:]
				}
				recent = append(recent, moment{r.clock, 8 * len(frame)})
				bits += 8 * len(frame)
				const allowed = rate*(0.1+0.01) + 8*1600 // with a burst, and the frame that exceeds it
				require.LessOrEqual(t, float64(bits), allowed)
				return frame
			}})
		})
	}
}

// If the machine of the tester is busy, no measurement of time passes or fails.
func TestBusy(t *testing.T) {
	for _, role := range []string{"sender", "pause"} {
		t.Run(role, func(t *testing.T) {
			s := subjectOf(role)
			cases, passes := "", []string{}
			runWithRig(t, s.profile, &memoryRig{device: s.model(t, s.config), busy: time.Second}, nil, func(r result) {
				if strings.HasSuffix(r.Seen, "is busy: a program ran 1s late in each of 3 measurements") {
					require.Equal(t, inconclusive, r.Verdict, r.Case)
					cases += " " + r.Case
				}
				require.NotEqual(t, fail, r.Verdict, r.Case)
				if r.Verdict == pass {
					passes = append(passes, r.Case)
				}
			})
			for _, id := range []string{"X02.1", "X11.1", "X12.1", "X14.2", "X15.1"} {
				require.Contains(t, cases, id)
			}
			require.Subset(t, []string{"F30.1"}, passes) // which measures no time
		})
	}
}

// A failure that only the absence of packets proves is inconclusive if the machine of the tester was busy, or if it
// could not receive all frames.
func TestAbsence(t *testing.T) {
	for _, c := range []struct{ name, subject, fault, id, seen string }{
		{"no resume", "switch", "stops without a resume", "X14.1", "none after a stop of queue pair"},
		{"no mark", "switch", "never marks", "F14.3", "with CE"},
		{"no mark of IPv4", "switch", "never marks IPv4", "F14.4", "with CE"},
		{"no CNP", "ingress", "no CNPs about its own congestion", "W24.1", "packets lost"},
	} {
		for _, rig := range []memoryRig{{busy: time.Second}, {lostFrames: 1}} {
			t.Run(fmt.Sprintf("%s/%d lost", c.name, rig.lostFrames), func(t *testing.T) {
				all := plantedFaults()
				f := all[slices.IndexFunc(all, func(f planted) bool {
					return f.subject == c.subject && f.name == c.fault
				})]
				s := subjectOf(c.subject)
				for i := 0; i < len(f.config); i += 2 {
					s.config = strings.Replace(s.config, f.config[i], f.config[i+1], 1)
				}
				rig.device, rig.fault = s.model(t, s.config), &fault{in: f.in, out: f.out}
				runWithRig(t, s.profile, &rig, []string{c.id}, func(r result) {
					require.Equal(t, inconclusive, r.Verdict, r.Seen)
					require.Contains(t, r.Seen, c.seen)
					require.NotEmpty(t, r.about)
				})
			})
		}
	}
}

// A second measurement of the rate after both signals begins when the flow has its rate again.
func TestBothSignalsRepeated(t *testing.T) {
	s := subjectOf("sender")
	var sent []time.Time // Fast CNPs
	rig := &memoryRig{device: s.model(t, s.config), busy: time.Second}
	rig.isBusy = func() bool { return len(sent) == 1 }
	rig.fault = &fault{in: func(r *memoryRig, _ int, frame []byte) []byte {
		if p, _ := readFrame(frame, nil); p != nil && p.kind(&points) == kindFastCNP {
			sent = append(sent, r.clock)
		}
		return frame
	}}
	runWithRig(t, s.profile, rig, []string{"F15.1"}, func(r result) { require.NotEqual(t, fail, r.Verdict, r.Seen) })
	require.Len(t, sent, 2)
	require.Greater(t, sent[1].Sub(sent[0]), 450*time.Millisecond) // more than the window of a measurement
}

// Data with CE to a queue pair that the device may not have needs no answer.
func TestReceiverWithoutPair(t *testing.T) {
	s := subjectOf("receiver")
	config := strings.Replace(s.config, "enabled = true", "enabled = false", 1)
	r := inMemory(t, s.profile, s.model(t, config), nil, "F09.1")["F09.1"]
	require.Equal(t, inconclusive, r.Verdict, r.Seen)
	require.Contains(t, r.Seen, "want [[pair]]")
}

// If a receiver sends more CNPs than it has received packets, the absence of CNPs about other data shows nothing.
func TestReceiverFloods(t *testing.T) {
	s := subjectOf("receiver")
	ids := []string{"F03.1", "F03.2", "F06.1", "F09.2", "F09.3", "F09.4", "B05.1"}
	results := inMemory(t, s.profile, s.model(t, s.config), &fault{
		out: func(_ *memoryRig, port int, frame []byte) []arrival {
			return slices.Repeat([]arrival{{port: port, frame: frame}}, 20)
		},
	}, ids...)
	require.Len(t, results, len(ids))
	for id, r := range results {
		require.Equal(t, inconclusive, r.Verdict, "%s: %s", id, r.Seen)
		require.Regexp(t, `^the device floods: \d+ answers to \d+ packets$`, r.Seen, id)
	}
}

// Cases about stops are inconclusive if a flow has gaps of its own that are as long as a third of a stop.
func TestBurstyFlow(t *testing.T) {
	s := subjectOf("sender")
	ids := []string{"X02.1", "X11.1", "X14.1", "X14.2", "X15.1"}
	results := inMemory(t, s.profile, s.model(t, s.config), &fault{
		out: func(r *memoryRig, port int, frame []byte) []arrival {
			if r.clock.UnixMilli()%80 < 40 {
				return nil
			}
			return []arrival{{port: port, frame: frame}}
		},
	}, ids...)
	require.Len(t, results, len(ids))
	for id, r := range results {
		require.Equal(t, inconclusive, r.Verdict, "%s: %s", id, r.Seen)
		require.Regexp(t, `^gaps of [34]\d\S*ms without a stop: the flow is too slow or too bursty$`, r.Seen, id)
	}
}

// Notifications about different flows are closer than the interval only if each flow has an interval of its own.
func TestShortGaps(t *testing.T) {
	flows := []*stream{{flow: flow{src: hostOfText("::1")}}, {flow: flow{src: hostOfText("::2")}}}
	const interval = 10 * time.Millisecond
	for _, c := range []struct {
		name string
		list [][2]int // milliseconds and flow
		want bool
	}{
		{"one for each flow", [][2]int{{0, 0}, {3, 1}, {10, 0}, {13, 1}, {20, 0}}, true},
		{"one for all flows", [][2]int{{0, 0}, {10, 1}, {20, 0}, {30, 1}, {40, 0}}, false},
		{"one for all flows, received in another order", [][2]int{{10, 1}, {0, 0}, {30, 1}, {20, 0}, {40, 0}}, false},
		{"bursts about one flow", [][2]int{{0, 0}, {1, 0}, {2, 0}, {20, 1}, {21, 1}}, false},
		{"one gap of many", [][2]int{{0, 0}, {10, 1}, {13, 0}, {20, 0}, {30, 1}, {40, 0}, {50, 1}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var list []*seen
			for _, n := range c.list {
				at := time.Unix(0, 0).Add(time.Duration(n[0]) * time.Millisecond)
				list = append(list, &seen{at: at, kind: kindCNP, packet: &packet{dst: flows[n[1]].src}})
			}
			require.Equal(t, c.want, haveShortGaps(list, flows, interval))
		})
	}
}

// A goroutine that wakes up late is noticed, also while it still sleeps.
func TestLateness(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	begin := time.Unix(1_800_000_000, 0)
	clock := begin
	var delays []time.Duration
	for _, ms := range []time.Duration{0, 70, 2, 30, 0} {
		delays = append(delays, ms*time.Millisecond)
	}
	var l lateness
	l.now = func() time.Time { return clock }
	l.sleep = func(d time.Duration) {
		by := delays[0]
		delays = delays[1:]
		clock = clock.Add(by / 2)
		if by == 70*time.Millisecond {
			require.Equal(t, by/2-d, l.since(clock), "in progress")
		}
		clock = clock.Add(by - by/2 + d)
		if len(delays) == 0 {
			cancel()
		}
	}
	l.measure(ctx)
	require.Equal(t, 70*time.Millisecond, l.since(begin))
	require.Equal(t, 70*time.Millisecond, l.since(begin.Add(71*time.Millisecond)))
	require.Equal(t, 30*time.Millisecond, l.since(begin.Add(72*time.Millisecond)))
	require.Zero(t, l.since(clock))
	clock = clock.Add(time.Second) // without another sleep
	require.Equal(t, time.Second, l.since(clock))
}

// A late measurement without time for another one is inconclusive.
func TestLateAtEnd(t *testing.T) {
	x := (&suite{ctx: t.Context(), profile: &profile{}, rig: &memoryRig{busy: time.Second}}).newTrial(&testCase{}, 0)
	count := 0
	x.repeatLate(time.Millisecond, func() { count++ })
	require.EqualError(t, x.err, "time: the tester's machine is busy: a program ran 1s late in each of 1 measurements")
	require.Equal(t, 1, count)
}

// An interval of the device in which the tester sends too few packets passes no case.
func TestPaceNeedsPackets(t *testing.T) {
	for _, c := range []struct{ role, id, interval string }{
		{"receiver", "B01.1", "5ms"}, {"switch", "F37.1", "20ms"}, {"proxy", "P38.1", "20ms"},
		{"ingress", "W38.1", "20ms"},
	} {
		t.Run(c.role, func(t *testing.T) {
			s := subjectOf(c.role)
			text := `per_flow = "` + c.interval + `"`
			require.Contains(t, s.profile, text)
			profile := strings.Replace(s.profile, text, `per_flow = "10us"`, 1)
			r := inMemory(t, profile, s.model(t, s.config), nil, c.id)[c.id]
			require.Equal(t, inconclusive, r.Verdict, r.Seen)
			require.Contains(t, r.Seen, "raise congestion.rate")
		})
	}
}

// Characters that a terminal may interpret are escaped in JSON.
func TestEscapedJSON(t *testing.T) {
	var out bytes.Buffer
	name := "d\u009b31m\u202e"
	p := &profile{}
	p.Device.Name = name
	r := &report{profile: p, stdout: &out, json: true}
	require.NoError(t, r.add(result{Seen: name}))
	require.NoError(t, r.end())
	require.Equal(t, 2, strings.Count(out.String(), `d\u009b31m\u202e`))
	var last total
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &last))
	require.Equal(t, name, last.Device)
}

// valueOf returns the value of a field of a decoded packet.
func valueOf(t *testing.T, fields []field, name string) string {
	t.Helper()
	i := slices.IndexFunc(fields, func(f field) bool { return f.Name == name })
	require.GreaterOrEqual(t, i, 0, "%s in %v", name, fields)
	return fields[i].Value
}

// A failure names the packet that is wrong, and a packet of the flow that it is about, also if packets about another
// flow are right. Without a fault, both are about the same flow.
func TestFailureNamesItsPackets(t *testing.T) {
	for _, c := range []struct {
		role, id string
		kind     kind
	}{{"switch", "F23.1", kindFastCNP}, {"receiver", "F10.1", kindCNP}} {
		t.Run(c.role, func(t *testing.T) {
			s := subjectOf(c.role)
			r := inMemory(t, s.profile, s.model(t, s.config), nil, c.id)[c.id]
			require.Equal(t, pass, r.Verdict, r.Seen)
			require.Equal(t, valueOf(t, r.frame, "destination"), valueOf(t, r.about, "source"))

			second := hostOfText("2001:db8:a:1::11") // the second host
			r = inMemory(t, s.profile, s.model(t, s.config), &fault{out: rewrite(c.kind, func(p *packet) {
				if p.dst == second {
					p.bth[7] ^= 0x40
				}
			})}, c.id)[c.id]
			require.Equal(t, fail, r.Verdict, r.Seen)
			require.Positive(t, r.Frame)
			require.Equal(t, second.String(), valueOf(t, r.frame, "destination"))
			require.Equal(t, string(c.kind), valueOf(t, r.frame, "kind"))
			require.Contains(t, r.Seen, valueOf(t, r.frame, "destination queue pair"))
			require.Equal(t, second.String(), valueOf(t, r.about, "source"))
			require.Equal(t, string(kindData), valueOf(t, r.about, "kind"))
		})
	}
}

// These fields of the header of a CNP (IBTA A17, figure 6), and the octets after it, have fixed values, except BECN.
func TestCNPHeader(t *testing.T) {
	s := subjectOf("receiver")
	for _, c := range []struct {
		name   string
		octet  int
		toggle uint8
		want   verdict
	}{
		{"solicited event", 1, 0x80, fail}, {"migration", 1, 0x40, fail}, {"pad count", 1, 0x10, fail},
		{"version", 1, 1, fail}, {"FECN", 4, 0x80, fail}, {"BECN", 4, 0x40, pass}, {"reserved bits", 4, 1, fail},
		{"acknowledge request", 8, 0x80, fail}, {"reserved bits of the PSN", 8, 1, fail},
		{"first octet of the PSN", 9, 0x80, fail}, {"last octet of the PSN", 11, 1, fail},
		{"first octet after the header", 12, 0x80, fail}, {"last octet after the header", 27, 1, fail},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := rewrite(kindCNP, func(p *packet) { p.bth[c.octet] ^= c.toggle })
			r := inMemory(t, s.profile, s.model(t, s.config), &fault{out: out}, "F07.1")["F07.1"]
			require.Equal(t, c.want, r.Verdict, r.Seen)
		})
	}
}

// A failure about the second of two flows between the same hosts names a packet of that flow.
func TestFailureNamesItsFlow(t *testing.T) {
	for _, c := range []struct{ role, id string }{{"ingress", "W26.1"}, {"proxy", "P20.1"}} {
		t.Run(c.role, func(t *testing.T) {
			s := subjectOf(c.role)
			var first, second uint32 // queue pairs of the sender
			r := inMemory(t, s.profile, s.model(t, s.config), &fault{out: rewrite(kindCNP, func(p *packet) {
				first = cmp.Or(first, p.destQP())
				if p.destQP() != first {
					second = p.destQP()
					p.bth[5] ^= 0x40
				}
			})}, c.id)[c.id]
			require.Equal(t, fail, r.Verdict, r.Seen)
			require.NotZero(t, second)
			require.Equal(t, fmt.Sprintf("0x%06x", second^0x400000), valueOf(t, r.frame, "destination queue pair"))
			// By trial.connections, flow n has the queue pairs n+128 of the sender and n+1 of the receiver.
			require.Equal(t, fmt.Sprintf("0x%06x", second-127), valueOf(t, r.about, "destination queue pair"))
		})
	}
}
