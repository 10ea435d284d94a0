/*!
 * Writes a sequence (sequence.h) as LLVM IR, which does what vector_unit.cpp does, bit for bit (but for the payload of
 * NaN), and in the same order: operands of two instructions may be the same memory, or overlap.
 */
#ifndef ASCENDC_HOST_SEQUENCE_IR_H
#define ASCENDC_HOST_SEQUENCE_IR_H

#include <string>
#include <vector>

#include "sequence.h"

namespace AscendC {
namespace host {

// A module with a function as of WriteLoop (loop_ir.h), of which only the ChainLinks matter.
std::string WriteSequence(const std::vector<SmallStep>& steps, const VectorUnit& unit, const std::string& name);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SEQUENCE_IR_H
