/*!
 * Lists the rules of the checked build, and reports violations and notes.
 */
#ifndef ASCENDC_HOST_CHECKED_RULES_H
#define ASCENDC_HOST_CHECKED_RULES_H

#include <cstdint>

#include "observed/observer.h"

namespace AscendC {
namespace host {

// The order is that of the table in rules.cpp.
enum class Rule : uint32_t {
    // launch
    BLOCK_DIM,
    TILING_SIZE,
    DEADLOCK,
    // Unified Buffer
    UB_CAPACITY,
    BUFFER_COUNT,
    QUEUE_BUFFERS,
    UB_BOUNDS,
    UB_FREED,
    UB_INDEX,
    UB_UNASSIGNED,
    UB_UNINITIALIZED,
    ALIGNMENT,
    // vector instructions
    DTYPE,
    ROUND_MODE,
    REPEAT_TIMES,
    MASK,
    MASK_STATE,
    STRIDE,
    OVERLAP,
    GATHER_OFFSET,
    // copies
    COPY_LENGTH,
    COPY_PARAMS,
    PADDING,
    COPY_POSITION,
    // queues
    QUEUE_ALLOC,
    QUEUE_ENQUE,
    QUEUE_DEPTH,
    QUEUE_DEQUE,
    QUEUE_FREE,
    QUEUE_LEAK,
    // order
    PIPE_HAZARD,
    MTE_OVERLAP,
    FLAG_PAIR,
    EVENT_ID,
    BARRIER_PIPE,
    // global memory
    GM_BOUNDS,
    GM_INPUT,
    GM_UNINITIALIZED,
    GM_RACE,
    GM_UNWRITTEN,
    ATOMIC_DTYPE,
    ATOMIC_ORDER,
    ATOMIC_LEFT,
    // products
    MATMUL_INIT,
    MATMUL_SHAPE,
    MATMUL_STRIDE,
    MATMUL_TRANSPOSE,
    MATMUL_CAPACITY,
    MATMUL_BASE,
    CUBE_RANGE,
    MATMUL_BIAS,
    MATMUL_WAIT,
    MATMUL_BLOCK,
    // notes
    NOTE_SHARED_BLOCK,
    NOTE_SHARED_LINE,
    NOTE_SMALL_COPY,
    NOTE_MASK_LEFT,
    NOTE_UNDEFINED_LANES,
    NOTE_UNKNOWN_INSTRUCTION,
    COUNT
};

struct RuleText {
    const char* id;        // "pipe-hazard"
    const char* says;      // one line
    const char* document;  // of CANN's Ascend C documentation
};
const RuleText& TextOf(Rule rule);

constexpr int VIOLATION_STATUS = 99;

// An emulated device, in whose process kernels run, gives and gets this; null: there is none.
struct DeviceHooks {
    void (*violation)(const char* text) = nullptr;  // does not return
    // Returns how many of these bytes were written before the first one that never was.
    uint64_t (*written)(const void* address, uint64_t bytes) = nullptr;
    void (*writes)(const void* address, uint64_t bytes) = nullptr;
};
DeviceHooks& TheDeviceHooks();

// Prints the event's place, the rule and the values, and ends the process with VIOLATION_STATUS.
[[noreturn]] void Violation(Rule rule, const Event& event, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

// Notes something that is slow on the chip, or relies on a compiler option. Notes are counted by rule and place; the
// list goes to the file that MS_ASCEND_OPS_CHECK_NOTES names when the process ends.
void Note(Rule rule, const Event& event);

// Returns a place as it is printed: from "kernels/" or "tests/" on.
const char* ShortPath(const char* file);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CHECKED_RULES_H
