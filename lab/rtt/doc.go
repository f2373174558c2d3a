// Package rtt has reaction points that follow the round trip of packets and no notification: [Swift] and [Timely]. They
// are written for the interface [lab.Control], and show how an algorithm is added to the laboratory.
package rtt
