/*!
 * Writes a loop (fused_loops.h) as LLVM IR, or a straight-line piece by straight_line_ir.h.
 *
 * It calculates the same as the fused sequences of the loop, bit for bit (but for the payload of NaN): the operations
 * are those of arithmetic.h and simd.h, and nothing lets LLVM change their order or fuse them.
 */
#ifndef ASCENDC_HOST_JIT_LOOP_IR_H
#define ASCENDC_HOST_JIT_LOOP_IR_H

#include <string>

#include "passes/fused_loops.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {

// Is there IR for vectors of so many bytes on this architecture? It fuses multiplications and additions as simd.h does
// where the CPU can, and nowhere else.
bool WritesLoops(const VectorUnit& unit);

// A module with the function `void name(ptr nodes, i64 begin, i64 end, ptr ahead)`: rows [begin, end), or elements,
// both multiples of LOOP_ELEMENTS then, and not the same, of the loop whose BoundNodes begin at `nodes`. `ahead`: a
// LoopAhead, which loops that prefetch advance.
std::string WriteLoop(const LoopForm& form, const VectorUnit& unit, const std::string& name);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_JIT_LOOP_IR_H
