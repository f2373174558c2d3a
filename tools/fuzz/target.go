package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// repository is the path of the root module, below which all other modules are.
const repository = "github.com/rocecn/rocecn/"

// A target is a fuzz target of a package.
type target struct {
	module, pkg, folder string // the module, the package's import path, and its folder
	name                string
}

// String returns the package's folder in the repository, and the name: "node/sender.FuzzReceive".
func (t target) String() string {
	return strings.TrimPrefix(t.pkg, repository) + "." + t.name
}

// corpusFolder is the folder of the inputs that are committed.
func (t target) corpusFolder() string { return filepath.Join(t.folder, "testdata", "fuzz", t.name) }

var targetFunc = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(\w+ \*testing\.F\)`)

// listTargets returns the targets of the packages in folders, each of which may end in "/...".
func listTargets(ctx context.Context, folders []string) (targets []target, err error) {
	const format = "{{.Module.Path}}\t{{.ImportPath}}\t{{.Dir}}\t" +
		"{{range .TestGoFiles}}{{.}} {{end}}{{range .XTestGoFiles}}{{.}} {{end}}"
	for _, folder := range folders {
		pattern := "."
		if above, ok := strings.CutSuffix(folder, "/..."); ok {
			folder, pattern = above, "./..."
		}
		out, err := commandOutput(ctx, "go", "-C", folder, "list", "-f", format, pattern)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(out) {
			f := strings.Split(strings.TrimSpace(line), "\t")
			if len(f) < 4 {
				continue // no tests
			}
			for _, file := range strings.Fields(f[3]) {
				src, err := os.ReadFile(filepath.Join(f[2], file))
				if err != nil {
					return nil, err
				}
				for _, m := range targetFunc.FindAllSubmatch(src, -1) {
					targets = append(targets, target{f[0], f[1], f[2], string(m[1])})
				}
			}
		}
	}
	return targets, nil
}

// buildProgram builds the package's tests once, and returns the program.
func (t target) buildProgram(ctx context.Context, dir string, flags ...string) (program string, err error) {
	program = filepath.Join(dir, strings.ReplaceAll(t.pkg, "/", "_")+".test")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	args := slices.Concat([]string{"-C", t.folder, "test", "-c", "-vet=off", "-ldflags=-w", "-o", program}, flags)
	_, err = commandOutput(ctx, "go", args...)
	return program, err
}

// cacheFolder is where go test keeps the inputs that reached new code.
func (t target) cacheFolder() (string, error) {
	out, err := commandOutput(context.Background(), "go", "env", "GOCACHE")
	return filepath.Join(strings.TrimSpace(out), "fuzz", t.pkg), err
}

// fuzzOnce runs the target, for longest at most. It tries a hundred times at most to make
// an input smaller: by default that takes most of the time.
func (t target) fuzzOnce(ctx context.Context, s *settings, longest time.Duration, dir string) (r record, err error) {
	fmt.Println("==", t)
	program, err := t.buildProgram(ctx, dir, "-fuzz=.")
	if err != nil {
		return r, err
	}
	cache, err := t.cacheFolder()
	if err != nil {
		return r, err
	}
	if end, ok := ctx.Deadline(); ok {
		longest = min(longest, max(time.Until(end), time.Second))
	}
	cmd := exec.Command(program, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+shortenTime(s.time,
		longest),
		"-test.fuzzminimizetime=100x", "-test.fuzzcachedir="+cache)
	if s.parallel > 0 {
		cmd.Args = append(cmd.Args, "-test.parallel="+strconv.Itoa(s.parallel))
	}
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout = t.folder, io.MultiWriter(os.Stdout, &out)
	cmd.Stderr = cmd.Stdout
	r = record{at: time.Now().UTC().Truncate(time.Second), target: t.String()}
	err = cmd.Run()
	if cmd.ProcessState == nil {
		return r, err
	}
	r.processor = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() // those of its processes, too
	r.ok = err == nil || onlyEnded(out.Bytes())
	r.executions, r.found, r.corpus = parseProgress(out.Bytes())
	return r, nil
}

// shortenTime returns -t, or longest where -t is a time that is longer.
func shortenTime(t string, longest time.Duration) string {
	if d, err := time.ParseDuration(t); err == nil && longest < d {
		return longest.Round(time.Second).String()
	}
	return t
}

// onlyEnded reports whether an apparent failure is only the end of the time, as it can be up to Go
// 1.26 (golang/go#75804). The output for a target with a finding names a failing input.
func onlyEnded(out []byte) bool {
	return deadline.Match(out) && !bytes.Contains(bytes.ToLower(out), []byte("failing input"))
}

var (
	deadline = regexp.MustCompile(`(?m)^ *context deadline exceeded$`)
	reports  = regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+) \(total: (\d+)\)`)
)

// parseProgress returns the numbers of a run's last report: inputs tried, inputs among them that reached
// new code, and all inputs that do so.
func parseProgress(out []byte) (executions, found, corpus int) {
	all := reports.FindAllSubmatch(out, -1)
	if len(all) == 0 {
		return 0, 0, 0
	}
	last := all[len(all)-1]
	for i, n := range []*int{&executions, &found, &corpus} {
		*n, _ = strconv.Atoi(string(last[i+1])) // digits
	}
	return executions, found, corpus
}

// growCorpus copies up to n inputs of the cache into the corpus, the smallest first.
func (t target) growCorpus(n int) error {
	cache, err := t.cacheFolder()
	if err != nil {
		return err
	}
	inputs, err := inputsOf(filepath.Join(cache, t.name))
	if err != nil || len(inputs) == 0 {
		return err
	}
	if err := os.MkdirAll(t.corpusFolder(), 0o755); err != nil {
		return err
	}
	for _, i := range inputs[:min(n, len(inputs))] {
		if i.size >= 2048 {
			break
		}
		octets, err := os.ReadFile(i.file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(t.corpusFolder(), filepath.Base(i.file)), octets, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// An input is a file of a corpus.
type input struct {
	file string
	size int64
}

// inputsOf returns the inputs in a folder, the smallest first; none if it is not there.
func inputsOf(folder string) (all []input, err error) {
	files, err := os.ReadDir(folder)
	if os.IsNotExist(err) {
		return nil, nil
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return nil, err
		}
		all = append(all, input{filepath.Join(folder, f.Name()), info.Size()})
	}
	slices.SortStableFunc(all, func(a, b input) int { return cmp.Compare(a.size, b.size) })
	return all, err
}
