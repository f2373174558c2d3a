package icrc

// Wide says whether updateWide is in use.
var Wide = &wide
