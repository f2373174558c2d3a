module github.com/rocecn/rocecn/message/testdata/fuzz
