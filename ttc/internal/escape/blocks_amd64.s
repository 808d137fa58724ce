#include "textflag.h"

DATA quotes<>+0(SB)/8, $0x2222222222222222
DATA quotes<>+8(SB)/8, $0x2222222222222222
GLOBL quotes<>(SB), RODATA|NOPTR, $16

DATA backslashes<>+0(SB)/8, $0x5c5c5c5c5c5c5c5c
DATA backslashes<>+8(SB)/8, $0x5c5c5c5c5c5c5c5c
GLOBL backslashes<>(SB), RODATA|NOPTR, $16

// The last control character.
DATA controls<>+0(SB)/8, $0x1f1f1f1f1f1f1f1f
DATA controls<>+8(SB)/8, $0x1f1f1f1f1f1f1f1f
GLOBL controls<>(SB), RODATA|NOPTR, $16

// With this added, bytes of sixteen and more select nothing in a shuffle.
DATA beyond<>+0(SB)/8, $0x7070707070707070
DATA beyond<>+8(SB)/8, $0x7070707070707070
GLOBL beyond<>(SB), RODATA|NOPTR, $16

// The letters of the escapes of characters 0 to 15: b, t, n, f and r for 8, 9, 10, 12 and 13.
DATA letters<>+0(SB)/8, $0x0000000000000000
DATA letters<>+8(SB)/8, $0x00007266006e7462
GLOBL letters<>(SB), RODATA|NOPTR, $16

// func escapeBlocks(dst, src *byte, n int, to *[256][16]byte) (blocks, wrote int)
TEXT ·escapeBlocks(SB), NOSPLIT, $0-48
	MOVQ  dst+0(FP), DI
	MOVQ  src+8(FP), SI
	MOVQ  n+16(FP), CX
	MOVQ  CX, R10
	MOVQ  DI, R8
	MOVQ  to+24(FP), DX
	MOVOU quotes<>(SB), X1
	MOVOU backslashes<>(SB), X2
	MOVOU controls<>(SB), X7
	MOVOU beyond<>(SB), X8
	MOVOU letters<>(SB), X9

loop:
	MOVOU (SI), X0

	// X3: what gets a backslash; X4: the control characters; X6: their letters.
	MOVOA   X0, X3
	PCMPEQB X1, X3
	MOVOA   X0, X4
	PCMPEQB X2, X4
	POR     X4, X3
	MOVOA   X0, X4
	PMINUB  X7, X4
	PCMPEQB X0, X4
	MOVOA   X0, X5
	PADDUSB X8, X5
	MOVOA   X9, X6
	PSHUFB  X5, X6

	// Stop at a control character without a letter.
	PXOR     X5, X5
	PCMPEQB  X6, X5
	PAND     X4, X5
	PMOVMSKB X5, AX
	TESTL    AX, AX
	JNZ      done

	POR      X4, X3
	PANDN    X0, X4
	POR      X6, X4
	PMOVMSKB X3, AX
	TESTL    AX, AX
	JNZ      some
	MOVOU    X4, (DI)
	ADDQ     $16, DI
	JMP      next

some:
	MOVBLZX    AX, BX
	SHRL       $8, AX
	MOVOA      X4, X6
	PUNPCKLQDQ X2, X6
	PUNPCKHQDQ X2, X4
	POPCNTL    BX, R9
	POPCNTL    AX, R11
	SHLQ       $4, BX
	SHLQ       $4, AX
	MOVOU      (DX)(BX*1), X3
	MOVOU      (DX)(AX*1), X5
	PSHUFB     X3, X6
	PSHUFB     X5, X4
	MOVOU      X6, (DI)
	LEAQ       8(DI)(R9*1), DI
	MOVOU      X4, (DI)
	LEAQ       8(DI)(R11*1), DI

next:
	ADDQ $16, SI
	DECQ CX
	JNZ  loop

done:
	SUBQ CX, R10
	MOVQ R10, blocks+32(FP)
	SUBQ R8, DI
	MOVQ DI, wrote+40(FP)
	RET
