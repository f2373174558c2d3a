// Package browsertest opens the pages of rocecn flows -html and of rocelab in Chromium, reads their contents, and takes
// the pictures in docs. It is a module of its own, so that the driver of the browser is no dependency of the library.
package browsertest
