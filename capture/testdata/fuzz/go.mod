module github.com/rocecn/rocecn/capture/testdata/fuzz
