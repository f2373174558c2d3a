package cli

import (
	"io"
	"os"
)

// Same reports whether the file of one name, or standard input for -, is that of
// another: what is read cannot be written.
func Same(from string, stdin io.Reader, to string) bool {
	var a os.FileInfo
	var err error
	if from != "-" {
		a, err = os.Stat(from)
	} else if f, ok := stdin.(*os.File); ok {
		a, err = f.Stat()
	}
	if err != nil || a == nil || !a.Mode().IsRegular() {
		return false
	}
	b, err := os.Stat(to)
	return err == nil && os.SameFile(a, b)
}
