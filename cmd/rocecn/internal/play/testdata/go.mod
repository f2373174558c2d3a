module github.com/rocecn/rocecn/cmd/rocecn/internal/play/testdata
