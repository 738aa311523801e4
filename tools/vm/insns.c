// SPDX-License-Identifier: GPL-2.0
/*
 * insns.so: a plugin of QEMU's emulator that counts the instructions a guest executes in its kernel and in the
 * kernel's modules. When the guest executes the marker (tests/vm/prog/insns-mark.c), the counts since the last marker
 * are added to the file out=PATH: for each block of instructions its address in hexadecimal, the number of instructions
 * executed there, and how often the block was; and then a line "mark". Addresses are those of amd64: the kernel and its
 * modules have the last two gigabytes.
 *
 * A block that an exception leaves early counts in full. QEMU's header is in no package of Debian, so what is
 * used of version 4 of its interface (QEMU 10) is declared here.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t qemu_plugin_id_t;
typedef void (*on_translation)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*on_execution)(unsigned int vcpu, void *data);
enum { NO_REGISTERS };
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, on_translation cb);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, on_execution cb, int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, on_execution cb, int flags,
					    void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t len);

EXPORT int qemu_plugin_version = 4;

#define KERNEL_BEGIN 0xffffffff80000000ull
#define KERNEL_END 0xffffffffff000000ull

/* A block, once translated. The same block may be translated again, and then has another of these. */
struct block {
	struct block *next;
	uint64_t address, insns, executed;
};

static struct block *blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *out;

static void executed(unsigned int vcpu, void *data)
{
	(void)vcpu;
	__atomic_fetch_add(&((struct block *)data)->executed, 1, __ATOMIC_RELAXED);
}

static void marked(unsigned int vcpu, void *data)
{
	FILE *file = fopen(out, "a");

	(void)vcpu;
	(void)data;
	if (!file)
		abort();
	pthread_mutex_lock(&lock);
	for (struct block *block = blocks; block; block = block->next) {
		uint64_t times = __atomic_exchange_n(&block->executed, 0, __ATOMIC_RELAXED);

		if (times)
			fprintf(file, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", block->address,
				times * block->insns, times);
	}
	pthread_mutex_unlock(&lock);
	fputs("mark\n", file);
	if (fclose(file))
		abort();
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	/* nopl 0x77697372(%rax,%rax,1): the displacement reads "rsiw". */
	static const unsigned char marker[8] = { 0x0f, 0x1f, 0x84, 0x00, 'r', 's', 'i', 'w' };
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	size_t insns = qemu_plugin_tb_n_insns(tb);

	(void)id;
	if (address >= KERNEL_BEGIN && address < KERNEL_END) {
		struct block *block = calloc(1, sizeof(*block));

		if (!block)
			abort();
		block->address = address;
		block->insns = insns;
		pthread_mutex_lock(&lock);
		block->next = blocks;
		blocks = block;
		pthread_mutex_unlock(&lock);
		qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, NO_REGISTERS, block);
		return;
	}
	/* The marker is a program's, in the lower half of the addresses. */
	if (address >> 63)
		return;
	for (size_t i = 0; i < insns; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		unsigned char bytes[sizeof(marker)];

		if (qemu_plugin_insn_data(insn, bytes, sizeof(bytes)) == sizeof(bytes) &&
		    !memcmp(bytes, marker, sizeof(marker)))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, NO_REGISTERS, NULL);
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4))
			out = strdup(argv[i] + 4);
	}
	if (!out)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
