package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"
)

// A fault is one entry of a list.
type fault struct {
	Name    string   `toml:"name"`    // a sentence about the behaviour with the fault, unique in all lists
	Stratum string   `toml:"stratum"` // kind of code, by which results are counted
	File    string   `toml:"file"`    // in the repository
	Old     string   `toml:"old"`     // occurs once in the file
	New     string   `toml:"new"`     // replaces Old
	Prepare []string `toml:"prepare"` // optional: a program and arguments, run in the copy before the tests
	Tests   []string `toml:"tests"`   // arguments of go test; by default the folder of the file
	Missed  string   `toml:"missed"`  // optional: the reason why no test can notice it
}

// readLists reads lists of faults in TOML and checks them.
func readLists(files []string) ([]fault, error) {
	var all []fault
	names := map[string]bool{}
	for _, file := range files {
		text, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		var list struct {
			Fault []fault `toml:"fault"`
		}
		err = toml.NewDecoder(text).DisallowUnknownFields().Decode(&list)
		text.Close()
		if err != nil {
			var strict *toml.StrictMissingError
			if errors.As(err, &strict) {
				return nil, fmt.Errorf("%s: unknown keys\n%s", file, strict)
			}
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for i := range list.Fault {
			f := &list.Fault[i]
			switch {
			case f.Name == "" || f.Stratum == "" || f.File == "" || f.Old == "":
				return nil, fmt.Errorf("%s: fault %d (%q): want name, stratum, file and old", file, i+1, f.Name)
			case names[f.Name]:
				return nil, fmt.Errorf("%s: %q: the name occurs twice", file, f.Name)
			case f.Old == f.New:
				return nil, fmt.Errorf("%s: %q: old and new are equal", file, f.Name)
			}
			names[f.Name] = true
			if len(f.Tests) == 0 {
				f.Tests = []string{"./" + filepath.ToSlash(filepath.Dir(f.File))}
			}
		}
		all = append(all, list.Fault...)
	}
	return all, nil
}
