// Mutants plants faults in a package, one at a time, and says which ones its tests do
// not notice:
//
//	go run ./tools/mutants ./flows
//	go run ./tools/mutants -match '^sequence.go:' -long 2s ./flows
//
// A fault is of a kind of gremlins' (it negates a comparison, exchanges < and <=, > and
// >=, + and -, * and /, ++ and --, makes % of * or takes a minus sign away), or negates
// a case of a switch, which that leaves alone. All of them are built at once into the
// package's tests, and the environment chooses one. So it is known which tests come to a
// fault, and which can tell it: where < never met equal numbers, none can.
package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A test is one of the package's, with the faults that it reaches and, as negative
// numbers, those that make a difference in it.
type test struct {
	name string
	took time.Duration
	hits map[int]bool
}

func main() {
	log.SetFlags(0)
	match := flag.String("match", "", "plant only faults whose line in the output matches this `expression`")
	long := flag.Duration("long", time.Hour, "leave out tests that take longer, where others can tell the fault")
	flag.Parse()
	dir := must(os.MkdirTemp("", "mutants"))
	defer os.RemoveAll(dir)
	check(os.Chmod(dir, 0o755))
	p := load(flag.Arg(0), dir)
	p.build()
	tests := p.tests()
	count, wanted := map[string]int{}, regexp.MustCompile(*match)
	for i, f := range p.faults {
		if wanted.MatchString(f.String()) {
			verdict := p.try(i+1, tests, *long)
			count[verdict]++
			if verdict != "noticed" {
				fmt.Printf("%s: %s\n", f, verdict)
			}
		}
	}
	for _, verdict := range slices.Sorted(maps.Keys(count)) {
		fmt.Println(count[verdict], verdict)
	}
}

func check(err error) {
	if err != nil {
		log.Fatalln("mutants:", err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// A pkg is a package with faults planted.
type pkg struct {
	path, name, folder, dir string            // what is built goes to dir
	names                   []string          // of its files
	exports                 map[string]string // what the compiler knows of the packages it imports
	faults                  []fault
}

func load(folder, dir string) *pkg {
	const format = "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{.Name}}\t{{.GoFiles}}"
	list := must(exec.Command("go", "list", "-export", "-deps", "-f", format, folder).Output())
	p, last := &pkg{dir: dir, exports: map[string]string{}}, []string{}
	for line := range strings.Lines(string(list)) {
		last = strings.Split(strings.TrimSpace(line), "\t")
		p.exports[last[0]] = last[1]
	}
	p.path, p.folder, p.name, p.names = last[0], last[2], last[3], strings.Fields(strings.Trim(last[4], "[]"))
	return p
}

//go:embed runtime.txt
var runtime string

// build builds the tests of p with all faults in.
func (p *pkg) build() {
	texts, overlay := p.plant(), map[string]string{}
	own := strings.NewReplacer("PACKAGE", p.name, "FAULTS", strconv.Itoa(len(p.faults)))
	texts["mutants.go"] = []byte(own.Replace(runtime))
	for name, text := range texts {
		overlay[filepath.Join(p.folder, name)] = filepath.Join(p.dir, name)
		check(os.WriteFile(filepath.Join(p.dir, name), text, 0o666))
	}
	list := filepath.Join(p.dir, "overlay.json")
	check(os.WriteFile(list, must(json.Marshal(map[string]any{"Replace": overlay})), 0o666))
	c := exec.Command("go", "test", "-c", "-vet=off", "-overlay", list, "-o", filepath.Join(p.dir, "tests"), p.folder)
	c.Stderr = os.Stderr
	check(c.Run())
}

// tests runs each test alone, without a fault, and returns them with what they hit,
// the quickest first.
func (p *pkg) tests() (all []*test) {
	record := filepath.Join(p.dir, "record")
	list := must(p.command("-test.list", "^(Test|Example|Fuzz)").Output())
	for name := range strings.FieldsSeq(string(list)) {
		check(os.WriteFile(record, nil, 0o666))
		check(os.Chmod(record, 0o666))
		c := p.command("-test.run", "^"+name+"$")
		c.Env = append(c.Environ(), "MUTANT_RECORD="+record)
		began := time.Now()
		if out, err := c.CombinedOutput(); err != nil {
			log.Fatalf("mutants: %s fails without a fault: %v\n%s", name, err, out)
		}
		t := &test{name, time.Since(began), map[int]bool{}}
		for word := range strings.FieldsSeq(string(must(os.ReadFile(record)))) {
			t.hits[must(strconv.Atoi(word))] = true
		}
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(a, b *test) int { return cmp.Compare(a.took, b.took) })
	return all
}

// command runs the tests in the folder of their package, without rights where root runs
// this, and with so much memory only, as a loop may have no end.
func (p *pkg) command(args ...string) *exec.Cmd {
	const shell = `ulimit -v 8000000
		[ $(id -u) != 0 ] || set -- setpriv --reuid=65534 --clear-groups "$@"
		exec nice "$@"`
	c := exec.Command("sh", append([]string{"-c", shell, "sh", filepath.Join(p.dir, "tests")}, args...)...)
	c.Dir = p.folder
	return c
}

// try lets the tests look at a fault that can tell it, the slow ones alone and after the
// others, and returns what becomes of it.
func (p *pkg) try(id int, tests []*test, long time.Duration) string {
	covered := false
	var batches [][]*test
	for i, t := range tests {
		covered = covered || t.hits[id]
		switch n := len(batches); {
		case !t.hits[-id] || n > 0 && t.took > long:
		case n == 1 && t.took < 300*time.Millisecond:
			batches[0] = append(batches[0], t)
		default:
			batches = append(batches, tests[i:i+1:i+1])
		}
	}
	for _, batch := range batches {
		names, limit := []string{}, 10*time.Second
		for _, t := range batch {
			names = append(names, t.name)
			limit += 5 * t.took
		}
		run := "^(" + strings.Join(names, "|") + ")$"
		c := p.command("-test.failfast", "-test.run", run, "-test.timeout", limit.String())
		c.Env = append(c.Environ(), "MUTANT="+strconv.Itoa(id))
		if c.Run() != nil {
			return "noticed"
		}
	}
	switch {
	case !covered:
		return "not covered"
	case len(batches) == 0:
		return "survived, as it makes no difference in any test"
	}
	return "survived"
}
