/*!
 * Finds the operands of an instruction, for vector_unit.cpp only.
 */
#ifndef ASCENDC_HOST_SIMD_OPERANDS_UNIT_H
#define ASCENDC_HOST_SIMD_OPERANDS_UNIT_H

#include "ir/instruction.h"
#include "simd/simd.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

template <typename T>
HOST_INLINE T* At(const Instruction& self, int operand, uint32_t iteration)
{
    return reinterpret_cast<T*>(self.operands[operand].base + self.operands[operand].stride * iteration);
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_OPERANDS_UNIT_H
