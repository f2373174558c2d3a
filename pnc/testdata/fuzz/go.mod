module github.com/rocecn/rocecn/pnc/testdata/fuzz
