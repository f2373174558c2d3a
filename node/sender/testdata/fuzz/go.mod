module github.com/rocecn/rocecn/node/sender/testdata/fuzz
