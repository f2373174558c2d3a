module github.com/rocecn/rocecn/cmd/rocecn/internal/inspect/testdata
