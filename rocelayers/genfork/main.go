// Genfork makes the package rocelayers for github.com/gopacket/gopacket out of
// the one for github.com/google/gopacket: every file of it, its tests and their
// data included. It is run in the folder of the latter, by
//
//	go generate ./rocelayers
//
// and writes to fork/rocelayers, or to another folder that is given.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	to := filepath.Join("fork", "rocelayers")
	if len(os.Args) > 1 {
		to = os.Args[1]
	}
	if err := generate(".", to); err != nil {
		log.Fatal("genfork: ", err)
	}
}

// generate writes what the files of the folder from become to the folder to,
// which has nothing else afterwards. This command and the module of the fork,
// which stand in the folder from as well, are left out.
func generate(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	files := os.DirFS(from)
	return fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "fork" || name == "genfork"):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		octets, err := fs.ReadFile(files, name)
		if err == nil && filepath.Ext(name) == ".go" {
			octets, err = source(name, octets)
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), octets, 0o644)
	})
}

// other is what names of the one package become in the other.
var other = strings.NewReplacer(
	"github.com/google/gopacket", "github.com/gopacket/gopacket",
	"github.com/rocecn/rocecn/rocelayers", "github.com/rocecn/rocecn/rocelayers/fork/rocelayers",
)

// source returns what the source file of this name becomes.
func source(name string, octets []byte) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "// Code generated from rocelayers/%s by rocelayers/genfork; DO NOT EDIT.\n\n", name)
	for line := range strings.Lines(string(octets)) {
		if !strings.HasPrefix(line, "//go:generate ") {
			out.WriteString(other.Replace(line))
		}
	}
	return format.Source(out.Bytes())
}
