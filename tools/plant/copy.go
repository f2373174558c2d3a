package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A tree is a copy of the repository in a temporary folder.
type tree struct {
	from, dir string
	limit     time.Duration // of a run of tests
	output    io.Writer     // of tests that fail; may be nil
}

// copyTree copies the files of a repository except those of Git.
func copyTree(from string) (*tree, error) {
	from, err := filepath.Abs(from)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "plant")
	if err != nil {
		return nil, err
	}
	t := &tree{from: from, dir: dir}
	if err := t.fill(); err != nil {
		t.remove()
		return nil, err
	}
	return t, nil
}

// fill copies all files into the folder, which is empty.
func (t *tree) fill() error {
	return filepath.WalkDir(t.from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(t.from, path)
		if err != nil {
			return err
		}
		switch {
		case entry.Name() == ".git":
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(t.dir, rel), 0o755)
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, filepath.Join(t.dir, rel))
		case !entry.Type().IsRegular():
			return nil
		}
		return t.restore(rel)
	})
}

// refill copies all files again, after programs that may have changed any of them.
func (t *tree) refill() error {
	if err := os.RemoveAll(t.dir); err != nil {
		return err
	}
	if err := os.Mkdir(t.dir, 0o700); err != nil {
		return err
	}
	return t.fill()
}

func (t *tree) remove() { os.RemoveAll(t.dir) }

// restore gives the copy the repository's file again.
func (t *tree) restore(file string) error {
	from, to := filepath.Join(t.from, file), filepath.Join(t.dir, file)
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode())
}

// plant replaces the file of a fault in the copy.
func (t *tree) plant(f *fault) error {
	path := filepath.Join(t.dir, f.File)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if n := bytes.Count(text, []byte(f.Old)); n != 1 {
		return fmt.Errorf("%s has the old text %d times: want it once", f.File, n)
	}
	return os.WriteFile(path, bytes.Replace(text, []byte(f.Old), []byte(f.New), 1), info.Mode())
}

// An outcome is the result of one run of tests.
type outcome struct {
	failed  bool
	reason  string // the first test that failed, or another cause of the end
	invalid error  // the code does not compile, or the run could not be started
}

var firstFailure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// runTests runs go test with a fault's arguments in the module that its first package belongs to.
func (t *tree) runTests(ctx context.Context, tests []string) outcome {
	module, args, err := t.findModule(tests)
	if err != nil {
		return outcome{invalid: err}
	}
	args = append([]string{"test", "-trimpath", "-vet=off", "-count=1", "-failfast", "-timeout", t.limit.String()},
		args...)
	text, err := t.execute(ctx, module, "go", args)
	if err == nil {
		return outcome{}
	}
	if ctx.Err() != nil {
		return outcome{invalid: ctx.Err()}
	}
	if t.output != nil {
		t.output.Write(text)
	}
	switch failure := firstFailure.FindSubmatch(text); {
	case bytes.Contains(text, []byte("[build failed]")) || bytes.Contains(text, []byte("[setup failed]")):
		return outcome{invalid: fmt.Errorf("does not compile:\n%s", text)}
	case bytes.Contains(text, []byte("panic: test timed out")):
		return outcome{failed: true, reason: "timeout"}
	case failure != nil:
		return outcome{failed: true, reason: string(failure[1])}
	case bytes.Contains(text, []byte("panic:")) || bytes.Contains(text, []byte("fatal error:")):
		return outcome{failed: true, reason: "panic"}
	case bytes.Contains(text, []byte("\nFAIL")) || bytes.HasPrefix(text, []byte("FAIL")):
		return outcome{failed: true, reason: "exit status"}
	}
	return outcome{invalid: fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, text)}
}

// findModule returns the folder of the module that the first package of arguments is in, and the arguments with
// packages relative to it. Packages begin with "./".
func (t *tree) findModule(tests []string) (module string, args []string, err error) {
	args = append(args, tests...)
	for i, arg := range args {
		if !strings.HasPrefix(arg, "./") {
			continue
		}
		path := filepath.Join(t.dir, arg)
		if module == "" {
			for module = path; ; module = filepath.Dir(module) {
				if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
					break
				}
				if len(module) <= len(t.dir) {
					return "", nil, fmt.Errorf("%s: no go.mod in it or above", arg)
				}
			}
		}
		rel, err := filepath.Rel(module, path)
		if err != nil {
			return "", nil, err
		}
		args[i] = "./" + rel
	}
	if module == "" {
		return "", nil, fmt.Errorf("tests %q: want a package that begins with ./", tests)
	}
	return module, args, nil
}

// execute runs a program in a folder, with its children in a process group that ends with the context.
func (t *tree) execute(ctx context.Context, dir, program string, args []string) ([]byte, error) {
	// The tests' own timeout comes first; this one, which includes compilation, ends those that ignore it.
	ctx, cancel := context.WithTimeout(ctx, 2*t.limit+10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	killGroup(cmd)
	return cmd.CombinedOutput()
}
