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
    uint32_t lookUp;
};

// Two instructions of AVX-512 begin in a cycle.
constexpr Pace PACE_OF_GATHERS{1, 32, 17};
// Vectors take two turns, and what looks up goes through most of what calculates.
constexpr Pace PACE_BY_ELEMENT{2, 20, 34};

struct Effort {
    uint32_t instructions = 0;
    uint32_t divisions = 0;  // and square roots
    uint32_t lookUps = 0;

    // In half cycles. Divisions and gathers go on beside other instructions.
    uint32_t Time(const Pace& pace) const
    {
        return std::max({instructions * pace.instruction, divisions * pace.division, lookUps * pace.lookUp});
    }
};

Effort EffortOf(Link link);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_EFFORT_H
