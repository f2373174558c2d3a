package filter

import (
	"math"
	"slices"

	"golang.org/x/net/bpf"
)

// A program is a BPF program under construction. BPF jumps only forward, and on
// a condition by at most 255 instructions. Here jumps go to labels at any
// distance.
type program struct {
	lines  []line
	labels label
}

// A label is a place in a program.
type label int

// next is the label of the instruction after a jump.
const next label = 0

// A line is an instruction, a jump or a label's place.
type line struct {
	instruction bpf.Instruction // nil for a jump
	place       label           // this line is the label's place
	always      label           // jump there

	// Jump to yes or to no: compare the accumulator with value, or with
	// register X.
	test      bpf.JumpTest
	value     uint32
	registerX bool
	yes, no   label
}

func (p *program) label() label {
	p.labels++
	return p.labels
}

func (p *program) do(instructions ...bpf.Instruction) {
	for _, i := range instructions {
		p.lines = append(p.lines, line{instruction: i})
	}
}

func (p *program) place(l label) { p.lines = append(p.lines, line{place: l}) }

func (p *program) jump(to label) { p.lines = append(p.lines, line{always: to}) }

func (p *program) jumpIf(test bpf.JumpTest, value uint32, yes, no label) {
	p.lines = append(p.lines, line{test: test, value: value, yes: yes, no: no})
}

func (p *program) jumpIfX(test bpf.JumpTest, yes, no label) {
	p.lines = append(p.lines, line{test: test, registerX: true, yes: yes, no: no})
}

// jumpIfAny jumps when the accumulator is one of the values.
func (p *program) jumpIfAny(yes label, values ...uint32) {
	for _, v := range values {
		p.jumpIf(bpf.JumpEqual, v, yes, next)
	}
}

// assemble returns the program in the form that sockets take. It goes from the
// last line to the first, so that the distance of every jump is known. If a
// conditional jump has too far to go, it goes to another jump to the same
// label; one is inserted after it unless there is one near.
func (p *program) assemble() ([]bpf.RawInstruction, error) {
	var reversed []bpf.Instruction
	places := make([]int, p.labels+1) // by label: number of instructions after it
	relays := make([]int, p.labels+1) // by label: the same of the nearest jump to it
	jump := func(to label) {
		reversed = append(reversed, bpf.Jump{Skip: uint32(len(reversed) - places[to])})
		relays[to] = len(reversed)
	}
	skip := func(to label) int {
		if direct := len(reversed) - places[to]; direct < math.MaxUint8 {
			return direct
		}
		return len(reversed) - relays[to]
	}
	for i := len(p.lines) - 1; i >= 0; i-- {
		switch l := &p.lines[i]; {
		case l.place != next:
			places[l.place] = len(reversed)
		case l.always != next:
			if places[l.always] < len(reversed) {
				jump(l.always)
			}
		case l.instruction != nil:
			reversed = append(reversed, l.instruction)
		default:
			places[next], relays[next] = len(reversed), len(reversed)
			for _, to := range [...]label{l.no, l.yes} {
				if skip(to) >= math.MaxUint8 { // one more jump may be inserted between
					jump(to)
				}
			}
			yes, no := uint8(skip(l.yes)), uint8(skip(l.no))
			if l.registerX {
				reversed = append(reversed, bpf.JumpIfX{Cond: l.test, SkipTrue: yes, SkipFalse: no})
			} else {
				reversed = append(reversed, bpf.JumpIf{Cond: l.test, Val: l.value, SkipTrue: yes, SkipFalse: no})
			}
		}
	}
	slices.Reverse(reversed)
	return bpf.Assemble(reversed)
}
