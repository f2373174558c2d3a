module github.com/rocecn/rocecn/encap/testdata/fuzz
