// Package webpage has the common parts of HTML pages: each page is one file that fetches nothing,
// for screens of any width, for dark mode and for paper.
package webpage

import (
	_ "embed"
	"html/template"
)

//go:embed base.css
var style string

// head is the beginning of a page's head: the permissions of the page, an empty icon, and the style
// that all pages share.
const head = `{{define "head"}}<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="` +
	`default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<style>
{{baseStyle}}</style>{{end}}`

// New returns the template of a page, which begins with {{template "head"}}.
func New(text string) *template.Template {
	functions := template.FuncMap{"baseStyle": func() template.CSS { return template.CSS(style) }}
	return template.Must(template.Must(template.New("page").Funcs(functions).Parse(head)).Parse(text))
}
