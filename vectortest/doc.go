// Package vectortest runs the library's decoders and encoders on the test vectors
// in testdata/vectors, format by format. It has tests alone.
package vectortest
