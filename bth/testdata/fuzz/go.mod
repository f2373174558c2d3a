module github.com/rocecn/rocecn/bth/testdata/fuzz
