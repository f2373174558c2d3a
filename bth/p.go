package bth

// P is the bit of Resv6, and of octet 4 as a whole, that makes OpCode 0x81 a
// PPFC notification instead of a CNP (PPFC section 3).
const P = 0x20
