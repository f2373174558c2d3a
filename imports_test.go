package rocecn_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module   = "github.com/rocecn/rocecn"
	gopacket = "github.com/google/gopacket"
	testify  = "github.com/stretchr/testify"
	xnet     = "golang.org/x/net"
	xsys     = "golang.org/x/sys"
)

// A package imports the standard library and the floors below its own, never
// a neighbour. A new package takes its place here.
var floors = [][]string{
	{"internal/wireerr", "internal/hash"},
	{"internal/enumtext"},
	{"bth", "icrc", "ipv6opt", "ioam", "pfc", "cm", "pnc"},
	{"rocev2"},
	{"fcn", "cnp", "ppfc", "proxymsg", "encap"},
	{"fastcnp"},
	{"message"},
	{"rocelayers", "qpmap", "filter", "internal/capture", "internal/genlua"}, // the latter two for programs alone
	{"node", "node/limit", "node/acl", "node/level", "node/proxies"},
	{"node/congested", "node/receiver", "node/sender", "node/ingress", "node/proxy", "node/border", "node/pause", "node/reaction", "flows", "internal/traffic"},
	{"lab/sim", "lab/fluid"},
	{"lab"},
	{"lab/check", "lab/scenario"},
}

func TestImports(t *testing.T) {
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (name == "testdata" || strings.ContainsAny(name[:1], "._") || isModule(file)):
			return fs.SkipDir
		case d.IsDir() && file != "." && isFile(filepath.Join(file, "go.mod")): // a module of its own
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		src, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, wrong := range wrongImports(filepath.ToSlash(file), string(src)) {
			t.Error(wrong)
		}
		return nil
	})
	require.NoError(t, err)
}

func isFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func TestWrongImportsAreFound(t *testing.T) {
	for _, c := range []struct {
		file, imports string // the file, what it imports
		wrong         string // the one import refused, if any
	}{
		{"bth/bth.go", `errors ` + module + `/internal/wireerr`, ``},
		{"bth/bth.go", module, module},
		{"bth/bth.go", module + `/icrc`, module + `/icrc`},
		{"bth/bth.go", module + `/rocev2`, module + `/rocev2`},
		{"bth/bth.go", module + `/internal/wiretest`, module + `/internal/wiretest`},
		{"bth/bth.go", gopacket, gopacket},
		{"bth/bth.go", testify + `/require`, testify + `/require`},
		{"bth/bth.go", xnet + `/bpf`, xnet + `/bpf`},
		{"bth/bth.go", `C`, `C`},
		{"bth/bth_test.go", `testing ` + testify + `/require ` + module + `/internal/wiretest ` + xnet + `/bpf`, ``},
		{"bth/bth_test.go", gopacket + `/layers`, gopacket + `/layers`},
		{"bth/bth_test.go", `C`, `C`},
		{"rocev2/walk.go", module + `/bth`, ``},
		{"rocev2/walk.go", module + `/cmd/rocecn`, module + `/cmd/rocecn`},
		{"fastcnp/build.go", module + `/rocev2 ` + module + `/cnp`, ``},
		{"fastcnp/build.go", module + `/rocelayers`, module + `/rocelayers`},
		{"rocelayers/bth.go", gopacket + ` ` + gopacket + `/layers ` + module + `/fastcnp`, ``},
		{"rocelayers/bth.go", xnet + `/bpf`, xnet + `/bpf`},
		{"rocelayers/bth.go", module + `/internal/capture`, module + `/internal/capture`},
		{"rocelayers/bth_test.go", gopacket + `/layers`, ``},
		{"filter/walk.go", xnet + `/bpf ` + module + `/message`, ``},
		{"filter/walk.go", xnet + `/ipv6`, xnet + `/ipv6`},
		{"filter/walk.go", xsys + `/unix`, xsys + `/unix`},
		{"filter/walk_test.go", xsys + `/unix`, ``},
		{"cmd/rocecn/main.go", gopacket + `/pcapgo ` + xnet + `/ipv6`, gopacket + `/pcapgo`},
		{"cmd/rocecn/internal/live/live_linux.go", xsys + `/unix`, ``},
		{"cmd/rocecn/main.go", module + `/internal/capture`, ``},
		{"cmd/rocecn/main.go", module + `/cmd/rocecn/internal/inspect`, ``},
		{"cmd/rocecn/main.go", testify + `/require`, testify + `/require`},
		{"cmd/rocecn/main.go", `C`, `C`},
		{"cmd/rocecn/main_test.go", testify + `/require`, ``},
		{"bench/read_test.go", gopacket + `/layers ` + module + `/rocelayers`, ``},
		{"rocev2/walk.go", module + `/bench`, module + `/bench`},
		{"internal/wiretest/wiretest.go", module + `/internal/wireerr`, ``},
		{"errors.go", module + `/internal/wireerr`, ``},
		{"errors.go", module + `/bth`, module + `/bth`},
		{"bth/bth.go", `example.com/other`, `example.com/other`},
		{"bth/bth_test.go", `example.com/other`, `example.com/other`},
		{"lab/host.go", module + `/node/receiver ` + module + `/lab/sim`, ``},
		{"lab/host.go", module + `/lab/check`, module + `/lab/check`},
		{"node/sender/sender.go", module + `/lab/sim`, module + `/lab/sim`},
		{"novel/novel.go", `errors`, `novel`},
	} {
		src := "package p\n"
		for imported := range strings.FieldsSeq(c.imports) {
			src += fmt.Sprintf("import %q\n", imported)
		}
		wrong := wrongImports(c.file, src)
		if c.wrong == "" {
			require.Empty(t, wrong)
			continue
		}
		require.Len(t, wrong, 1, "%s with %s", c.file, c.imports)
		require.Contains(t, wrong[0], strconv.Quote(c.wrong))
	}
}

// isModule tells whether a folder is a module of its own.
func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// wrongImports returns a line for each import that a file of the module, named
// from its root, must not have.
func wrongImports(file, src string) (wrong []string) {
	pkg := path.Dir(file)
	if reach(pkg) < 0 {
		return []string{fmt.Sprintf("%s: package %q has no place on a floor", file, pkg)}
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ImportsOnly)
	if err != nil {
		return []string{err.Error()}
	}
	for _, spec := range f.Imports {
		if imported, _ := strconv.Unquote(spec.Path.Value); !allowed(file, imported) {
			wrong = append(wrong, fmt.Sprintf("%s must not import %q", file, imported))
		}
	}
	return wrong
}

func allowed(file, imported string) bool {
	pkg, test := path.Dir(file), strings.HasSuffix(file, "_test.go")
	switch {
	case imported == "C":
		return false
	case within(testify, imported):
		return test
	case within(xsys, imported):
		return test || within("cmd", pkg)
	case within(xnet, imported):
		return test || onTop(pkg) || pkg == "filter" && imported == xnet+"/bpf"
	case within(gopacket, imported):
		return pkg == "rocelayers" || onTop(pkg) && !within("cmd", pkg) // its layers take time at each start
	case within(module, imported):
		f := floor(strings.TrimPrefix(imported, module+"/"))
		return test || imported == module && onTop(pkg) || f >= 0 && f < reach(pkg) || within(module+"/cmd", imported) && within("cmd", pkg)
	default: // only the standard library has no dot before the first slash
		first, _, _ := strings.Cut(imported, "/")
		return !strings.Contains(first, ".")
	}
}

// floor returns the floor that a package stands on, -1 when it is on none and
// others cannot build on it.
func floor(pkg string) int {
	return slices.IndexFunc(floors, func(f []string) bool { return slices.Contains(f, pkg) })
}

// reach returns how many floors, from the lowest, a package may import; -1 when
// it is not known.
func reach(pkg string) int {
	switch {
	case onTop(pkg):
		return len(floors)
	case pkg == ".", within("internal", pkg) && floor(pkg) < 0:
		return 1
	}
	return floor(pkg)
}

// onTop tells whether a package stands on all floors, and nothing on it but, in
// a command, its other parts.
func onTop(pkg string) bool {
	return within("cmd", pkg) || within("examples", pkg) || within("bench", pkg)
}

// within tells whether p is the path root or one below it.
func within(root, p string) bool { return p == root || strings.HasPrefix(p, root+"/") }
