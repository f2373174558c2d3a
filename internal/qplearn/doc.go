// Package qplearn learns from passing traffic which queue pairs belong together. Package qpmap
// describes the rules and exports the map to users of the library; package flows uses it with
// keys and times of its own.
//
// # Evidence
//
// Any packet may be forged, so each one is evidence of a certain strength, and a pair is replaced only by stronger
// evidence than its own. Until then a flow keeps both pairs: that of its connection, and a second one in besideSlot. A
// packet belongs to the pair of which the lifetime contains it. Datagrams have a pair of their own, in datagramSlot
// (see slot.go). The strongest evidence comes first:
//
//	   evidence                              makes                          replaces or ends
//	-- ------------------------------------  -----------------------------  -----------------------------------------
//	 1 Add of the operator                   the pair                       all pairs of the flow
//	 2 DREQ, DREP or REJ with both           nothing                        the pair that this exchange made
//	   communication ids
//	 3 an answer to a request of a lifetime  an answered connection         votes for other PSNs and other pairs. A
//	                                                                        pair in besideSlot and the flow's pair
//	                                                                        change places
//	 4 votes: 3 answers at other PSNs, and   the pair                       a pair without answers, silent for 1 s,
//	   twice those for any other pair                                       or with fewer answers
//	   the same for the flow's own pair      another range of PSNs of its   the lifetime; more than 64 answers always
//	                                         lifetime                       suffice
//	 5 an answer to a request at the         the announced pair             as 4; it takes 3 answers if the other
//	   announced PSN                                                        pair has been answered
//	 6 16 requests of a pair in besideSlot   the flow's pair                a pair that has been silent for 1 s
//	 7 requests from the announced PSN on,   the announced pair; in         a pair without data; in besideSlot, the
//	   in a flood of exchanges several in    besideSlot if the flow's pair  weaker of two pairs: see isStronger
//	   a row                                 has data
//	 8 REQ and REP                           the announced pair             a pair without data
//	 9 a datagram, if the flow's connection  the pair of the flow's         the pair of its datagrams
//	   has been silent for 1 s               datagrams, in datagramSlot
//	10 any other single packet               nothing                        nothing
//
// Further rules:
//
//   - A pair that 3 to 5 replace moves to besideSlot if CM made it.
//   - If PSNs do not distinguish two lifetimes (isNear), there is no second pair: 7 then replaces a pair only if that
//     is silent and has no answers.
//   - UC has no answers, so only 1, 2 and 6 replace its pairs.
//   - If the first packets of a flow's sender are READ responses, the first request begins a lifetime that is unsure:
//     the sender of the requests is unknown until an answer comes, and two successive requests elsewhere begin the
//     lifetime again. The sender of the responses stays known.
//   - A full table evicts pairs of domains and prefixes with more than their share first: see victim.
package qplearn
