// Mutants plants faults in a package, one at a time, and says which ones its tests do
// not notice:
//
//	go run ./scripts/mutants ./flows
//	go run ./scripts/mutants -more -match 'sequence.go:' -n 100 ./flows
//
// A fault negates a comparison or a case of a switch, exchanges < and <=, > and >=,
// + and -, * and /, ++ and --, makes % of * or takes a minus sign away: the kinds of
// gremlins, with the cases, which that leaves alone. With -more it drops a statement, or
// negates a condition that compares nothing, as well. All of them are built at once into
// the package's tests, and the environment chooses one. So it is known, too, which tests
// come to a fault, and which ones can tell it: where < never met equal numbers, none can.
//
// The tests run in the package's folder with code that is wrong: give them no rights that
// matter.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"time"
)

func main() {
	var (
		more  = flag.Bool("more", false, "drop statements as well, and negate conditions that compare nothing")
		match = flag.String("match", "", "plant only faults whose line in the output matches this `expression`")
		n     = flag.Int("n", 0, "plant so many faults only, drawn at random; 0: all")
		seed  = flag.Uint64("seed", 1, "of the draw")
		long  = flag.Duration("long", time.Hour, "leave out tests that take longer, where others can tell the fault")
	)
	flag.Parse()
	dir, err := os.MkdirTemp("", "mutants")
	if err == nil {
		err = run(dir, flag.Arg(0), *more, *match, *n, *seed, *long)
		os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(dir, folder string, more bool, match string, n int, seed uint64, long time.Duration) error {
	wanted, err := regexp.Compile(match)
	if err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	p, err := load(folder, more)
	if err != nil {
		return err
	}
	if err := p.build(dir); err != nil {
		return err
	}
	tests, err := p.tests(dir)
	if err != nil {
		return err
	}
	slices.SortStableFunc(tests, func(a, b *test) int { return cmp.Compare(a.took, b.took) })
	faults := slices.DeleteFunc(p.faults, func(f *fault) bool { return f.broken || !wanted.MatchString(f.String()) })
	if n > 0 && n < len(faults) {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		faults = faults[:n]
	}
	count := map[string]int{}
	for _, f := range faults {
		verdict := p.try(dir, f.id, tests, long)
		count[verdict]++
		if verdict != "noticed" {
			fmt.Printf("%s: %s\n", f, verdict)
		}
	}
	fmt.Printf("planted %d:", len(faults))
	for _, verdict := range slices.Sorted(maps.Keys(count)) {
		fmt.Printf(" %d %s;", count[verdict], verdict)
	}
	fmt.Println()
	return nil
}

// try lets the tests look at a fault that can tell it, the slow ones alone and after the
// others. It returns what becomes of it.
func (p *pkg) try(dir string, id int, tests []*test, long time.Duration) string {
	covered := false
	var quick, slow []*test
	for _, t := range tests {
		covered = covered || t.reached[id]
		switch {
		case !t.told[id]:
		case t.took < 300*time.Millisecond:
			quick = append(quick, t)
		case t.took <= long || len(quick)+len(slow) == 0:
			slow = append(slow, t)
		}
	}
	switch {
	case !covered:
		return "not covered"
	case len(quick)+len(slow) == 0:
		return "survived, as it makes no difference in any test"
	case p.fails(dir, quick, id):
		return "noticed"
	}
	for _, t := range slow {
		if p.fails(dir, []*test{t}, id) {
			return "noticed"
		}
	}
	return "survived"
}
