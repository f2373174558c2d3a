module github.com/rocecn/rocecn/docs
