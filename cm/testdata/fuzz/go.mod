module github.com/rocecn/rocecn/cm/testdata/fuzz
