/*!
 * The form of a loop that is compiled: its nodes and operands without addresses. Loops of the same form share their
 * code (jit/loop_code.h).
 */
#ifndef ASCENDC_HOST_IR_LOOP_FORM_H
#define ASCENDC_HOST_IR_LOOP_FORM_H

#include <cstdint>
#include <string>
#include <vector>

#include "ir/nodes.h"
#include "ir/small_step.h"

namespace AscendC {
namespace host {

// Bytes of a non-temporal store; NumPy and MindSpore align their memory to that.
constexpr uint32_t NON_TEMPORAL_BYTES = 16;

// A node of a fused sequence of the loop. No padding: forms are compared as bytes.
struct LoopNode {
    static constexpr uint8_t NO_OPERAND = 255;
    // Who reads the stored bytes: no instruction, one behind the loop, or the owner of the tensor.
    static constexpr uint16_t NOT_NEEDED = 0;
    static constexpr uint16_t IN_UB = 1;
    static constexpr uint16_t IN_GM = 2;

    NodeKind kind;
    uint8_t operand;    // nodes with the same number work on the same memory, others on other memory or other columns
    uint16_t index;     // in the BoundNodes of the loop, which has the operand's address
    uint16_t elements;  // of each row, in a loop over rows
    uint16_t needed;    // of a store
    float scalar;
};

// An operand of a loop over rows.
struct LoopRows {
    int64_t stride;  // bytes from a row to the next
    uint32_t whole;  // the operand whose rows it has columns of; it may be that itself
    int32_t column;  // of that, where it begins
};

// A code variant of a loop. Small launches use the first.
struct LoopVariant {
    static constexpr uint32_t FLAGS = 4;  // combinations of the first two
    static constexpr uint32_t MAX_PREFETCHES = 4;
    static constexpr uint32_t COUNT = FLAGS * (MAX_PREFETCHES + 1);

    bool nonTemporal = false;  // stores to global memory bypass the caches (non_temporal.h)
    bool usesLookups = false;  // results are looked up in tables (lookups.h)
    uint32_t prefetches = 0;   // of so many stretches of the next tile (prefetch.h)

    constexpr uint32_t Flags() const { return (nonTemporal ? 1 : 0) + (usesLookups ? 2 : 0); }
    constexpr uint32_t Number() const { return FLAGS * prefetches + Flags(); }
};

struct LoopForm {
    bool byRow = false;  // or from element to element, all operands contiguous
    LoopVariant variant;
    uint64_t inGm = 0;            // a bit for each operand that is in global memory; no fused sequence has more than 64
    std::vector<LoopRows> rows;   // of each operand; none without rows
    std::vector<LoopNode> nodes;  // END between two fused sequences
    std::vector<SmallStep> straightLine;  // if there are any, there is nothing else

    std::string Key() const;
    // Could a store be non-temporal, wherever its operand begins at a multiple of NON_TEMPORAL_BYTES?
    bool MayStoreNonTemporally(const LoopNode& store) const;
    // How many operands it reads from global memory.
    uint32_t Inputs() const;
    // May it go over elements twice? A loop over elements that adds nothing up, and overwrites nothing that it reads.
    bool MayOverlap() const;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_IR_LOOP_FORM_H
