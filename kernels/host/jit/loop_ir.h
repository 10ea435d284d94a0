/*!
 * Writes a loop (fused_loops.h) as LLVM IR around its body (loop_body.h).
 */
#ifndef ASCENDC_HOST_JIT_LOOP_IR_H
#define ASCENDC_HOST_JIT_LOOP_IR_H

#include <string>

#include "ir/loop_form.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {

// Is there IR for vectors of so many bytes on this architecture? It fuses multiplications and additions as simd.h does
// where the CPU can, and nowhere else.
bool WritesLoops(const VectorUnit& unit);

// A module with the function `void name(ptr bases, i64 begin, i64 end, ptr ahead)`: rows [begin, end), or elements,
// where `begin` is a multiple of a repeat, and without a tail `end` is one of LOOP_ELEMENTS, of the loop whose operands
// are at `bases`. `ahead`: a LoopAhead, which loops that prefetch advance.
std::string WriteLoop(const LoopForm& form, const VectorUnit& unit, const std::string& name);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_JIT_LOOP_IR_H
