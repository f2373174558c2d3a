module github.com/rocecn/rocecn/qpmap/testdata/fuzz
