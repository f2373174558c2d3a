module github.com/rocecn/rocecn/testdata/vectors
