// Package browsertest opens the page of rocecn flows -html in Chromium, reads
// what is there, and takes the pictures in docs. It is a module of its own, so
// that the driver of the browser is no dependency of the library.
package browsertest
