package conform

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A device that answers nothing, floods, disappears, returns everything or damages everything gets a verdict within
// the time limit (inMemory checks that), and no MUST about its own signals passes.
func TestRobust(t *testing.T) {
	for _, s := range subjects {
		for _, c := range []struct {
			name  string
			fault func() *fault
			// passes reports whether a case may pass.
			passes func(r result) bool
		}{
			{"is silent", func() *fault {
				return &fault{out: func(*memoryRig, int, []byte) []arrival { return nil }}
			}, never},
			{"reflects", func() *fault {
				return &fault{in: func(r *memoryRig, port int, frame []byte) []byte {
					back := slices.Clone(frame)
					copy(back[:6], frame[6:12])
					copy(back[6:12], frame[:6])
					r.insert(arrival{port, r.clock.Add(20 * time.Microsecond), back})
					return nil
				}}
			}, func(r result) bool { return strings.HasSuffix(r.Seen, " packets") }}, // data of the host itself
			{"floods", func() *fault {
				return &fault{out: func(_ *memoryRig, port int, frame []byte) []arrival {
					return slices.Repeat([]arrival{{port: port, frame: frame}}, 100)
				}}
			}, never},
			{"damages", func() *fault {
				random := rand.New(rand.NewPCG(1, 2))
				return &fault{out: func(_ *memoryRig, port int, frame []byte) []arrival {
					frame = slices.Clone(frame)
					for range 1 + random.IntN(8) {
						frame[random.IntN(len(frame))] = uint8(random.Uint32())
					}
					return []arrival{{port: port, frame: frame[:1+random.IntN(len(frame))]}}
				}}
			}, func(r result) bool { return true }},
			{"is off", func() *fault { return nil }, func(r result) bool { return true }}, // the results are in a file
		} {
			config := s.config
			if c.name == "is off" {
				config = strings.Replace(config, "enabled = true", "enabled = false", 1)
				require.NotEqual(t, s.config, config)
			}
			t.Run(s.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				var lines strings.Builder
				runInMemory(t, s.profile, s.model(t, config), c.fault(), nil, func(r result) {
					require.NotContains(t, r.Seen, "error of the tester", r.Case)
					if r.Verdict == pass && !c.passes(r) {
						t.Errorf("%s passes: %s", r.Case, r.Seen)
					}
					fmt.Fprintf(&lines, "%s %s, %.2f s: %s\n", r.Case, r.Verdict, r.Seconds, r.Seen)
				})
				// Faults of devices that forward data stop all cases at the first check, so their results are not
				// compared. Those of damaged octets are not either: no requirement is about them.
				if c.name == "is off" || !roleInfos[s.name].forwards && c.name != "damages" {
					requireResults(t, s.name+"-"+strings.ReplaceAll(c.name, " ", "-"), lines.String())
				}
			})
		}
	}
}

func never(result) bool { return false }

// A device that has gone passes no case that begins later.
func TestGone(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			gone, before := false, false
			f := &fault{out: func(_ *memoryRig, port int, frame []byte) []arrival {
				if gone {
					return nil
				}
				return []arrival{{port: port, frame: frame}}
			}}
			m := &leaving{model: s.model(t, s.config), gone: &gone}
			left := 0
			runInMemory(t, s.profile, m, f, nil, func(r result) {
				if before {
					left++
					if r.Verdict == pass {
						t.Errorf("%s passes: %s", r.Case, r.Seen)
					}
				}
				before = gone
			})
			require.Positive(t, left)
		})
	}
}

// A flow that ends during a case is no flow that a notification has slowed down or stopped.
func TestFlowEnds(t *testing.T) {
	for _, c := range []struct {
		id string
		by kind
	}{{"F11.1", kindCNP}, {"F12.1", kindFastCNP}, {"X02.1", kindPPFC}} {
		t.Run(c.id, func(t *testing.T) {
			ended := false
			i := slices.IndexFunc(subjects, func(s subject) bool { return s.name == "sender" })
			s := subjects[i]
			r := inMemory(t, s.profile, s.model(t, s.config), &fault{
				in: incoming(func(p *packet) []byte {
					ended = ended || p.kind(&points) == c.by
					return p.ip
				}),
				out: func(_ *memoryRig, port int, frame []byte) []arrival {
					if ended {
						return nil
					}
					return []arrival{{port: port, frame: frame}}
				},
			}, c.id)[c.id]
			require.Equal(t, inconclusive, r.Verdict, r.Seen)
			require.Equal(t, errFlowEnded.seen, r.Seen)
		})
	}
}

// leaving is a model that is gone after the first 100 frames of the tester, or its first three seconds.
type leaving struct {
	model
	gone   *bool
	frames int
	begin  time.Time
}

func (l *leaving) receive(r *memoryRig, port int, frame []byte) {
	if l.frames++; l.frames > 100 {
		*l.gone = true
		return
	}
	l.model.receive(r, port, frame)
}

func (l *leaving) advance(r *memoryRig) {
	if l.begin.IsZero() {
		l.begin = r.clock
	}
	if r.clock.Sub(l.begin) > 3*time.Second {
		*l.gone = true
	}
	l.model.advance(r)
}

// Octets of any packet are read without a panic, and the reading of the suite agrees with the fields of the figure.
func FuzzReadFrame(f *testing.F) {
	packet := (&flow{src: hostOfText("2001:db8::1"), dst: hostOfText("2001:db8::2"), opcode: 0x81, destQP: 5,
		payload: make([]byte, 16), options: fastCNPOption1(0x9E, hostOfText("2001:db8::3"))}).appendIP(nil)
	f.Add(appendEthernet(nil, mac{1}, mac{2}, 0, packet))
	f.Add(appendEthernet(nil, mac{1}, mac{2}, 7, wrapVXLAN(hostOfText("2001:db8::1"), hostOfText("2001:db8::2"), 2, 3,
		portVXLAN, packet)))
	f.Fuzz(func(t *testing.T, frame []byte) {
		p, _ := readFrame(frame, []uint16{portVXLAN})
		if p == nil {
			return
		}
		p.fields(&points)
		p.innermost().kind(&points)
		p.options(protocolOptions)
		if p.bth != nil {
			for _, c := range []coverage{asSent, without, skipped} {
				p.computeICRC(c)
			}
		}
	})
}
