#include "go_asm.h"
#include "textflag.h"

// The CRC by carry-less multiplication: Gopal et al., "Fast CRC Computation
// for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009), 64
// octets at a time.
//
// Why assembly: on a Zen 4 EPYC an IPv6 CNP takes 10 ns with it, 20 with the
// tables, 27 with hash/crc32 unmasked; 1024 octets take 26, 98 and 33. The
// tables must be through the header before hash/crc32 can take the rest, and
// hash/crc32, which multiplies as well, is slow below 64 octets and with a
// tail. CPUs without these instructions use the tables.
//
// A pair of constants folds 128 bits over a distance of d bits: the bits of
// x^(d+32) mod P for the lower 64, of x^(d-32) mod P for the upper 64,
// reflected and shifted left by one.

DATA fold1024<>+0(SB)/8, $0x1e88ef372
DATA fold1024<>+8(SB)/8, $0x14a7fe880
GLOBL fold1024<>(SB), RODATA, $16

DATA fold512<>+0(SB)/8, $0x154442bd4
DATA fold512<>+8(SB)/8, $0x1c6e41596
GLOBL fold512<>(SB), RODATA, $16

// The four lanes of 64 octets: 384, 256, 128 bits; the last stays.
DATA foldLanes<>+0(SB)/8, $0x03db1ecdc
DATA foldLanes<>+8(SB)/8, $0x174359406
DATA foldLanes<>+16(SB)/8, $0x0f1da05aa
DATA foldLanes<>+24(SB)/8, $0x15a546366
DATA foldLanes<>+32(SB)/8, $0x1751997d0
DATA foldLanes<>+40(SB)/8, $0x0ccaa009e
DATA foldLanes<>+48(SB)/8, $0
DATA foldLanes<>+56(SB)/8, $0
GLOBL foldLanes<>(SB), RODATA, $64

// x^64 and x^96; P and floor(x^64/P): 128 to 64 bits, 64 to 32.
DATA reduce<>+0(SB)/8, $0x163cd6124
DATA reduce<>+8(SB)/8, $0x0ccaa009e
DATA reduce<>+16(SB)/8, $0x1db710641
DATA reduce<>+24(SB)/8, $0x1f7011641
GLOBL reduce<>(SB), RODATA, $32

// FOLD moves acc over the distance of the constants k and adds next.
#define FOLD(k, acc, next, tmp) \
	VPCLMULQDQ $0x00, k, acc, tmp     \
	VPCLMULQDQ $0x11, k, acc, acc     \
	VPTERNLOGQ $0x96, next, tmp, acc

// REDUCE takes the register out of the last 128 bits, X1, into AX: to 64 bits,
// to 32, and those by Barrett. It changes X0, X2 and X3.
#define REDUCE \
	MOVOU     reduce<>+0(SB), X0  \
	PCMPEQB   X3, X3              \
	PSRLQ     $32, X3             \
	MOVOA     X1, X2              \
	PCLMULQDQ $0x10, X0, X2       \
	PSRLDQ    $8, X1              \
	PXOR      X2, X1              \
	MOVOA     X1, X2              \
	PSRLDQ    $4, X2              \
	PAND      X3, X1              \
	PCLMULQDQ $0x00, X0, X1       \
	PXOR      X2, X1              \
	MOVOU     reduce<>+16(SB), X0 \
	MOVOA     X1, X2              \
	PAND      X3, X1              \
	PCLMULQDQ $0x10, X0, X1       \
	PAND      X3, X1              \
	PCLMULQDQ $0x00, X0, X1       \
	PXOR      X2, X1              \
	PEXTRD    $1, X1, AX

// func long(r uint32, b []byte, m *mask) uint32
TEXT ·long(SB), NOSPLIT, $0-44
	CMPB ·Use(SB), $const_wideFolding
	JEQ  wide
	JMP  ·foldLong(SB)

wide:
	MOVL  r+0(FP), AX
	VMOVD AX, X2
	MOVQ  b_base+8(FP), SI
	MOVQ  b_len+16(FP), BX
	MOVQ  m+32(FP), DI

	// Octets of zero in front of b, with a register of 0, change nothing: CX of
	// them make the length a multiple of 64. r is added to the first four of b.
	MOVL        BX, CX
	NEGL        CX
	ANDL        $63, CX
	MOVQ        $-1, AX
	MOVQ        $-1, DX
	SHRQ        CX, AX
	SHLQ        CX, DX
	KMOVQ       AX, K1
	KMOVQ       DX, K2
	VMOVDQU8.Z  (SI), K1, Z1         // the first 64-CX octets of b and no more
	VPEXPANDB.Z Z1, K2, Z1           // moved up by CX; slow if from memory
	VPEXPANDB.Z Z2, K2, Z2
	SUBQ        CX, SI
	SUBQ        CX, DI
	VPTERNLOGQ  $0x36, 64(DI), Z2, Z1 // (Z1 OR mask) XOR Z2
	ADDQ        CX, BX
	SUBQ        $64, BX
	JZ          lanes

	VMOVDQU64       64(SI), Z2
	VPORQ           128(DI), Z2, Z2
	VBROADCASTI32X4 fold512<>(SB), Z8
	ADDQ            $128, SI
	SUBQ            $64, BX
	JZ              join
	TESTQ           $64, BX
	JZ              pairs
	FOLD(Z8, Z1, Z2, Z3)
	VMOVDQU64       (SI), Z2
	ADDQ            $64, SI
	SUBQ            $64, BX
	JZ              join

pairs:
	VBROADCASTI32X4 fold1024<>(SB), Z9

loop:
	FOLD(Z9, Z1, (SI), Z3)
	FOLD(Z9, Z2, 64(SI), Z4)
	ADDQ $128, SI
	SUBQ $128, BX
	JNZ  loop

join:
	FOLD(Z8, Z1, Z2, Z3)

lanes:
	VMOVDQU64     foldLanes<>(SB), Z0
	VEXTRACTI32X4 $3, Z1, X2
	VPCLMULQDQ    $0x00, Z0, Z1, Z3
	VPCLMULQDQ    $0x11, Z0, Z1, Z1
	VPXORQ        Z3, Z1, Z1
	VEXTRACTI64X4 $1, Z1, Y3
	VPXOR         Y2, Y1, Y1
	VPXOR         Y3, Y1, Y1
	VEXTRACTI128  $1, Y1, X3
	VPXOR         X3, X1, X1
	VZEROUPPER

	REDUCE
	MOVL AX, ret+40(FP)
	RET

// MUL multiplies the block x by the constants k and adds it to acc.
#define MUL(k, x, acc, tmp) \
	MOVOA     x, tmp        \
	PCLMULQDQ $0x00, k, x   \
	PCLMULQDQ $0x11, k, tmp \
	PXOR      x, acc        \
	PXOR      tmp, acc

// func foldShort(r uint32, b []byte, m *mask, udp *byte) uint32
TEXT ·foldShort(SB), NOSPLIT, $0-52
	MOVL r+0(FP), AX
	MOVQ b_base+8(FP), SI
	MOVQ b_len+16(FP), BX
	MOVQ m+32(FP), DI
	MOVQ udp+40(FP), DX

	// Every block of 16 octets is multiplied by what its distance from the end
	// asks for, all of them at once: there is no chain. Loads are of 8 octets:
	// the CPU forwards them out of stores of 8 that have not reached the cache
	// yet, but not one load out of two stores.
	MOVQ  SI, R9
	ADDQ  BX, R9
	MOVQ  (SI), X1
	MOVHPS 8(SI), X1
	MOVOU 64(DI), X2
	POR   X2, X1
	MOVOU (DX), X2
	POR   X2, X1
	MOVD  AX, X2
	PXOR  X2, X1
	LEAQ  ·folds(SB), R8
	LEAQ  -64(R8)(BX*4), R8
	PXOR  X0, X0
	SUBQ  $32, BX
	JLT   last

blocks:
	MOVOU  (R8), X3
	MUL(X3, X1, X0, X2)
	MOVQ   16(SI), X1
	MOVHPS 24(SI), X1
	MOVOU  16(DX), X2
	POR    X2, X1
	ADDQ   $16, SI
	ADDQ   $16, DX
	SUBQ   $64, R8
	SUBQ   $16, BX
	JGE    blocks

last:
	TESTQ $12, BX
	JZ    end // of the last block, which stays
	MOVOU (R8), X3
	MUL(X3, X1, X0, X2)

	// What is left, 4, 8 or 12 octets, becomes the end of a block.
	TESTQ $8, BX
	JNZ   eight
	MOVL  -4(R9), X1
	MOVOU 16(DX), X2
	POR   X2, X1
	PSLLDQ $12, X1
	JMP   end

eight:
	MOVQ  16(SI), X1
	TESTQ $4, BX
	JZ    justEight
	MOVL  -4(R9), X2
	PUNPCKLQDQ X2, X1
	MOVOU 16(DX), X2
	POR   X2, X1
	PSLLDQ $4, X1
	JMP   end

justEight:
	MOVOU 16(DX), X2
	POR   X2, X1
	PSLLDQ $8, X1

end:
	PXOR X0, X1
	REDUCE
	MOVL AX, ret+48(FP)
	RET

// CHAIN moves acc over 64 octets, whose constants are in X8, and adds next.
#define CHAIN(acc, next, tmp) \
	MOVOA     acc, tmp        \
	PCLMULQDQ $0x00, X8, acc  \
	PCLMULQDQ $0x11, X8, tmp  \
	PXOR      tmp, acc        \
	MOVOU     next, tmp       \
	PXOR      tmp, acc

// CHAINPAIR is CHAIN for the two blocks in acc, with the constants in Y0: VPCLMULQDQ $0x00, Y0, acc, low and
// VPCLMULQDQ $0x11, Y0, acc, acc, which the assembler only encodes for AVX-512. from is 0x75 for Y1 as acc and 0x65 for
// Y3, toLow 0xE8 for Y5 as low and 0xF0 for Y6, and toAcc 0xC8 for Y1 and 0xD8 for Y3.
#define CHAINPAIR(acc, low, next, from, toLow, toAcc) \
	BYTE  $0xC4; BYTE $0xE3; BYTE $from; BYTE $0x44; BYTE $toLow; BYTE $0x00 \
	BYTE  $0xC4; BYTE $0xE3; BYTE $from; BYTE $0x44; BYTE $toAcc; BYTE $0x11 \
	VPXOR next, low, low  \
	VPXOR low, acc, acc

// func foldLong(r uint32, b []byte, m *mask) uint32
TEXT ·foldLong(SB), NOSPLIT, $0-44
	MOVL  r+0(FP), AX
	MOVQ  b_base+8(FP), SI
	MOVQ  b_len+16(FP), BX
	MOVQ  m+32(FP), DI
	LEAQ  ·folds(SB), R8

	MOVOU (SI), X1
	MOVOU 16(SI), X2
	MOVOU 32(SI), X3
	MOVOU 48(SI), X4
	MOVOU 64(DI), X5
	MOVOU 80(DI), X6
	POR   X5, X1
	POR   X6, X2
	MOVOU 96(DI), X5
	MOVOU 112(DI), X6
	POR   X5, X3
	POR   X6, X4
	MOVD  AX, X5
	PXOR  X5, X1
	ADDQ  $64, SI
	SUBQ  $128, BX
	JLT   lanes
	CMPB  ·Use(SB), $const_folding
	JNE   pairs
	MOVOU (16*16)(R8), X8 // 16 words

chains:
	CHAIN(X1, 0(SI), X5)
	CHAIN(X2, 16(SI), X6)
	CHAIN(X3, 32(SI), X7)
	CHAIN(X4, 48(SI), X9)
	ADDQ $64, SI
	SUBQ $64, BX
	JGE  chains
	JMP  lanes

pairs:
	VBROADCASTI128 (16*16)(R8), Y0
	VINSERTI128    $1, X2, Y1, Y1
	VINSERTI128    $1, X4, Y3, Y3

pairChains:
	CHAINPAIR(Y1, Y5, 0(SI), 0x75, 0xE8, 0xC8)
	CHAINPAIR(Y3, Y6, 32(SI), 0x65, 0xF0, 0xD8)
	ADDQ         $64, SI
	SUBQ         $64, BX
	JGE          pairChains
	VEXTRACTI128 $1, Y1, X2
	VEXTRACTI128 $1, Y3, X4
	VZEROUPPER

lanes:
	ADDQ  $64, BX // 0 to 60 octets are left
	LEAQ  (R8)(BX*4), R8
	PXOR  X0, X0
	MOVOU (12*16)(R8), X5
	MUL(X5, X1, X0, X9)
	MOVOU (8*16)(R8), X6
	MUL(X6, X2, X0, X9)
	MOVOU (4*16)(R8), X7
	MUL(X7, X3, X0, X9)
	MOVOA X4, X1

blocks:
	TESTQ BX, BX
	JZ    end // of the last block, which stays
	MOVOU (R8), X5
	MUL(X5, X1, X0, X9)
	SUBQ  $16, BX
	JLT   rest
	MOVOU (SI), X1
	ADDQ  $16, SI
	SUBQ  $64, R8
	JMP   blocks

rest:
	// 4, 8 or 12: the last 16 octets but those that are done.
	MOVOU (SI)(BX*1), X1
	LEAQ  tails<>(SB), R9
	MOVOU 64(R9)(BX*4), X2
	PAND  X2, X1

end:
	PXOR X0, X1
	REDUCE
	MOVL AX, ret+40(FP)
	RET

// The last 0, 4, 8 or 12 of 16 octets.
DATA tails<>+0(SB)/8, $0
DATA tails<>+8(SB)/8, $0
DATA tails<>+16(SB)/8, $0
DATA tails<>+24(SB)/8, $0xFFFFFFFF00000000
DATA tails<>+32(SB)/8, $0
DATA tails<>+40(SB)/8, $0xFFFFFFFFFFFFFFFF
DATA tails<>+48(SB)/8, $0xFFFFFFFF00000000
DATA tails<>+56(SB)/8, $0xFFFFFFFFFFFFFFFF
GLOBL tails<>(SB), RODATA, $64

// func fastest() Implementation
TEXT ·fastest(SB), NOSPLIT, $0-1
	MOVB $const_tablesOnly, ret+0(FP)
	XORL AX, AX
	CPUID
	MOVL AX, SI // the highest leaf
	MOVL $1, AX
	XORL CX, CX
	CPUID
	MOVL CX, DI
	ANDL $0x00080002, CX // SSE4.1, PCLMULQDQ
	CMPL CX, $0x00080002
	JNE  done
	MOVB $const_folding, ret+0(FP)
	CMPL SI, $7
	JLT  done
	TESTL $0x08000000, DI // OSXSAVE
	JZ   done
	XORL CX, CX
	XGETBV
	MOVL AX, DI // register state saved by the operating system (XCR0)
	ANDL $0x6, AX // XMM, YMM
	CMPL AX, $0x6
	JNE  done
	MOVL $7, AX
	XORL CX, CX
	CPUID
	TESTL $0x20, BX // AVX2
	JZ   done
	TESTL $0x400, CX // VPCLMULQDQ
	JZ   done
	MOVB $const_folding256, ret+0(FP)
	ANDL $0xE0, DI // K and ZMM
	CMPL DI, $0xE0
	JNE  done
	ANDL $0x40010000, BX // AVX512BW, AVX512F
	CMPL BX, $0x40010000
	JNE  done
	TESTL $0x40, CX // AVX512_VBMI2
	JZ   done
	MOVB $const_wideFolding, ret+0(FP)

done:
	RET
