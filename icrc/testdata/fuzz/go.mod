module github.com/rocecn/rocecn/icrc/testdata/fuzz
