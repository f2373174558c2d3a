module github.com/rocecn/rocecn/internal/crc/testdata/fuzz
