module github.com/rocecn/rocecn/ppfc/testdata/fuzz
