module github.com/rocecn/rocecn/cmd/rocecn/internal/io/psample/testdata/fuzz
