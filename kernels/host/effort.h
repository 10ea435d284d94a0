/*!
 * What calculating takes: a vector of AVX-512, on the CPUs that gather fast. Roughly, to compare loops by.
 */
#ifndef ASCENDC_HOST_EFFORT_H
#define ASCENDC_HOST_EFFORT_H

#include <algorithm>
#include <cstdint>

#include "instruction.h"

namespace AscendC {
namespace host {

struct Effort {
    uint32_t instructions = 0;
    uint32_t divisions = 0;  // and square roots
    uint32_t gathers = 0;

    // In half cycles. Two instructions begin in a cycle; divisions and gathers go on beside them.
    uint32_t Time() const
    {
        constexpr uint32_t DIVISION = 32;
        constexpr uint32_t GATHER = 17;
        return std::max({instructions, divisions * DIVISION, gathers * GATHER});
    }
};

Effort EffortOf(Link link);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_EFFORT_H
