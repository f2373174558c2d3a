package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rocecn/rocecn/capture"
)

// mergeResults makes before.pcap of a case that has several senders, out of before.NAME.pcap of
// each, which are by one clock: in the order of their time. Other cases have it already.
func mergeResults(folder string) error {
	name := filepath.Join(folder, "before.pcap")
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files, err := filepath.Glob(filepath.Join(folder, "before.*.pcap"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fs.ErrNotExist)
	}
	var records []capture.Record
	for _, file := range files {
		for r, err := range capture.File(file) {
			if err != nil {
				return err
			}
			kept := *r
			kept.Data = bytes.Clone(r.Data)
			records = append(records, kept)
		}
	}
	slices.SortStableFunc(records, func(a, b capture.Record) int { return a.Time.Compare(b.Time) })
	var merged bytes.Buffer
	w, err := capture.NewWriter(&merged, capture.Ethernet, time.Nanosecond)
	if err != nil {
		return err
	}
	for i := range records {
		if err := w.Write(&records[i]); err != nil {
			return err
		}
	}
	return os.WriteFile(name, merged.Bytes(), 0o666)
}
