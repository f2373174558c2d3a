module github.com/rocecn/rocecn/cnp/testdata/fuzz
