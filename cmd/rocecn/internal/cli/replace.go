package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// A Replacement is a temporary file that Commit renames to its final name. Until then, and after an error, the
// previous file of that name is unchanged. A file that is not regular, such as a pipe, is written directly.
type Replacement struct {
	*os.File
	to string // empty where the file itself is written
}

// Replace begins a file that is to have this name. An error names it.
func Replace(name string) (*Replacement, error) {
	var mode fs.FileMode // of the one that is there
	to := name
	switch info, err := os.Stat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		f, err := os.OpenFile(name, os.O_WRONLY, 0) // it may not be writable
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return &Replacement{File: f}, nil
		}
		f.Close()
		mode = info.Mode().Perm()
		if to, err = filepath.EvalSymlinks(name); err != nil {
			return nil, err
		}
	}
	for {
		f, err := os.OpenFile(fmt.Sprintf("%s.%08x", to, rand.Uint32()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		switch {
		case err == nil:
			if mode != 0 {
				err = f.Chmod(mode)
			}
			r := &Replacement{f, to}
			if err != nil {
				r.Abandon()
				return nil, err
			}
			return r, nil
		case !errors.Is(err, fs.ErrExist):
			return nil, &fs.PathError{Op: "create", Path: name, Err: errors.Unwrap(err)}
		}
	}
}

// Commit closes the file, and gives it its name.
func (r *Replacement) Commit() error {
	err := r.File.Close()
	if err == nil && r.to != "" {
		err = os.Rename(r.Name(), r.to)
	}
	if err != nil {
		r.removeTemporary()
	}
	r.to = ""
	return err
}

// Abandon closes the file and takes it away, unless Commit was called.
func (r *Replacement) Abandon() {
	r.File.Close()
	r.removeTemporary()
	r.to = ""
}

func (r *Replacement) removeTemporary() {
	if r.to != "" {
		os.Remove(r.Name())
	}
}
