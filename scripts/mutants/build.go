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

// A binary holds the tests of a package.
type binary struct{ name, folder string }

// build builds the tests of each folder with all faults in. Those that do not
// build are left out.
func build(dir string, p *pkg, folders []string) (all []binary, err error) {
	runtime := strings.NewReplacer("PACKAGE", p.name, "FAULTS", strconv.Itoa(len(p.faults))).Replace(runtime)
	for i, folder := range folders {
		b := binary{filepath.Join(dir, fmt.Sprint("tests", i)), folder}
		for {
			overlay := map[string]string{}
			write := func(name, text string) {
				overlay[filepath.Join(p.folder, name)] = filepath.Join(dir, name)
				err = first(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
			}
			write("mutants_runtime.go", runtime)
			for _, f := range p.files {
				write(f.name, f.text())
			}
			text, _ := json.Marshal(map[string]any{"Replace": overlay})
			write("overlay.json", string(text))
			if err != nil {
				return nil, err
			}
			out, err := exec.Command("go", "test", "-c", "-vet=off", "-gcflags=-e",
				"-overlay", filepath.Join(dir, "overlay.json"), "-o", b.name, folder).CombinedOutput()
			if err == nil {
				break
			}
			if !p.leaveOut(string(out)) {
				return nil, fmt.Errorf("%s: %w\n%s", folder, err, out)
			}
		}
		all = append(all, b)
	}
	return all, nil
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

var position = regexp.MustCompile(`(?m)([^/\s]+\.go):(\d+):\d+: (.*)$`)

// leaveOut marks the faults in lines that the compiler complains about, and all in
// a function that it finds no return in.
func (p *pkg) leaveOut(complaints string) (any bool) {
	for _, m := range position.FindAllStringSubmatch(complaints, -1) {
		line, _ := strconv.Atoi(m[2])
		from := line
		for _, f := range p.files {
			if f.name == m[1] && m[3] == "missing return" {
				for _, d := range f.tree.Decls {
					begin, end := p.set.Position(d.Pos()).Line, p.set.Position(d.End()).Line
					if begin <= line && line <= end {
						from = begin
					}
				}
			}
		}
		for _, f := range p.faults {
			if f.file == m[1] && from <= f.line && f.line <= line && !f.broken {
				f.broken, any = true, true
			}
		}
	}
	return any
}

// A test is one of a binary's.
type test struct {
	of            binary
	name          string
	took          time.Duration
	reached, told map[int]bool // faults
}

// tests runs each test alone, without a fault, and records to which it comes.
func (b binary) tests(dir string) (all []*test, err error) {
	list, err := b.command("-test.list", ".").Output()
	if err != nil {
		return nil, err
	}
	record := filepath.Join(dir, "record")
	for name := range strings.FieldsSeq(string(list)) {
		if strings.HasPrefix(name, "Benchmark") {
			continue
		}
		if err := os.WriteFile(record, nil, 0o666); err != nil {
			return nil, err
		}
		c := b.command("-test.run", "^"+name+"$")
		c.Env = append(c.Environ(), "MUTANT_RECORD="+record)
		t := &test{b, name, 0, map[int]bool{}, map[int]bool{}}
		began := time.Now()
		if out, err := c.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "mutants: left out, as it fails without a fault: %s %s\n%s", b.folder, name, out)
			continue
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

// command runs a binary in the folder of its package, with so much memory only,
// as a loop may have no end.
func (b binary) command(args ...string) *exec.Cmd {
	c := exec.Command("sh", append([]string{"-c", `ulimit -v 8000000; exec nice "$0" "$@"`, b.name}, args...)...)
	c.Dir = b.folder
	return c
}

// fails tells whether one of some tests fails with a fault.
func fails(tests []*test, id int) bool {
	of := map[binary][]string{}
	limit := map[binary]time.Duration{}
	for _, t := range tests {
		of[t.of] = append(of[t.of], t.name)
		limit[t.of] += t.took
	}
	for b, names := range of {
		c := b.command("-test.failfast", "-test.run", "^("+strings.Join(names, "|")+")$",
			"-test.timeout", (10*time.Second + 5*limit[b]).String())
		c.Env = append(c.Environ(), "MUTANT="+strconv.Itoa(id))
		if c.Run() != nil {
			return true
		}
	}
	return false
}
