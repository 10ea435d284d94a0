/*!
 * Compiled loops make prefetches beside their work; their code and the runtime agree on this.
 */
#ifndef ASCENDC_HOST_JIT_LOOP_AHEAD_H
#define ASCENDC_HOST_JIT_LOOP_AHEAD_H

#include <algorithm>
#include <cstdint>

#include "ir/loop_form.h"

namespace AscendC {
namespace host {

constexpr uint32_t LINE_BYTES = 64;

// The loops of a schedule prefetch these stretches of memory, all of the same length and at the same rate. A core has
// few fill buffers: lines that are prefetched together wait for each other, and the core for them.
struct LoopAhead {
    static constexpr uint32_t MAX_STRETCHES = LoopVariant::MAX_PREFETCHES;
    static constexpr uint32_t RATE_BITS = 16;

    uint64_t done = 0;   // bytes of each
    uint64_t bytes = 0;  // of each
    uint64_t rate = 0;   // bytes for what costs 1 (cost_model.h), times 2^RATE_BITS
    const char* stretches[MAX_STRETCHES];

    // Makes the prefetches of code of this cost.
    void Prefetch(uint64_t cost, uint32_t count)
    {
        constexpr uint64_t PART = (1 << RATE_BITS) - 1;
        const uint64_t end = std::min(done + ((rate * cost + PART) >> RATE_BITS), bytes);
        for (uint64_t line = (done + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES; line < end; line += LINE_BYTES) {
            for (uint32_t k = 0; k < count; ++k) {
                __builtin_prefetch(stretches[k] + line, 0, 2);
            }
        }
        done = end;
    }
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_JIT_LOOP_AHEAD_H
