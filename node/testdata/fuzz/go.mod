module github.com/rocecn/rocecn/node/testdata/fuzz
