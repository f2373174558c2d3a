package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

//go:embed runtime.txt
var runtime string

// build builds the tests of p with all faults in, but for those that do not build.
func (p *pkg) build(dir string) error {
	runtime := strings.NewReplacer("PACKAGE", p.name, "FAULTS", strconv.Itoa(len(p.faults))).Replace(runtime)
	for {
		texts, overlay := map[string]string{"mutants_runtime.go": runtime}, map[string]string{}
		for _, f := range p.files {
			texts[f.name] = f.text()
		}
		for name, text := range texts {
			overlay[filepath.Join(p.folder, name)] = filepath.Join(dir, name)
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				return err
			}
		}
		text, _ := json.Marshal(map[string]any{"Replace": overlay})
		if err := os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o666); err != nil {
			return err
		}
		out, err := exec.Command("go", "test", "-c", "-vet=off", "-gcflags=-e", "-overlay",
			filepath.Join(dir, "overlay.json"), "-o", filepath.Join(dir, "tests"), p.folder).CombinedOutput()
		if err == nil || !p.leaveOut(string(out)) {
			return err
		}
	}
}

var position = regexp.MustCompile(`(?m)([^/\s]+\.go):(\d+):\d+: `)

// leaveOut marks the faults in lines that the compiler complains about.
func (p *pkg) leaveOut(complaints string) (any bool) {
	for _, m := range position.FindAllStringSubmatch(complaints, -1) {
		for _, f := range p.faults {
			if f.file == m[1] && strconv.Itoa(f.line) == m[2] && !f.broken {
				fmt.Fprintln(os.Stderr, "mutants: left out, as it does not build:", f)
				f.broken, any = true, true
			}
		}
	}
	if !any {
		fmt.Fprint(os.Stderr, complaints)
	}
	return any
}

// A test is one of the package's.
type test struct {
	name          string
	took          time.Duration
	reached, told map[int]bool // faults
}

// tests runs each test alone, without a fault, and records to which it comes.
func (p *pkg) tests(dir string) (all []*test, err error) {
	list, err := p.command(dir, "-test.list", "^(Test|Example|Fuzz)").Output()
	if err != nil {
		return nil, err
	}
	record := filepath.Join(dir, "record")
	for name := range strings.FieldsSeq(string(list)) {
		if err := os.WriteFile(record, nil, 0o666); err != nil {
			return nil, err
		}
		if err := os.Chmod(record, 0o666); err != nil {
			return nil, err
		}
		c := p.command(dir, "-test.run", "^"+name+"$")
		c.Env = append(c.Environ(), "MUTANT_RECORD="+record)
		t := &test{name, 0, map[int]bool{}, map[int]bool{}}
		began := time.Now()
		if out, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s fails without a fault: %w\n%s", name, err, out)
		}
		t.took = time.Since(began)
		hits, err := os.ReadFile(record)
		if err != nil {
			return nil, err
		}
		for word := range strings.FieldsSeq(string(hits)) {
			if id, _ := strconv.Atoi(word); id > 0 {
				t.reached[id] = true
			} else {
				t.told[-id] = true
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// command runs the tests in the folder of their package, without rights where root runs
// this, and with so much memory only, as a loop may have no end.
func (p *pkg) command(dir string, args ...string) *exec.Cmd {
	const shell = `ulimit -v 8000000; [ $(id -u) != 0 ] || set -- setpriv --reuid=65534 --clear-groups "$@"; exec nice "$@"`
	c := exec.Command("sh", append([]string{"-c", shell, "sh", filepath.Join(dir, "tests")}, args...)...)
	c.Dir = p.folder
	return c
}

// fails tells whether one of some tests fails with a fault.
func (p *pkg) fails(dir string, tests []*test, id int) bool {
	var names []string
	limit := 10 * time.Second
	for _, t := range tests {
		names = append(names, t.name)
		limit += 5 * t.took
	}
	c := p.command(dir, "-test.failfast", "-test.run", "^("+strings.Join(names, "|")+")$", "-test.timeout", limit.String())
	c.Env = append(c.Environ(), "MUTANT="+strconv.Itoa(id))
	return len(tests) > 0 && c.Run() != nil
}
