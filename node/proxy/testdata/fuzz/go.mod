module github.com/rocecn/rocecn/node/proxy/testdata/fuzz
