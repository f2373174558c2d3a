package repo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// An englishRule is a pattern that plain technical English does not need.
type englishRule struct {
	name    string
	pattern *regexp.Regexp
	advice  string
}

// englishRules hold for comments, texts for users and Markdown. Code font, quotations, links and Go identifiers are
// not searched.
var englishRules = []englishRule{
	{"what", regexp.MustCompile(`(?i)\bwhat(ever|soever)?\b`), `name the thing`},
	{"who", regexp.MustCompile(`(?i)\bwho(m|se|ever|mever)?\b`), `name the sender, receiver, program or reader`},
	{"how", regexp.MustCompile(`(?i)\bhow (often|long|many|much|far|deep|late|large|big|fast|old)\b`),
		`name the quantity: interval, number, depth, size, age`},
	{"whether", regexp.MustCompile(`(?i)\b(says?|said|tells?|told) whether\b`), `"reports whether"`},
	{"order", regexp.MustCompile(`(?:^|[.:] )(Of (the|a|an|these|those|all|each|\w+s)|` +
		`That (the|a|an|these|no|some|it|they)) `),
		`begin with the subject`},
	{"interface", regexp.MustCompile(`(?i)\bis (that|those) of \[`), `"X implements Y."`},
	{"metaphor", regexp.MustCompile(`(?i)\b(deaf|patience|last words|hopeless|blindly|convict(s|ed)?|audiences?|` +
		`somebody|nobody|anybody|heard|floors?|houses?)\b`), `use the mechanism's word, or name the party`},
	{"anew", regexp.MustCompile(`(?i)\banew\b`), `"again"`},
	{"but for", regexp.MustCompile(`(?i)\bbut for\b`), `"except"`},
	{"any more", regexp.MustCompile(`(?i)\bnot any ?more\b`), `"no longer"`},
	{"behind", regexp.MustCompile(`(?i)\bbehind\b`), `"after" (octet order, time), "inside" or "connected to"`},
	{"at once", regexp.MustCompile(`(?i)\bat once\b`), `"at the same time" or "immediately"`},
	{"retransmission", regexp.MustCompile(`(?i)\b(sen[dt]s?|transmitted) again\b`), `"retransmitted"`},
	{"congestion experienced", regexp.MustCompile(`(?i)\bmet congestion\b`),
		`"congestion experienced (CE)" or "marked"`},
	{"peer", regexp.MustCompile(`(?i)\bother side\b`), `"peer" or "remote"`},
	{"say", regexp.MustCompile(`(?i)\b(has|have|had) a say\b`), `"concerns"`},
	{"invalid", regexp.MustCompile(`(?i)\bnot whole\b`), `"incomplete" or "invalid"`},
	{"reject", regexp.MustCompile(`\brefus(e|es|ing|al|als)\b`), `"reject" (a packet, a message), "invalid" (a value)`},
}

// bareNames are function names that say nothing about the object.
var bareNames = strings.Fields(`look say says take show put note tell told of at is by why way any beside before behind
	near far up down one more`)

// An allowedText is a text to which no rule applies, with the reason.
type allowedText struct{ file, text, reason string }

const recorded = "the text is in the committed results of the laboratory, and changes when they are made again"

var englishAllowed = []allowedText{
	{"lab/check/closed.go", "XOFF 6 MB, behind it", recorded},
	{"lab/check/dcqcn.go", "behind the queue: peak saved", recorded},
	{"lab/experiment/c5.go", "the proxy: its place and what it knows", recorded},
	{"lab/scenario/scenario.go", "receiver answers at once", recorded},
	{"lab/scenario/scenario.go", "none: nobody tells the sender", recorded},
	{"lab/scenario/scenario.go", "receiver answers marks at once", recorded},
	{"lab/scenario/scenario.go", "learns queue pairs from what passes", recorded},
}

// TestPlainEnglish holds the rules of CONTRIBUTING.md, "Plain English", for comments and texts of Go outside tests'
// data, and for Markdown.
func TestPlainEnglish(t *testing.T) {
	wiretest.Once(t)
	require.LessOrEqual(t, len(englishAllowed), 10)
	used := make([]bool, len(englishAllowed))
	for _, text := range readTexts(t) {
		for _, rule := range englishRules {
			for _, at := range rule.pattern.FindAllStringIndex(text.words, -1) {
				if i := slices.IndexFunc(englishAllowed, text.isAllowedBy); i >= 0 {
					used[i] = true
					continue
				}
				line := text.line + strings.Count(text.words[:at[0]], "\n")
				t.Errorf("%s:%d: %q: %s (%s)", text.file, line, text.words[at[0]:at[1]], rule.advice, rule.name)
			}
		}
	}
	for i, a := range englishAllowed {
		require.True(t, used[i], "%s: %q is no longer there (%s)", a.file, a.text, a.reason)
	}
}

// TestFunctionNames rejects functions with a bare name, and counts the unexported functions with a one-word name.
func TestFunctionNames(t *testing.T) {
	wiretest.Once(t)
	words := regexp.MustCompile(`^[a-z0-9]+$`)
	one, all := 0, 0
	for file, f := range parseGo(t) {
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := fn.Name.Name
			if slices.Contains(bareNames, strings.ToLower(name)) {
				t.Errorf("%s:%d: func %s: name the verb and the object", file, f.files.Position(fn.Pos()).Line, name)
			}
			if strings.HasSuffix(file, "_test.go") || ast.IsExported(name) || name == "main" || name == "init" {
				continue
			}
			all++
			if words.MatchString(name) {
				one++
				t.Logf("%s:%d: one-word func %s", file, f.files.Position(fn.Pos()).Line, name)
			}
		}
	}
	t.Logf("%d of %d unexported functions have a one-word name", one, all)
}

// A textBlock is a comment, a text for users or a paragraph of Markdown, without code font and quotations.
type textBlock struct {
	file  string
	line  int
	words string
}

func (b *textBlock) isAllowedBy(a allowedText) bool {
	return a.file == b.file && strings.Contains(b.words, a.text)
}

type goFile struct {
	files  *token.FileSet
	syntax *ast.File
}

// parsedGo is the result of parseGo, which several tests need.
var parsedGo map[string]goFile

// parseGo returns the Go files of all modules by name, without generated ones.
func parseGo(t *testing.T) map[string]goFile {
	if parsedGo != nil {
		return parsedGo
	}
	all := map[string]goFile{}
	walkSources(t, func(file string, text []byte) {
		if filepath.Ext(file) != ".go" || strings.HasPrefix(string(text), "// Code generated ") {
			return
		}
		files := token.NewFileSet()
		f := wiretest.Must(parser.ParseFile(files, file, text, parser.ParseComments|parser.SkipObjectResolution))(t)
		all[file] = goFile{files, f}
	})
	parsedGo = all
	return all
}

// walkSources calls visit for each Go and Markdown file of the repository, testdata aside.
func walkSources(t *testing.T, visit func(file string, text []byte)) {
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" && filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(path), text)
		return nil
	}))
}

// readTexts returns all comments, texts for users and paragraphs of Markdown.
func readTexts(t *testing.T) (all []textBlock) {
	for file, f := range parseGo(t) {
		all = append(all, goTexts(file, f)...)
	}
	walkSources(t, func(file string, text []byte) {
		if filepath.Ext(file) == ".md" {
			all = append(all, textBlock{file, 1, plainMarkdown(string(text))})
		}
	})
	slices.SortFunc(all, func(a, b textBlock) int {
		return strings.Compare(fmt.Sprintf("%s:%06d", a.file, a.line), fmt.Sprintf("%s:%06d", b.file, b.line))
	})
	return all
}

// notWords is code font, a quotation, a link's address, a doc link or a directive: it may contain any words.
var notWords = regexp.MustCompile("`[^`\n]*`|\"[^\"\n]*\"|“[^”]*”|" +
	"\\]\\([^)]*\\)|\\[[\\w.]+\\]|//(go|lint|nolint)[^\n]*")

// goTexts returns the comments of a file, and outside tests the texts of at least three words.
func goTexts(file string, f goFile) (all []textBlock) {
	indented := regexp.MustCompile(`(?m)^//(\t| {2,}\S).*$`)
	for _, group := range f.syntax.Comments {
		var lines []string
		for _, c := range group.List {
			lines = append(lines, c.Text)
		}
		text := indented.ReplaceAllString(strings.Join(lines, "\n"), "")
		text = notWords.ReplaceAllString(text, "x")
		all = append(all, textBlock{file, f.files.Position(group.Pos()).Line, text})
	}
	if strings.HasSuffix(file, "_test.go") {
		return all
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err == nil && len(strings.Fields(text)) >= 3 {
			all = append(all, textBlock{file, f.files.Position(lit.Pos()).Line, notWords.ReplaceAllString(text, "x")})
		}
		return true
	})
	return all
}

// plainMarkdown returns Markdown with the lines of code blocks empty.
func plainMarkdown(text string) string {
	var b strings.Builder
	code := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
			line = "\n"
		}
		if code || strings.HasPrefix(line, "    ") {
			line = "\n"
		}
		b.WriteString(line)
	}
	return notWords.ReplaceAllStringFunc(b.String(),
		func(s string) string { return "x" + strings.Repeat("\n", strings.Count(s, "\n")) })
}
