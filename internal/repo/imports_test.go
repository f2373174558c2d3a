package repo

import (
	"errors"
	"fmt"
	"go/build"
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

	"github.com/rocecn/rocecn/internal/wiretest"
)

const (
	module   = "github.com/rocecn/rocecn"
	gopacket = "github.com/google/gopacket"
	testify  = "github.com/stretchr/testify"
	xnet     = "golang.org/x/net"
	xsys     = "golang.org/x/sys"
	ebpf     = "github.com/cilium/ebpf"
	toml     = "github.com/pelletier/go-toml/v2"
	gobgp    = "github.com/osrg/gobgp/v4"
)

// layers are the packages of the libraries and of the laboratory. A package imports the standard library and packages
// of lower layers, never one of its own layer. The packages of internal are in the first two layers, or listed in
// aboveRocev2, or helpers of tests.
var layers = [][]string{
	{
		"internal/wireerr", "internal/hash", "internal/wire", "internal/webpage", "internal/clock", "internal/build",
	},
	{"internal/enumtext", "internal/crc", "internal/ipudp"},
	{"bth", "icrc", "ipv6opt", "ioam", "pfc", "pnc"},
	{"rocev2", "cm"},
	{"internal/answer", "internal/flowtable"},
	{"internal/limit", "internal/qplearn", "fcn", "cnp", "ppfc", "proxymsg", "encap", "capture"},
	{"fastcnp", "netio"},
	{"message"},
	{"rocelayers", "qpmap", "filter"},
	{"node", "node/acl", "node/level", "node/proxies"},
	{"node/internal/role"},
	{
		"node/congested", "node/receiver", "node/sender", "node/ingress", "node/proxy", "node/border", "node/pause",
		"flows",
	},
	{"node/reaction", "flows/triage"},
	{"lab/sim", "lab/fluid"},
	{"lab"},
	{"lab/rtt"},
	{"lab/check", "lab/scenario"},
	{"lab/experiment"},
}

// aboveRocev2 are the internal packages that use the types of rocev2.
var aboveRocev2 = []string{"internal/answer", "internal/flowtable", "internal/limit", "internal/qplearn"}

// helpers are packages that only tests and benchmarks import, with the number of layers that each may import.
var helpers = map[string]int{
	"internal/wiretest": 1,
	"internal/traffic":  len(layers), // captures made with the builders of all messages
}

func TestImports(t *testing.T) {
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (name == "testdata" || strings.ContainsAny(name[:1], "._")):
			return fs.SkipDir
		case d.IsDir() && file != "." && file != "lab" && file != "tools" && isModule(file):
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

// Each package of internal is in the first two layers, in aboveRocev2, a helper, or has only tests.
func TestInternalPackages(t *testing.T) {
	for i, f := range layers {
		for _, pkg := range f {
			require.Equal(t, i < 2 || slices.Contains(aboveRocev2, pkg), within("internal", pkg), pkg)
		}
	}
	dirs := wiretest.Must(os.ReadDir("internal"))(t)
	for _, d := range dirs {
		_, helper := helpers["internal/"+d.Name()]
		require.True(t, helper || layerOf("internal/"+d.Name()) >= 0 || onTop("internal/"+d.Name()),
			"internal/%s is in no layer and no helper of tests", d.Name())
	}
}

func isFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func TestWrongImportsAreFound(t *testing.T) {
	cases := wiretest.Cases(t, "../internal/repo/testdata/imports.txt", "$module", module, "$gopacket", gopacket,
		"$testify", testify, "$xnet", xnet, "$xsys", xsys, "$ebpf", ebpf, "$toml", toml, "$gobgp", gobgp)
	for _, c := range cases {
		file, imports, rejected := c[0], c[1], c[2]
		t.Run(file, func(t *testing.T) {
			src := "package p\n"
			for imported := range strings.FieldsSeq(imports) {
				src += fmt.Sprintf("import %q\n", imported)
			}
			wrong := wrongImports(file, src)
			if rejected == "none" {
				require.Empty(t, wrong)
				return
			}
			require.Len(t, wrong, 1, "%s with %s", file, imports)
			require.Contains(t, wrong[0], strconv.Quote(rejected))
		})
	}
}

// isModule reports whether a folder is a module of its own.
func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// wrongImports returns a line for each import that a file of the module, named
// from its root, must not have.
func wrongImports(file, src string) (wrong []string) {
	pkg := path.Dir(file)
	if reach(pkg) < 0 {
		return []string{fmt.Sprintf("%s: package %q is in no layer", file, pkg)}
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
	case within(ebpf, imported):
		return talksToKernel(pkg)
	case within(toml, imported): // of the agent's configuration, and of lists of faults
		return pkg == "cmd/rocecn/internal/config" || test && within("cmd/rocecn", pkg) || pkg == "tools/plant"
	case within(gobgp+"/pkg/packet", imported): // decoders of BGP and BMP, without the daemon
		return pkg == "cmd/rocecn/internal/bmp"
	case within(xsys, imported):
		return test || pkg == "netio" || talksToKernel(pkg)
	case within(xnet, imported):
		return test || pkg == "netio" || imported == xnet+"/bpf" && (pkg == "filter" || onTop(pkg))
	case within(gopacket, imported):
		// Its layers take time at the start of each program.
		return pkg == "rocelayers" || onTop(pkg) && !within("cmd", pkg) && !within("lab", pkg)
	case within(module, imported):
		return test && (!within("internal", pkg) || onTop(pkg)) ||
			within(module+"/cmd", imported) && within("cmd", pkg) ||
			within(module+"/tools", imported) && within("tools", pkg) ||
			mayImport(pkg, strings.TrimPrefix(imported, module+"/"), test)
	default: // only the standard library has no dot before the first slash
		first, _, _ := strings.Cut(imported, "/")
		return !strings.Contains(first, ".")
	}
}

// talksToKernel reports whether a package is one of the agent's that talk to the
// Linux kernel.
func talksToKernel(pkg string) bool {
	return within("cmd/rocecn/internal/io", pkg) || within("cmd/rocecn/internal/run", pkg)
}

// mayImport reports whether a package may import another one of the module.
func mayImport(pkg, imported string, test bool) bool {
	if _, ok := helpers[imported]; ok {
		return test || within("tools/bench", pkg)
	}
	if imported == module { // the root, below all layers; codecs use it through wireerr
		_, helper := helpers[pkg]
		return onTop(pkg) || helper || pkg == "internal/wireerr"
	}
	f := layerOf(imported)
	return f >= 0 && f < reach(pkg)
}

// layerOf returns the layer of a package, or -1 if no other package may import it.
func layerOf(pkg string) int {
	return slices.IndexFunc(layers, func(f []string) bool { return slices.Contains(f, pkg) })
}

// reach returns the number of layers, from the lowest, that a package may import, or -1 for an unknown package.
func reach(pkg string) int {
	if n, ok := helpers[pkg]; ok {
		return n
	}
	switch {
	case onTop(pkg):
		return len(layers)
	case pkg == ".":
		return 0
	}
	return layerOf(pkg)
}

// onTop reports whether a package may import all layers: programs, generators, benchmarks and tests against other
// implementations. Only other parts of the same program may import it.
func onTop(pkg string) bool {
	return slices.ContainsFunc([]string{
		"cmd", "examples", "tools", "wireshark/genlua", "rocelayers/genfork", "internal/kerneltest",
		"internal/vectortest", "internal/repo", "pnc/igptest", "lab/cmd", "lab/incidents",
	}, func(root string) bool { return within(root, pkg) })
}

// within reports whether p is the path root or one below it.
func within(root, p string) bool { return p == root || strings.HasPrefix(p, root+"/") }

// libraries returns the folders of the packages for others, in order: neither
// programs nor packages of tests alone.
func libraries(t *testing.T) (dirs []string) {
	t.Helper()
	ours := []string{"cmd", "examples", "internal", "testdata", "tools"}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir() || path == ".":
			return err
		case slices.Contains(ours, d.Name()), d.Name()[0] == '.', isFile(filepath.Join(path, "go.mod")):
			return fs.SkipDir
		}
		if p := imported(t, path); len(p.GoFiles) > 0 && !p.IsCommand() && !strings.HasSuffix(p.Name, "test") {
			dirs = append(dirs, path)
		}
		return nil
	}))
	return dirs
}

// imported returns the package in a folder for Linux on amd64.
func imported(t *testing.T, dir string) *build.Package {
	t.Helper()
	linux := build.Default
	linux.GOOS, linux.GOARCH = "linux", "amd64"
	p, err := linux.ImportDir(dir, 0)
	if none := (*build.NoGoError)(nil); !errors.As(err, &none) {
		require.NoError(t, err)
	}
	return p
}

// TestMain runs the tests in the root of the repository, so that they name files from there. The module that a proxy
// serves is only a part of the repository: there is nothing to test.
func TestMain(m *testing.M) {
	if err := os.Chdir(findRoot()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !isFile("lab/go.mod") && os.Getenv("ROCECN_CI") == "" {
		fmt.Println("skipped: this is the module alone, not a clone of the repository")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// findRoot returns the path from the current folder up to the first one with a go.mod.
func findRoot() string {
	root := "."
	for i := 0; i < 8 && !isFile(filepath.Join(root, "go.mod")); i++ {
		root = filepath.Join(root, "..")
	}
	return root
}
