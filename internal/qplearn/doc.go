// Package qplearn learns from passing traffic which queue pairs belong together. Package qpmap
// describes the rules and exports the map to users of the library; package flows uses it with
// keys and times of its own.
//
// # Evidence
//
// Any packet may be forged, so each one is evidence of a certain strength. It replaces a pair only if the evidence for
// that is weaker, and until then both stay. The strongest comes first:
//
//	   evidence                              makes                            replaces
//	-- ------------------------------------  -------------------------------  ---------------------------------------
//	 1 Add of the operator                   the pair                         all pairs of the flow
//	 2 DREQ, DREP, REJ with both ids         nothing                          the pair that this exchange made
//	 3 an answer to a request of the life    the connection is answered       votes for other PSNs and pairs; the
//	                                                                          flow's pair, if its own is beside that
//	 4 votes: 3 answers at other PSNs,       the pair, or for the same queue  a pair without answers, silent for 1 s,
//	   twice those for any other pair        pairs a new place of the life    or with fewer answers (for a place 64
//	                                                                          suffice)
//	 5 an answer to a request at the         the pair                         as votes; 3 answers, if the other pair
//	   announced PSN                                                          has had any
//	 6 16 requests of a pair beside          the flow's pair                  a pair that has been silent for 1 s
//	 7 requests at the announced PSN, in a   a pair, beside one that has      a pair without data; beside, the weaker
//	   flood of exchanges several in a row   data                             of the two: see isStronger
//	 8 REQ and REP                           a pair                           a pair without data
//	 9 a datagram, after 1 s of silence      a pair of the datagrams          the pair of the datagrams
//	10 any other single packet               nothing                          nothing
//
// A pair that 3 to 5 replace stays beside the new one if CM made it: its packets are those in the window of its PSNs.
// The file slot.go decides where pairs are, and isNear of a life whether PSNs distinguish two of them. If they do not,
// 7 replaces a pair only when it is silent and has no answers. UC has no answers, so its pairs are replaced only by 1,
// 2 and 6. If no request of a flow was seen, as in one of READ responses, the first one begins a life that is unsure:
// its sender is unknown until an answer comes, and two successive requests elsewhere begin it again. The sender of the
// flow's responses stays known.
package qplearn
