/*!
 * What calculating takes: a vector of 16 floats. Roughly, to compare loops by.
 */
#ifndef ASCENDC_HOST_EFFORT_H
#define ASCENDC_HOST_EFFORT_H

#include <algorithm>
#include <cstdint>

#include "instruction.h"

namespace AscendC {
namespace host {

// How many half cycles they take of a CPU.
struct Pace {
    uint32_t instruction;
    uint32_t division;  // or square root
};

// Two instructions of AVX-512 begin in a cycle, as on Intel's servers.
constexpr Pace FAST_PACE{1, 32};
// A vector takes two turns, as on Zen 4.
constexpr Pace SLOW_PACE{2, 20};

struct Effort {
    uint32_t instructions = 0;
    uint32_t divisions = 0;  // and square roots
    uint32_t gathers = 0;

    // In half cycles. Divisions and gathers go on beside other instructions.
    uint32_t Time(const Pace& pace) const
    {
        constexpr uint32_t GATHER = 17;
        return std::max({instructions * pace.instruction, divisions * pace.division, gathers * GATHER});
    }
};

Effort EffortOf(Link link);

// Looking up, by a gather, or by a load for each entry, of which few go on beside other instructions. Where elements
// are halves and entries floats, those of usual numbers are 100 KiB, and not in the first cache.
constexpr Effort GATHERING{3, 0, 1};
constexpr Effort LOADING{11, 0, 0};
constexpr Effort LOADING_FAR{15, 0, 0};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_EFFORT_H
