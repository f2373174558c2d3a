package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// named returns the queue pairs that a command prints as senders of the flows of a capture, by "src dst dest_qp": one
// or several for each flow.
func named(t *testing.T, command, path string) map[string]map[float64]bool {
	t.Helper()
	var out, messages bytes.Buffer
	require.Zero(t, runCommand(t.Context(), []string{command, "-json", path}, strings.NewReader(""), &out, &messages),
		messages.String())
	all := map[string]map[float64]bool{}
	for d := json.NewDecoder(&out); d.More(); {
		var line struct {
			Src, Dst  string
			DestQP    float64  `json:"dest_qp"`
			SrcQP     *float64 `json:"src_qp"`
			From      string   `json:"src_qp_from"`
			Transport string
		}
		require.NoError(t, d.Decode(&line))
		if line.SrcQP == nil || line.Transport == "UD" || line.DestQP <= 1 {
			continue // datagrams of several senders are one flow, and several pairs
		}
		k := fmt.Sprint(line.Src, " ", line.Dst, " ", line.DestQP)
		if all[k] == nil {
			all[k] = map[float64]bool{}
		}
		all[k][*line.SrcQP] = true
	}
	return all
}

// pairs and flows agree about every capture in testdata: they name the same queue pair for each flow with a request.
func TestPairsAndFlowsAgree(t *testing.T) {
	wiretest.Alone(t)
	captures := wiretest.Must(filepath.Glob(wiretest.Path(t, "*.pcap")))(t)
	real := wiretest.Must(filepath.Glob(wiretest.Path(t, "real", "*.pcap.gz")))(t)
	require.NotEmpty(t, real)
	var flowsNamed int
	for _, path := range append(captures, real...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			pairs, flows := named(t, "pairs", path), named(t, "flows", path)
			for k, qps := range flows {
				require.Equal(t, qps, pairs[k], k)
				flowsNamed++
			}
			for k, qps := range pairs {
				if flows[k] == nil { // only answers were seen of it
					require.False(t, requested(t, path, k), "%s: %v", k, qps)
				}
			}
		})
	}
	require.Greater(t, flowsNamed, 50)
}

// requested reports whether flows has a line for a request of a flow.
func requested(t *testing.T, path, key string) bool {
	t.Helper()
	var out, messages bytes.Buffer
	require.Zero(t, runCommand(t.Context(), []string{"flows", "-json", path}, strings.NewReader(""), &out, &messages))
	for d := json.NewDecoder(&out); d.More(); {
		var line struct {
			Src, Dst string
			DestQP   float64 `json:"dest_qp"`
			Unpaired bool
			PFC      bool
		}
		require.NoError(t, d.Decode(&line))
		if !line.Unpaired && !line.PFC && fmt.Sprint(line.Src, " ", line.Dst, " ", line.DestQP) == key {
			return true
		}
	}
	return false
}
