module github.com/rocecn/rocecn/cmd/rocecn/internal/conform/testdata
