package repo

import (
	"fmt"
	"go/ast"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// A figuresBlock has the figures of one part of the repository.
type figuresBlock struct {
	name              string
	words, what       int // words of comments or of Markdown, and those that are "what" or "whatever"
	whether           int // matches of saysWhether
	functions, single int // unexported functions outside tests, and those with a one-word name
	bare              int // functions with a name of bareNames, exported ones and those of tests among them
}

// blockNames are the blocks in the order of the table. The libraries are everything in the root module that is not a
// program or a test.
var blockNames = []string{"libraries", "cmd", "laboratory", "tools and examples", "tests", "Markdown"}

// blockName returns the block of a Go file.
func blockName(file string) string {
	first, _, _ := strings.Cut(file, "/")
	switch {
	case strings.HasSuffix(file, "_test.go"):
		return "tests"
	case filepath.Ext(file) == ".md":
		return "Markdown"
	case first == "cmd":
		return "cmd"
	case first == "lab":
		return "laboratory"
	case first == "tools" || first == "examples":
		return "tools and examples"
	}
	return "libraries"
}

var (
	anyWord       = regexp.MustCompile(`[A-Za-z][A-Za-z'’-]*`)
	whatWord      = regexp.MustCompile(`(?i)\bwhat(ever|soever)?\b`)
	saysWhether   = regexp.MustCompile(`(?i)\b(says?|said|tells?|told)\s+(//\s*)?whether\b`)
	singleWord    = regexp.MustCompile(`^[a-z0-9]+$`)
	exemptedNames = []string{"main", "init"}
)

// addText counts the words of a text, with those in code font and quotations.
func (b *figuresBlock) addText(text string) {
	b.words += len(anyWord.FindAllString(text, -1))
	b.what += len(whatWord.FindAllString(text, -1))
	b.whether += len(saysWhether.FindAllString(text, -1))
}

// addFunction counts the name of a function or method.
func (b *figuresBlock) addFunction(name string) {
	if slices.Contains(bareNames, strings.ToLower(name)) {
		b.bare++
	}
	if b.name == "tests" || ast.IsExported(name) || slices.Contains(exemptedNames, name) {
		return
	}
	b.functions++
	if singleWord.MatchString(name) {
		b.single++
	}
}

// perThousand returns the number of "what" in 1,000 words.
func (b *figuresBlock) perThousand() float64 {
	return 1000 * float64(b.what) / float64(max(1, b.words))
}

// singlePercent returns the share of unexported functions with a one-word name.
func (b *figuresBlock) singlePercent() float64 {
	return 100 * float64(b.single) / float64(max(1, b.functions))
}

// countFigures returns the figures of the whole repository, in the order of blockNames.
func countFigures(t *testing.T) []*figuresBlock {
	blocks := make([]*figuresBlock, len(blockNames))
	for i, name := range blockNames {
		blocks[i] = &figuresBlock{name: name}
	}
	block := func(file string) *figuresBlock { return blocks[slices.Index(blockNames, blockName(file))] }
	for file, f := range parseGo(t) {
		b := block(file)
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				b.addText(c.Text)
			}
		}
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				b.addFunction(fn.Name.Name)
			}
		}
	}
	walkSources(t, func(file string, text []byte) {
		if filepath.Ext(file) == ".md" {
			block(file).addText(string(text))
		}
	})
	return blocks
}

// TestEnglishFigures counts riddle words and one-word functions in every block of the repository, over all comments and
// Markdown with code font and quotations, and limits them. With -v it prints the table.
func TestEnglishFigures(t *testing.T) {
	wiretest.Once(t)
	var table strings.Builder
	fmt.Fprintf(&table, "%-20s %9s %15s %13s %20s %10s\n",
		"block", "words", "what per 1,000", "says whether", "one-word functions", "bare names")
	blocks := countFigures(t)
	for _, b := range blocks {
		fmt.Fprintf(&table, "%-20s %9d %15.2f %13d %7d of %d (%.0f%%) %9d\n", b.name, b.words, b.perThousand(),
			b.whether,
			b.single, b.functions, b.singlePercent(), b.bare)
	}
	t.Log("\n" + table.String())
	for _, b := range blocks {
		require.NotZero(t, b.words, b.name)
		require.LessOrEqual(t, b.perThousand(), 1.0, "%s: what", b.name)
		require.LessOrEqual(t, b.singlePercent(), 40.0, "%s: one-word functions", b.name)
		require.Zero(t, b.whether, "%s: says whether", b.name)
		require.Zero(t, b.bare, "%s: bare names", b.name)
	}
}

func TestFiguresOfTexts(t *testing.T) {
	for _, test := range []struct {
		name          string
		text          string
		words         int
		what, whether int
	}{
		{"plain", "// Read reports whether the packet is complete.", 7, 0, 0},
		{"clause", "// what the kernel dropped, and whatever it kept", 8, 2, 0},
		{"says whether", "// open says whether it is open", 6, 0, 1},
		{"over two lines", "// open tells\n// whether it is open", 6, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var b figuresBlock
			b.addText(test.text)
			require.Equal(t, figuresBlock{words: test.words, what: test.what, whether: test.whether}, b)
		})
	}
}

func TestFiguresOfFunctions(t *testing.T) {
	for _, test := range []struct {
		name, block, function   string
		functions, single, bare int
	}{
		{"verb and object", "cmd", "lookUpFlow", 1, 0, 0},
		{"one word", "cmd", "insert", 1, 1, 0},
		{"bare", "cmd", "look", 1, 1, 1},
		{"exported bare", "cmd", "Say", 0, 0, 1},
		{"main", "cmd", "main", 0, 0, 0},
		{"of a test", "tests", "insert", 0, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := figuresBlock{name: test.block}
			b.addFunction(test.function)
			require.Equal(t, figuresBlock{name: test.block, functions: test.functions, single: test.single,
				bare: test.bare}, b)
		})
	}
}
