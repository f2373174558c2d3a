package main

import (
	"bytes"
	"context"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// named are the names that go test gives to inputs. Inputs with other names are kept.
var named = regexp.MustCompile(`^[0-9a-f]{16}$`)

// minimizeCorpora removes inputs from the corpora that reach no code which smaller ones, or
// those in the code of the test, do not. As for go test, code that an input reaches
// twice as often is other code.
func minimizeCorpora(ctx context.Context, targets []target, dir string) error {
	var was, is, octetsWas, octetsIs int64
	for _, t := range targets {
		inputs, err := inputsOf(t.corpusFolder())
		if err != nil {
			return err
		}
		if len(inputs) == 0 {
			continue
		}
		program, err := t.buildProgram(ctx, dir, "-covermode=count", "-coverpkg="+t.module+"/...")
		if err != nil {
			return err
		}
		reached := map[string]bool{}
		if _, err := t.reachedLines(ctx, program, "seed#", reached); err != nil {
			return err
		}
		kept := 0
		for _, i := range inputs {
			name := filepath.Base(i.file)
			news, err := t.reachedLines(ctx, program, name+"$", reached)
			if err != nil {
				return err
			}
			was, octetsWas = was+1, octetsWas+i.size
			if !news && named.MatchString(name) {
				if err := os.Remove(i.file); err != nil {
					return err
				}
				continue
			}
			kept++
			is, octetsIs = is+1, octetsIs+i.size
		}
		fmt.Printf("%s: %d inputs of %d kept\n", t, kept, len(inputs))
	}
	fmt.Printf("%d inputs of %d octets, of %d of %d\n", is, octetsIs, was, octetsWas)
	return nil
}

var block = regexp.MustCompile(`(?m)^(\S+) \d+ (\d+)$`)

// reachedLines runs a target's inputs by name, adds the code that they reach, and reports whether any of
// it is new.
func (t target) reachedLines(ctx context.Context, program, name string, reached map[string]bool) (news bool,
	err error) {
	profile := program + ".cover"
	cmd := exec.CommandContext(ctx, program, "-test.run=^"+t.name+"$/^"+name, "-test.coverprofile="+profile)
	cmd.Dir = t.folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return false, fmt.Errorf("%s/%s: %w\n%s", t, name, err, bytes.TrimSpace(out))
	}
	octets, err := os.ReadFile(profile)
	if err != nil {
		return false, err
	}
	for _, m := range block.FindAllSubmatch(octets, -1) {
		n, err := strconv.ParseUint(string(m[2]), 10, 64)
		if err != nil {
			return false, err
		}
		if key := fmt.Sprint(string(m[1]), " ", bits.Len64(n)); n > 0 && !reached[key] {
			reached[key], news = true, true
		}
	}
	return news, nil
}
