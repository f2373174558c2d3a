package answer

// The largest IP packet that carries a message to a proxy. The draft limits "the
// UDP packet"; here the IP header counts too, the stricter reading (D9).
const (
	ProxyIPv4 = 576
	ProxyIPv6 = 1280
)
