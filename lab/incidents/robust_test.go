package incidents

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// A transformation makes another capture of the same traffic.
type transformation struct {
	name   string
	apply  func(r *rand.Rand, all []frame) []frame
	snap   int  // octets of each frame that are kept; 0 for all
	misses bool // packets that arrived are not captured
}

// keepShare keeps each frame with a probability.
func keepShare(p float64) func(r *rand.Rand, all []frame) []frame {
	return func(r *rand.Rand, all []frame) (out []frame) {
		for _, f := range all {
			if r.Float64() < p {
				out = append(out, f)
			}
		}
		return out
	}
}

// keepOneWay keeps PFC, and of each pair of hosts the packets to the one with the higher address.
func keepOneWay(_ *rand.Rand, all []frame) []frame {
	return slices.DeleteFunc(slices.Clone(all), func(f frame) bool {
		b := f.octets
		return be.Uint16(b[12:]) != 0x8808 && addressAt(b, 26, 22).Compare(addressAt(b, 30, 38)) > 0
	})
}

// copyEach returns each frame twice, as two mirrors do.
func copyEach(_ *rand.Rand, all []frame) []frame {
	later := slices.Clone(all)
	for i := range later {
		later[i].at += 2 * time.Microsecond
	}
	return merged(all, later)
}

// stepBack sets the clock back in the middle of the capture.
func stepBack(_ *rand.Rand, all []frame) []frame {
	out := slices.Clone(all)
	for i := len(out) / 2; i < len(out); i++ {
		out[i].at -= 5 * time.Second
	}
	return out
}

// inVXLAN puts the RoCEv2 packets in VXLAN tunnels (RFC 7348) between two addresses, with the DSCP
// and ECN of the packet.
func inVXLAN(_ *rand.Rand, all []frame) (out []frame) {
	for _, f := range all {
		if be.Uint16(f.octets[12:]) != 0x8808 {
			body := append([]byte{0xC0, 0x11, 4789 >> 8, 4789 & 0xFF, 0, 0, 0, 0, 0x08, 0, 0, 0, 0, 0x13, 0x88, 0},
				f.octets...)
			be.PutUint16(body[4:], uint16(len(body)))
			f.octets = inIPv4(17, classOf(f.octets), body)
		}
		out = append(out, f)
	}
	return out
}

// inERSPAN sends copies of the RoCEv2 packets to a collector, as ERSPAN type II does. PFC frames are not mirrored.
func inERSPAN(_ *rand.Rand, all []frame) (out []frame) {
	for i, f := range all {
		if be.Uint16(f.octets[12:]) == 0x8808 {
			continue
		}
		body := []byte{0x10, 0, 0x88, 0xBE, 0, 0, byte(i >> 8), byte(i), 0x10, 0x01, 0, 0x64, 0, 0, 0, 0}
		out = append(out, frame{f.at, inIPv4(47, 0, append(body, f.octets...))})
	}
	return out
}

// classOf returns the traffic class of a packet.
func classOf(b []byte) byte {
	if be.Uint16(b[12:]) == 0x86DD {
		return b[14]<<4 | b[15]>>4
	}
	return b[15]
}

// inIPv4 writes an Ethernet frame with an IPv4 packet of this protocol, traffic class and content.
func inIPv4(protocol, class byte, body []byte) []byte {
	n := 20 + len(body)
	b := []byte{2, 0, 0, 0, 0xEE, 2, 2, 0, 0, 0, 0xEE, 1, 0x08, 0x00,
		0x45, class, byte(n >> 8), byte(n), 0, 0, 0x40, 0, 62, protocol, 0, 0, 10, 255, 0, 1, 10, 255, 0, 2}
	sum := uint32(0)
	for i := 14; i < 34; i += 2 {
		sum += uint32(be.Uint16(b[i:]))
	}
	sum = sum&0xFFFF + sum>>16
	be.PutUint16(b[24:], ^uint16(sum+sum>>16))
	return append(b, body...)
}

var transformations = []transformation{
	{name: "sampled 1:10", apply: keepShare(0.1), misses: true},
	{name: "sampled 1:100", apply: keepShare(0.01), misses: true},
	{name: "truncated to 96 octets", snap: 96},
	{name: "one direction", apply: keepOneWay},
	{name: "each packet twice", apply: copyEach},
	{name: "1 % not captured", apply: keepShare(0.99), misses: true},
	{name: "clock set back", apply: stepBack},
	{name: "in VXLAN", apply: inVXLAN},
	{name: "in ERSPAN", apply: inERSPAN},
}

// explainAs returns the verdicts for a transformed capture of an incident.
func explainAs(in *incident, x *transformation, seed uint64) []triage.Verdict {
	all := in.frames
	if x.apply != nil {
		all = x.apply(rand.New(rand.NewPCG(seed, 9)), all)
	}
	table := flows.New(flows.Config{Evidence: true, Seed: 1})
	d := flows.Decoder{NoICRC: in.events == nil}
	var p flows.Packet
	for i, f := range all {
		data, o := f.octets, rocev2.DecodeOptions{}
		if x.snap > 0 && x.snap < len(data) {
			o.AllowTruncated, data = true, data[:x.snap]
		}
		d.Decode(&p, data, o)
		table.Observe(&p, uint64(i+1), epoch.Add(f.at))
	}
	return slices.Concat(triage.Explain(table.Snapshot()), explainDiscards(in))
}

// A reliability counts the diagnoses of one kind of capture.
type reliability struct{ right, less, other, wrong, total int }

// TestRobustness judges other captures of the same incidents: none of them names an innocent party, and docs/triage.md
// has the numbers.
func TestRobustness(t *testing.T) {
	wiretest.Alone(t)
	step := 8
	if testing.Short() {
		step = 40
	}
	all := make([]reliability, len(transformations))
	for _, g := range generators {
		for n := 0; n < g.total; n += step {
			in := g.make(t, n, g.total, judgedSeed)
			for i := range transformations {
				x, r := &transformations[i], &all[i]
				in, verdicts := in, explainAs(&in, x, uint64(n))
				if in.also = maps.Clone(in.also); x.misses {
					in.also.add(triage.CauseNotCaptured)
					verdicts = slices.DeleteFunc(verdicts, func(v triage.Verdict) bool {
						return strings.Contains(v.Text, "it is unknown whether the network or the capture lost them")
					})
				}
				j := compareVerdicts(&in, verdicts)
				if len(j.wrong) > 0 {
					t.Errorf("%s %d %s, %s: %v", g.name, n, in.name, x.name, j.wrong)
				}
				r.total++
				switch {
				case len(j.wrong) > 0:
					r.wrong++
				case j.right:
					r.right++
				case in.hasOthers(&j):
					r.other++
					t.Logf("%s %d %s, %s: %v", g.name, n, in.name, x.name, j.found)
					for _, v := range verdicts {
						if _, ok := in.truth[v.Cause]; !ok && !in.happened(v.Cause) {
							t.Log("        ", v.Cause, v.Text)
						}
					}
				default:
					r.less++
				}
			}
		}
	}
	text := "| capture | incidents | correct | fewer causes | another cause | innocent party named |\n" +
		"|---|--:|--:|--:|--:|--:|\n"
	for i, x := range transformations {
		r := &all[i]
		text += fmt.Sprintf("| %s | %d | %d | %d | %d | %d |\n", x.name, r.total, r.right, r.less, r.other, r.wrong)
	}
	t.Log("\n" + text)
	if !testing.Short() {
		requireDocumented(t, "robustness", text)
	}
}

// hasOthers reports whether causes were found that are not true.
func (in *incident) hasOthers(j *judgement) bool {
	for c := range j.found {
		_, known := in.truth[c]
		if _, also := in.also[c]; !known && !also {
			return true
		}
	}
	return false
}
