/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel's assembler files need of <linux/objtool.h> in a program. */
.macro ANNOTATE_NOENDBR
.endm
