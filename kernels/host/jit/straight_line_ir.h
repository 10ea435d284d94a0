/*!
 * Writes straight-line code (straight_line.h) as LLVM IR: the same results as vector_unit.cpp, bit for bit (but for the
 * payload of NaN), in the same order, as operands of two instructions may be the same memory, or overlap.
 */
#ifndef ASCENDC_HOST_JIT_STRAIGHT_LINE_IR_H
#define ASCENDC_HOST_JIT_STRAIGHT_LINE_IR_H

#include <string>
#include <vector>

#include "passes/straight_line.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {

// A module with a function as of WriteLoop (loop_ir.h), of which only the addresses matter.
std::string WriteStraightLine(const std::vector<SmallStep>& steps, const VectorUnit& unit, const std::string& name);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_JIT_STRAIGHT_LINE_IR_H
