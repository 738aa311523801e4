// SPDX-License-Identifier: GPL-2.0
/*
 * insns-mark: have the emulator write down the instructions that it has counted since the last marker. The marker
 * is an instruction that does nothing; tools/vm/insns.c looks for it. Without that plugin nothing happens.
 */
#include <stdio.h>

int main(void)
{
#ifdef __x86_64__
	__asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00, 'r', 's', 'i', 'w'");
	return 0;
#else
	fputs("insns-mark: there is no marker for this architecture\n", stderr);
	return 1;
#endif
}
