module github.com/rocecn/rocecn/cmd/rocecn/internal/run/testdata/fuzz
