/*!
 * The cost model estimates the time of arithmetic on a vector of 16 floats, to compare loops by.
 */
#ifndef ASCENDC_HOST_PASSES_COST_MODEL_H
#define ASCENDC_HOST_PASSES_COST_MODEL_H

#include <algorithm>
#include <cstdint>

#include "ir/loop_form.h"

namespace AscendC {
namespace host {

// Times are in half cycles of a CPU.
struct Timings {
    uint32_t instruction;
    uint32_t division;  // or square root
};

// Two instructions of AVX-512 begin in a cycle, as on Intel's servers.
constexpr Timings FAST_TIMINGS{1, 32};
// A vector takes two instructions, as on Zen 4.
constexpr Timings SLOW_TIMINGS{2, 20};

struct ArithmeticCost {
    uint32_t instructions = 0;
    uint32_t divisions = 0;  // and square roots
    uint32_t gathers = 0;

    // Times are in half cycles. Divisions and gathers go on beside other instructions.
    uint32_t Time(const Timings& timings) const
    {
        constexpr uint32_t GATHER = 17;
        return std::max({instructions * timings.instruction, divisions * timings.division, gathers * GATHER});
    }
};

ArithmeticCost CostOf(const Value& value);

// Adds up, for each element of an iteration, the half cycles of its values, and one more for each value.
uint32_t CostOf(const LoopForm& form);

// A lookup is a gather, or a load for each entry, of which few go on beside other instructions. Where elements are
// halves and entries floats, those of usual numbers are 100 KiB, and not in the L1 data cache.
constexpr ArithmeticCost GATHERING{3, 0, 1};
constexpr ArithmeticCost LOADING{11, 0, 0};
constexpr ArithmeticCost LOADING_FAR{15, 0, 0};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_COST_MODEL_H
