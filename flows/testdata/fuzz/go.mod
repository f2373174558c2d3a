module github.com/rocecn/rocecn/flows/testdata/fuzz
