module github.com/rocecn/rocecn/filter/testdata
