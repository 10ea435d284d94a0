/*!
 * Describes the form of a loop that is compiled: its values and operands without addresses. Loops of the same form
 * share their code (jit/loop_code.h).
 */
#ifndef ASCENDC_HOST_IR_LOOP_FORM_H
#define ASCENDC_HOST_IR_LOOP_FORM_H

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"
#include "ir/value_graph.h"

namespace AscendC {
namespace host {

constexpr uint32_t REPEAT_FLOATS = ONE_REPEAT_BYTE_SIZE / sizeof(float);

// A non-temporal store has so many bytes; NumPy and MindSpore align their memory to that.
constexpr uint32_t NON_TEMPORAL_BYTES = 16;

// Describes a code variant of a loop. Small launches use the first.
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

// A loop over elements takes so many in each iteration. The tail behind the last whole iteration goes vector by vector.
constexpr uint32_t LOOP_ELEMENTS = 128;

struct LoopForm {
    bool byRow = false;    // or from element to element, all operands contiguous
    bool hasTail = false;  // a loop over elements may end in between
    LoopVariant variant;
    uint64_t inGm = 0;           // a bit for each operand that is in global memory
    std::vector<LoopRows> rows;  // of each operand; none without rows
    std::vector<Value> values;

    bool IsInGm(const Value& value) const
    {
        return value.operand != Value::NO_OPERAND && (inGm >> value.operand & 1) != 0;
    }
    std::string Key() const;
    // Could a store be non-temporal, wherever its operand begins at a multiple of NON_TEMPORAL_BYTES?
    bool MayStoreNonTemporally(const Value& value) const;
    // Returns how many operands it reads from global memory.
    uint32_t Inputs() const;
    // May it go over elements twice? A loop over elements that adds nothing up, and overwrites nothing that it reads.
    bool MayOverlap() const;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_IR_LOOP_FORM_H
