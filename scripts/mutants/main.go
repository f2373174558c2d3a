// Mutants plants faults in a package, one at a time, and says which ones no test
// notices:
//
//	go run ./scripts/mutants -package ./flows -n 200 -seed 1
//	go run ./scripts/mutants -package ./flows -users ./cmd/rocecn/internal/flows -match 'sequence.go:.*dropped'
//
// A fault makes a condition (also one of a switch) always true or always false,
// exchanges < and <=, > and >=, && and ||, + and -, * and /, & and |, min and max,
// drops a statement, or adds 1 to a constant. All of them are built at once into
// the package's tests, and into those of its users; the environment chooses one.
// So it is known, too, which tests come to a fault, and which ones can tell it:
// where a condition that is made true was never false, none can.
//
// The tree is left alone, but tests run in its folders with code that is wrong, and
// with the rights of whoever runs this: give it a copy, and no rights that matter.
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
	"strings"
	"time"
)

func main() {
	var (
		pkg   = flag.String("package", "", "the `folder` of the package, such as ./flows")
		users = flag.String("users", "", "`folders`, with commas between, of packages whose tests count as well")
		match = flag.String("match", "", "plant only faults whose line in the output matches this `expression`")
		n     = flag.Int("n", 0, "plant so many faults only, drawn at random; 0: all")
		seed  = flag.Uint64("seed", 1, "of the draw")
		long  = flag.Duration("long", time.Hour, "leave out tests that take longer, where others can tell the fault")
	)
	flag.Parse()
	if *pkg == "" {
		flag.Usage()
		os.Exit(2)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err == nil {
		others := strings.FieldsFunc(*users, func(r rune) bool { return r == ',' })
		err = run(dir, *pkg, others, *match, *n, *seed, *long)
		os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(dir, folder string, users []string, match string, n int, seed uint64, long time.Duration) error {
	wanted, err := regexp.Compile(match)
	if err != nil {
		return err
	}
	p, err := load(folder)
	if err != nil {
		return err
	}
	binaries, err := build(dir, p, append([]string{folder}, users...))
	if err != nil {
		return err
	}
	var tests []*test
	for _, b := range binaries {
		of, err := b.tests(dir)
		if err != nil {
			return err
		}
		tests = append(tests, of...)
	}
	slices.SortStableFunc(tests, func(a, b *test) int { return cmp.Compare(a.took, b.took) })
	faults := slices.DeleteFunc(p.faults, func(f *fault) bool { return f.broken || !wanted.MatchString(f.String()) })
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	if n > 0 && n < len(faults) {
		faults = faults[:n]
	}
	count := map[string]int{}
	for i, f := range faults {
		if i%100 == 0 {
			fmt.Fprintf(os.Stderr, "mutants: %d of %d tried\n", i, len(faults))
		}
		verdict := f.try(tests, long)
		count[verdict]++
		if verdict != noticed {
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

// What becomes of a fault.
const (
	noticed   = "noticed"
	uncovered = "not covered" // no test comes there
	untold    = "survived, as it makes no difference in any test"
	survived  = "survived"
)

// try lets the tests look at a fault that can tell it: those that take long only
// when the others have not noticed it.
func (f *fault) try(tests []*test, long time.Duration) string {
	covered := false
	var quick, slow []*test
	for _, t := range tests {
		covered = covered || t.reached[f.id]
		switch {
		case !t.told[f.id]:
		case t.took < 300*time.Millisecond:
			quick = append(quick, t)
		default:
			slow = append(slow, t)
		}
	}
	switch {
	case !covered:
		return uncovered
	case len(quick)+len(slow) == 0:
		return untold
	case fails(quick, f.id):
		return noticed
	}
	for i, t := range slow {
		if t.took > long && i+len(quick) > 0 {
			break
		}
		if fails([]*test{t}, f.id) {
			return noticed
		}
	}
	return survived
}
