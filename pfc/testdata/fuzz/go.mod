module github.com/rocecn/rocecn/pfc/testdata/fuzz
