module github.com/rocecn/rocecn/rocelayers/testdata/fuzz
