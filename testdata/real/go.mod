module github.com/rocecn/rocecn/testdata/real
