/*!
 * Implements And and Or, on the bits of 16-bit integers.
 */
#ifndef ASCENDC_HOST_API_BITWISE_H
#define ASCENDC_HOST_API_BITWISE_H

#include "api/tensor.h"
#include "api/vector.h"
#include "observed/observe.h"

namespace AscendC {

namespace host {

// Handles two elements at once, as bits of a float, so that fused loops may take part in it.
template <typename T>
void IssueBitwise(Opcode opcode, const Source* sources, bool block, uint32_t count)
{
    static_assert(std::is_same<T, uint16_t>::value || std::is_same<T, int16_t>::value, "And, Or: 16-bit integers only");
    if (count == 0) {
        return;
    }
    const bool pairs = count % 2 == 0;
    const uint32_t size = pairs ? sizeof(float) : sizeof(T);
    Instruction& instruction = Core::Current().Next();
    instruction.operation = OperationOn(BitsOf(size), opcode, block ? Layout::BROADCAST1 : Layout::CONTIGUOUS);
    instruction.iterations = count * sizeof(T) / size;
    instruction.granule = block ? ONE_REPEAT_BYTE_SIZE / size : 1;
    instruction.operandCount = 3;
    for (uint32_t i = 0; i < 3; ++i) {
        instruction.operands[i] = {sources[i].base, size, size};
    }
    if (block) {
        instruction.operands[2] = {sources[2].base, 0, ONE_BLK_SIZE};
    }
    Core::Current().Issue();
}

// Strided forms exist in counter mode only, with everything contiguous but for a src1 of one DataBlock (strides 0).
inline void CheckBitwise(const char* name, bool isSetMask, const BinaryRepeatParams& params)
{
    const bool gapless = params.dstBlkStride == 1 && params.dstRepStride == DEFAULT_REPEAT_STRIDE &&
                         params.src0BlkStride == 1 && params.src0RepStride == DEFAULT_REPEAT_STRIDE;
    if (isSetMask || Core::Current().mask.mode != MaskMode::COUNTER || !gapless || params.src1BlkStride != 0 ||
        params.src1RepStride != 0) {
        Fail("%s: the host layer has it contiguous, or in counter mode with a src1 of one block", name);
    }
}

}  // namespace host

#define ASCENDC_HOST_BITWISE(NAME, OPCODE)                                                                   \
    template <typename T>                                                                                    \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,             \
              const int32_t& count HOST_WHERE)                                                               \
    {                                                                                                        \
        HOST_OBSERVED(host::ObserveVector(where, #NAME, host::First(count), dst, src0, src1));               \
        const host::Source sources[] = {host::SourceOf(dst), host::SourceOf(src0), host::SourceOf(src1)};    \
        host::IssueBitwise<T>(host::Opcode::OPCODE, sources, false, static_cast<uint32_t>(count));           \
    }                                                                                                        \
    template <typename T, bool isSetMask = true>                                                             \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,             \
              [[maybe_unused]] uint64_t mask, [[maybe_unused]] const uint8_t repeatTimes,                    \
              const BinaryRepeatParams& params HOST_WHERE)                                                   \
    {                                                                                                        \
        HOST_OBSERVED(host::ObserveVector(where, #NAME, host::Repeats(isSetMask, mask, repeatTimes),         \
                                          host::Strided(dst, params.dstBlkStride, params.dstRepStride),      \
                                          host::Strided(src0, params.src0BlkStride, params.src0RepStride),   \
                                          host::Strided(src1, params.src1BlkStride, params.src1RepStride))); \
        host::CheckBitwise(#NAME, isSetMask, params);                                                        \
        const host::Source sources[] = {host::SourceOf(dst), host::SourceOf(src0), host::SourceOf(src1)};    \
        host::IssueBitwise<T>(host::Opcode::OPCODE, sources, true, host::Core::Current().mask.count);        \
    }

ASCENDC_HOST_BITWISE(And, AND)
ASCENDC_HOST_BITWISE(Or, OR)
#undef ASCENDC_HOST_BITWISE

}  // namespace AscendC

#endif  // ASCENDC_HOST_API_BITWISE_H
