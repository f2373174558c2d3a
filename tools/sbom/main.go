// Command sbom prints what programs are made of, as CycloneDX 1.6: the modules
// that Go has linked into them, with the checksums by which Go knows those, and the
// version of Go.
//
//	sbom PROGRAM… >rocecn.cdx.json
//
// All of it is what the linker has written into the programs, as go version -m
// shows it. The same programs under the same names give the same octets; the time
// is that of the commit.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "sbom: %v\n", err)
		os.Exit(1)
	}
}

func run(files []string, w io.Writer) error {
	if len(files) == 0 {
		return errors.New("usage: sbom PROGRAM…")
	}
	var all []program
	for _, file := range files {
		octets, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return err
		}
		all = append(all, program{file, sha256.Sum256(octets), info})
	}
	b, err := describe(all)
	if err != nil {
		return err
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(b)
}

// A program is a file, and what Go has written into it.
type program struct {
	name   string
	sha256 [sha256.Size]byte
	info   *debug.BuildInfo
}

// bom is the part of a CycloneDX bill of materials that is used here.
type bom struct {
	Schema       string       `json:"$schema"`
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp,omitempty"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []licensed `json:"licenses,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type licensed struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// describe makes the bill of programs of one module at one commit.
func describe(all []program) (*bom, error) {
	main := all[0].info.Main
	root := library(main.Path, main.Version, "")
	root.Type = "application"
	root.Licenses = make([]licensed, 1)
	root.Licenses[0].License.ID = "Apache-2.0"
	b := &bom{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata: metadata{setting(all[0].info, "vcs.time"), root},
	}
	libraries := map[string]component{}
	whole := dependency{Ref: root.Ref}
	for _, p := range all {
		if p.info.Main.Path != main.Path || p.info.Main.Version != main.Version ||
			setting(p.info, "vcs.revision") != setting(all[0].info, "vcs.revision") {
			return nil, fmt.Errorf("%s and %s are not of one version", p.name, all[0].name)
		}
		c := component{Type: "application", Ref: p.name, Name: p.name, Version: main.Version,
			Hashes: []hash{{"SHA-256", hex.EncodeToString(p.sha256[:])}}}
		for _, s := range p.info.Settings {
			c.Properties = append(c.Properties, property{"go:build:" + s.Key, s.Value})
		}
		b.Components = append(b.Components, c)
		whole.DependsOn = append(whole.DependsOn, c.Ref)

		std := library("std", strings.TrimPrefix(p.info.GoVersion, "go"), "")
		libraries[std.Ref] = std
		its := dependency{c.Ref, []string{std.Ref}}
		for _, m := range p.info.Deps {
			if m.Replace != nil {
				return nil, fmt.Errorf("%s: %s is replaced by %s", p.name, m.Path, m.Replace.Path)
			}
			l := library(m.Path, m.Version, m.Sum)
			libraries[l.Ref] = l
			its.DependsOn = append(its.DependsOn, l.Ref)
		}
		slices.Sort(its.DependsOn)
		b.Dependencies = append(b.Dependencies, its)
	}
	b.Dependencies = slices.Insert(b.Dependencies, 0, whole)
	last := len(b.Components)
	for _, l := range libraries {
		b.Components = append(b.Components, l)
	}
	slices.SortFunc(b.Components[last:], func(x, y component) int { return cmp.Compare(x.Ref, y.Ref) })
	return b, nil
}

// library returns the component of a module, whose sum is that of go.sum.
func library(path, version, sum string) component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := component{Type: "library", Ref: url, Name: path, Version: version, PURL: url}
	if sum != "" {
		c.Properties = []property{{"go:sum", sum}}
	}
	return c
}

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
