// Genfork generates the package rocelayers for github.com/gopacket/gopacket from
// the one for github.com/google/gopacket. It is run in the folder of the latter:
//
//	go run ./genfork [-tests] [DIR]
//
// It writes the package without its tests to fork/rocelayers or DIR. With -tests it
// adds the tests and their data, which are not committed.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	tests := flag.Bool("tests", false, "generate the tests and their data, too")
	flag.Parse()
	to := filepath.Join("fork", "rocelayers")
	if flag.NArg() > 0 {
		to = flag.Arg(0)
	}
	if err := generate(".", to, *tests); err != nil {
		log.Fatal("genfork: ", err)
	}
}

// generate converts the files of the folder from and writes them to the folder to,
// which it empties first. It leaves out this command and the module of the fork,
// which are below from as well, and, unless wanted, tests and their data.
func generate(from, to string, tests bool) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	files := os.DirFS(from)
	return fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "fork" || name == "genfork" || name == "testdata" && !tests):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case strings.HasSuffix(name, "_test.go") && !tests:
			return nil
		}
		octets, err := fs.ReadFile(files, name)
		if err == nil && filepath.Ext(name) == ".go" {
			octets, err = convertSource(name, octets)
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), octets, 0o644)
	})
}

// other replaces the names of one package by those of the other.
var other = strings.NewReplacer(
	"github.com/google/gopacket", "github.com/gopacket/gopacket",
	"github.com/rocecn/rocecn/rocelayers", "github.com/rocecn/rocecn/rocelayers/fork/rocelayers",
)

// convertSource returns the generated file for the source file of this name.
func convertSource(name string, octets []byte) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "// Code generated from rocelayers/%s by rocelayers/genfork; DO NOT EDIT.\n\n", name)
	for line := range strings.Lines(string(octets)) {
		if !strings.HasPrefix(line, "//go:generate ") {
			out.WriteString(other.Replace(line))
		}
	}
	return format.Source(out.Bytes())
}
