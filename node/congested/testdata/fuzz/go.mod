module github.com/rocecn/rocecn/node/congested/testdata/fuzz
