module github.com/rocecn/rocecn/fcn/testdata/fuzz
