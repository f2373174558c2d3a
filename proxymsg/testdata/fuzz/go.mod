module github.com/rocecn/rocecn/proxymsg/testdata/fuzz
