module github.com/rocecn/rocecn/testdata/encapsulations
