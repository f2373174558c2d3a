package repo

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update-api", false, "write the exported API to the files of api")

// The files of the promised API, one fact a line. From 1.0.0 on no line leaves v1.txt. drafts.txt lists the facts that
// name something of a package that follows a draft, and the revision of each draft; it loses lines only together with a
// revision. Experimental packages promise nothing and are in no file.
const (
	stable       = "api/v1.txt"
	drafts       = "api/drafts.txt"
	experimental = ""
)

// The files of the API list the exports of all packages that promise something, so that the diff of a change shows its
// effect on users.
func TestAPI(t *testing.T) {
	wiretest.Once(t)
	have := facts(t)
	for _, file := range []string{stable, drafts} {
		was := readLines(t, file)
		lost := have.missing(was)
		now := have.listFacts(file, promises(t))
		if *update {
			if released(t) {
				require.Empty(t, notRevised(lost), "%s promises these, so they must stay", file)
			}
			require.NoError(t, os.WriteFile(file, []byte(strings.Join(now, "\n")+"\n"), 0o644))
			continue
		}
		require.NotEmpty(t, was)
		require.Empty(t, lost, "in %s, but no longer exported", file)
		added := slices.DeleteFunc(slices.Clone(now), func(line string) bool { return slices.Contains(was, line) })
		require.Empty(t, added, "exported, but not in %s: go test ./internal/repo -run TestAPI -update-api", file)
	}
}

// released reports whether version 1.0.0 is out.
func released(t *testing.T) bool {
	text := wiretest.Must(os.ReadFile("CHANGELOG.md"))(t)
	return !strings.Contains(string(text), "## 1.0.0 – unreleased")
}

// notRevised returns the lost facts that must stay. A fact that names packages of drafts may go with the revision of
// one of them. The method of a layer does not name the type from which it is promoted, and may go with any revision.
func notRevised(lost []string) []string {
	var revised []string
	for _, line := range lost {
		if p, _, ok := strings.Cut(line, ": follows "); ok {
			revised = append(revised, p)
		}
	}
	return slices.DeleteFunc(slices.Clone(lost), func(line string) bool {
		named := draftPackage.FindAllString(line, -1)
		if named == nil && strings.HasPrefix(line, "rocelayers: method ") {
			return revised != nil
		}
		return slices.ContainsFunc(named, func(p string) bool {
			return slices.Contains(revised, strings.TrimRight(p, ".:"))
		})
	})
}

// draftPackage finds packages of drafts in a fact, which begins with its own.
var draftPackage = regexp.MustCompile(`^(?:fastcnp|proxymsg|fcn|ppfc|pnc):|\b(?:fastcnp|proxymsg|fcn|ppfc|pnc)\.`)

// A promise of a stable package that names something of a draft's package goes with the draft.
func TestDraftsTakeTheirFactsAlong(t *testing.T) {
	wiretest.Once(t)
	have, promised := facts(t), promises(t)
	others := slices.Concat(have.listFacts(stable, promised), have.listFacts(experimental, promised))
	for _, line := range others {
		require.NotRegexp(t, draftPackage, line)
	}
	draft := have.listFacts(drafts, promised)
	for _, line := range []string{
		"rocelayers: method (*Proxy) TruncateInvoking(net/netip.Addr)", // promoted from proxymsg.Message
		"message: type Message struct, FCN fcn.Message",
		"fcn: follows " + revisions(t)["fcn"],
	} {
		require.True(t, slices.Contains(draft, line), line)
		require.False(t, slices.Contains(others, line), line)
	}
}

// Facts go with the revision of their own draft alone.
func TestFactsGoWithTheirRevision(t *testing.T) {
	lost := []string{
		"fcn: follows draft-he-rtgwg-wan-fcn-00", "fcn: const Port untyped int = 1021",
		"message: type Message struct, FCN fcn.Message", "rocelayers: method (*FCN) Decode([]byte) error",
	}
	require.Empty(t, notRevised(lost))
	require.Equal(t, lost[1:], notRevised(lost[1:]))
	kept := []string{
		"bth: const CNP Opcode = 129", "fastcnp: type Option struct", "fcnx: func F()",
		"message: type Message struct, Proxy proxymsg.Message",
	}
	require.Equal(t, kept, notRevised(slices.Concat(lost, kept)))
}

// Changes that break a program are reported as missing facts; other changes are not.
func TestMissingFactsAreFound(t *testing.T) {
	of := func(source string) apiFacts {
		files := token.NewFileSet()
		file := wiretest.Must(parser.ParseFile(files, "p.go", "package p\n"+source, 0))(t)
		p := wiretest.Must(new(types.Config).Check(module+"/p", files, []*ast.File{file}, nil))(t)
		all := apiFacts{}
		all.add(p)
		return all
	}
	for _, c := range []struct {
		was, is string
		missing []string
	}{
		{`func F(a int) (b int)`, `func F(x int) int; func G()`, nil},
		{`func F(int)`, `func F(...int)`, []string{`p: func F(int)`}},
		{`func F()`, `func f()`, []string{`p: func F()`}},
		{`func F[T any](T) {}`, `func F[T comparable](T) {}`, []string{`p: func F[T any](T)`}},
		{`const A, B = 1, 2`, `const C, B, A = 3, 2, 1`, nil},
		{`const (A = iota; B)`, `const (A = iota; C; B)`, []string{`p: const B untyped int = 1`}},
		{`const A = 1`, `const A uint8 = 1`, []string{`p: const A untyped int = 1`}},
		{`var V int`, `var V int8`, []string{`p: var V int`}},
		{`type T struct{ A int }`, `type T struct{ B, A int; c int }`, nil},
		{`type T struct{ A int; b int }`, `type T struct{ a int }`, []string{`p: type T struct, A int`}},
		{`type T struct{ A int }`, `type T struct{ A uint }`, []string{`p: type T struct, A int`}},
		{`type T struct{}`, `type T struct{ b []int }`, []string{`p: type T is comparable`}},
		{`type T uint8`, `type T uint16`, []string{`p: type T uint8`}},
		{`type T interface{ M() }`, `type T interface{ M(); N() }`, []string{`p: type T interface{M()}`}},
		{`type T = int`, `type T int`, []string{`p: type T = int`}},
		{`type T int; func (*T) M()`, `type T int; func (T) M(); func (T) N()`, nil},
		{`type T int; func (T) M()`, `type T int; func (*T) M()`, []string{`p: method (T) M()`}},
		{`type t struct{}; func (t) M(); type T struct{ t }`, `type T struct{}`, []string{`p: method (T) M()`}},
		{`type T struct{}; func (T) m()`, `type T struct{}`, nil},
		{`type t struct{ A int }`, ``, nil},
	} {
		was := of(c.was)
		require.Empty(t, was.missing(was.listFacts(stable, nil)))
		missing := of(c.is).missing(was.listFacts(stable, nil))
		require.ElementsMatch(t, c.missing, missing, "%s to %s", c.was, c.is)
	}
}

// readLines returns the lines of a file, none if it is not there.
func readLines(t *testing.T, file string) []string {
	text, err := os.ReadFile(file)
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// apiFacts are the facts of an API on which a program may rely, each with the packages that it names.
type apiFacts map[string][]string

// listFacts returns the facts of a file in order. README.md states the promise of each package.
func (a apiFacts) listFacts(file string, promised map[string]string) (lines []string) {
	for _, line := range slices.Sorted(maps.Keys(a)) {
		words := map[string]bool{}
		for _, pkg := range a[line] {
			words[promised[pkg]] = true
		}
		belongs := stable
		if words["follows its draft"] {
			belongs = drafts
		} else if words["experimental"] {
			belongs = experimental
		}
		if belongs == file {
			lines = append(lines, line)
		}
	}
	return lines
}

// missing returns the lines that are no facts. A method of a pointer may have become one of the value.
func (a apiFacts) missing(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return a[line] != nil || a[strings.Replace(line, "method (*", "method (", 1)] != nil
	})
}

// facts returns those of all packages for others, as they are on Linux on amd64.
func facts(t *testing.T) apiFacts {
	paths := []string{module}
	for _, dir := range libraries(t) {
		paths = append(paths, module+"/"+filepath.ToSlash(dir))
	}
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"},
		paths...)...)
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	out := wiretest.Must(list.Output())(t)
	compiled := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled[path] = file
	}
	packages := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(compiled[path])
	})
	all := apiFacts{}
	for _, path := range paths {
		p := wiretest.Must(packages.Import(path))(t)
		all.add(p)
	}
	for pkg, revision := range revisions(t) {
		all[pkg+": follows "+revision] = []string{pkg}
	}
	return all
}

// revisions returns the draft, its revision and the assigned numbers that README.md states for each package.
func revisions(t *testing.T) map[string]string {
	text := wiretest.Must(os.ReadFile("README.md"))(t)
	of := map[string]string{}
	line := regexp.MustCompile("(?m)^\\| \\[`([a-z]+)`\\].* \\| ([^|]+) \\| follows its draft")
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		of[m[1]] = m[2]
	}
	return of
}

// add adds the facts of a package.
func (a apiFacts) add(p *types.Package) {
	name := cmp.Or(strings.TrimPrefix(strings.TrimPrefix(p.Path(), module), "/"), ".")
	names := []string{name} // named by the next fact
	in := func(other *types.Package) string {
		if other == p || isInternal(other) {
			return ""
		}
		path := strings.TrimPrefix(other.Path(), module+"/")
		names = append(names, path)
		return path
	}
	text := func(t types.Type) string { return types.TypeString(t, in) }
	fact := func(format string, values ...any) {
		a[name+": "+fmt.Sprintf(format, values...)] = names
		names = []string{name}
	}
	for _, exported := range p.Scope().Names() {
		if !token.IsExported(exported) {
			continue
		}
		switch o := p.Scope().Lookup(exported).(type) {
		case *types.Const:
			fact("const %s %s = %s", o.Name(), text(o.Type()), o.Val().ExactString())
		case *types.Var:
			fact("var %s %s", o.Name(), text(o.Type()))
		case *types.Func:
			fact("func %s%s", o.Name(), strings.TrimPrefix(text(unnamed(o.Signature())), "func"))
		case *types.TypeName:
			a.addType(o, text, in, fact)
		}
	}
}

// isInternal reports whether a package is one that programs outside this module cannot import. Its types that packages
// for others export have aliases of the same name there.
func isInternal(p *types.Package) bool {
	return p != nil && strings.HasPrefix(p.Path(), module+"/internal/")
}

// addType adds the facts of a type.
func (a apiFacts) addType(
	o *types.TypeName, text func(types.Type) string, in types.Qualifier, fact func(string, ...any),
) {
	of := text(o.Type())
	if o.IsAlias() {
		named, ok := types.Unalias(o.Type()).(*types.Named)
		if !ok || !isInternal(named.Obj().Pkg()) {
			fact("type %s = %s", o.Name(), text(types.Unalias(o.Type())))
			return
		}
		of = o.Name() // the only name that others have for the type
	}
	switch u := o.Type().Underlying().(type) {
	case *types.Struct:
		fact("type %s struct", of)
		for f := range u.Fields() {
			if f.Exported() {
				fact("type %s struct, %s %s", of, f.Name(), text(f.Type()))
			}
		}
	case *types.Interface: // whole: one method more is one that others do not have
		fact("type %s %s", of, text(u))
		return
	default:
		fact("type %s %s", of, text(u))
	}
	if types.Comparable(o.Type()) {
		fact("type %s is comparable", of)
	}
	value := types.NewMethodSet(o.Type())
	for m := range types.NewMethodSet(types.NewPointer(o.Type())).Methods() {
		if !m.Obj().Exported() {
			continue
		}
		star := "*"
		if value.Lookup(m.Obj().Pkg(), m.Obj().Name()) != nil {
			star = ""
		}
		in(m.Obj().Pkg()) // which is another one's, if it is promoted
		signature := strings.TrimPrefix(text(unnamed(m.Type().(*types.Signature))), "func")
		fact("method (%s%s) %s%s", star, of, m.Obj().Name(), signature)
	}
}

// unnamed returns a signature without the names of its parameters and results. A generic function's signature is
// unchanged.
func unnamed(s *types.Signature) *types.Signature {
	if s.TypeParams().Len() > 0 {
		return s
	}
	bare := func(named *types.Tuple) *types.Tuple {
		var vars []*types.Var
		for v := range named.Variables() {
			vars = append(vars, types.NewParam(token.NoPos, v.Pkg(), "", v.Type()))
		}
		return types.NewTuple(vars...)
	}
	return types.NewSignatureType(nil, nil, nil, bare(s.Params()), bare(s.Results()), s.Variadic())
}
