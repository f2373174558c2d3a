#include "textflag.h"

// func updateCRC32(r uint32, b []byte, m *mask) uint32
TEXT ·updateCRC32(SB), NOSPLIT, $0-44
	MOVWU r+0(FP), R0
	MOVD  b_base+8(FP), R1
	MOVD  b_len+16(FP), R2
	MOVD  m+32(FP), R3
	ADD   $64, R3
	MOVD  $8, R4           // so many times 8 octets are masked

masked:
	CMP    $8, R2
	BLT    four
	CBZ    R4, plain
	MOVD.P 8(R1), R5
	MOVD.P 8(R3), R6
	ORR    R6, R5
	CRC32X R5, R0
	SUB    $8, R2
	SUB    $1, R4
	B      masked

plain:
	CMP    $16, R2
	BLT    eight
	LDP.P  16(R1), (R5, R6)
	CRC32X R5, R0
	CRC32X R6, R0
	SUB    $16, R2
	B      plain

eight:
	TBZ    $3, R2, four
	MOVD.P 8(R1), R5
	CRC32X R5, R0

four:
	TBZ     $2, R2, two
	MOVWU.P 4(R1), R5
	MOVWU.P 4(R3), R6
	ORR     R6, R5
	CRC32W  R5, R0

two:
	TBZ     $1, R2, one
	MOVHU.P 2(R1), R5
	MOVHU.P 2(R3), R6
	ORR     R6, R5
	CRC32H  R5, R0

one:
	TBZ    $0, R2, done
	MOVBU  (R1), R5
	MOVBU  (R3), R6
	ORR    R6, R5
	CRC32B R5, R0

done:
	MOVW R0, ret+40(FP)
	RET
