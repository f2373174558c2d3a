package cli

import (
	"io"
	"os"
)

// Same reports whether two names refer to the same file; - stands for standard input. A command must not write the
// file that it reads.
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
