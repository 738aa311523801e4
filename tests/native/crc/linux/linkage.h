/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel's assembler files need of <linux/linkage.h> in a program. */
#define SYM_FUNC_START(name)	.globl name; name:
#define SYM_FUNC_END(name)	.type name, @function
#define RET			ret
