/*!
 * Straight-line code: instructions on few elements that follow each other, compiled as one function. Their dispatch,
 * once a row as with the sums of a norm, takes longer than their arithmetic.
 */
#ifndef ASCENDC_HOST_PASSES_STRAIGHT_LINE_H
#define ASCENDC_HOST_PASSES_STRAIGHT_LINE_H

#include <cstdint>
#include <vector>

#include "ir/small_step.h"

namespace AscendC {
namespace host {

class StraightLine {
public:
    // The first units of an instruction. False: it has too many elements, or there is no code of its kind; or the
    // straight-line piece is long enough.
    bool Add(const Instruction& instruction, uint32_t units);

    const std::vector<SmallStep>& Steps() const { return steps_; }

private:
    bool AddUnits(const Instruction& instruction, uint32_t units);

    std::vector<SmallStep> steps_;
    uint16_t operands_ = 0;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_STRAIGHT_LINE_H
