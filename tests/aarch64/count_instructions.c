/*!
 * A plugin of qemu that counts the instructions of the emulated program. A call of getpriority(PRIO_PROCESS, MARK),
 * which no program makes by itself, prints how many there were until then. qemu 7 and 8 have this interface; Debian has
 * no header of it.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
typedef uint64_t qemu_plugin_id_t;
typedef void (*OnBlock)(qemu_plugin_id_t id, struct qemu_plugin_tb* block);
typedef void (*OnSystemCall)(qemu_plugin_id_t id, unsigned int cpu, int64_t number, uint64_t first, uint64_t second,
                             uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, OnBlock call);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb* block, int operation, void* counter,
                                              uint64_t more);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, OnSystemCall call);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);

enum { ADD = 0, GETPRIORITY = 141, PRIO_PROCESS = 0, MARK = 0x7fff0061 };

EXPORT int qemu_plugin_version = 1;
static uint64_t g_count;

static void CountBlock(qemu_plugin_id_t id, struct qemu_plugin_tb* block)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD, &g_count, qemu_plugin_tb_n_insns(block));
}

static void PrintAtMark(qemu_plugin_id_t id, unsigned int cpu, int64_t number, uint64_t first, uint64_t second,
                        uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    (void)id, (void)cpu, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
    if (number == GETPRIORITY && first == PRIO_PROCESS && second == MARK) {
        fprintf(stderr, "instructions %" PRIu64 "\n", g_count);
    }
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void* info, int argc, char** argv)
{
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, CountBlock);
    qemu_plugin_register_vcpu_syscall_cb(id, PrintAtMark);
    return 0;
}
