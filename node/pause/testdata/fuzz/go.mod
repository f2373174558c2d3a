module github.com/rocecn/rocecn/node/pause/testdata/fuzz
