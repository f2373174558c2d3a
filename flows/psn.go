package flows

// lifeDistance is how far from the PSN expected next, either way, a request
// may be: one beyond it begins a new life of the flow.
const lifeDistance = 1 << 16
