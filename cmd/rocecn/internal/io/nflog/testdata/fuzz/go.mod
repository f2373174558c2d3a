module github.com/rocecn/rocecn/cmd/rocecn/internal/io/nflog/testdata/fuzz
