// Package rocecn is the map of a library for RoCEv2 congestion signalling.
package rocecn
