module github.com/rocecn/rocecn/node/ingress/testdata/fuzz
