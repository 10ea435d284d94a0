/*!
 * Implements the instructions that fill tensors, or move elements inside the Unified Buffer.
 */
#ifndef ASCENDC_HOST_API_REARRANGE_H
#define ASCENDC_HOST_API_REARRANGE_H

#include "api/tensor.h"
#include "api/vector.h"
#include "observed/observe.h"

namespace AscendC {

template <typename T>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count HOST_WHERE)
{
    HOST_OBSERVED(host::ObserveVector(where, "Duplicate", host::First(count, host::ScalarValue(scalarValue)), dst));
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Duplicate: 16- and 32-bit types only");
    uint32_t bits = 0;
    memcpy(&bits, &scalarValue, sizeof(T));
    const host::Source sources[] = {host::SourceOf(dst)};
    host::IssueContiguous(host::OperationOn(host::BitsOf(sizeof(T)), host::Opcode::FILL), sources, 1, count, 0.0f,
                          bits);
}

// Each of 8 elements a repeat fills one block of dst.
template <typename T>
void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t repeatTimes,
          const BrcbRepeatParams& params HOST_WHERE)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Brcb: 16- and 32-bit types only");
    constexpr uint32_t BLOCKS = 8;
    HOST_OBSERVED(host::ObserveVector(
        where, "Brcb", host::Repeats(true, BLOCKS * ONE_BLK_SIZE / sizeof(T), repeatTimes),
        host::PerRepeat(dst, BLOCKS * ONE_BLK_SIZE / sizeof(T), params.dstRepStride * int64_t{ONE_BLK_SIZE},
                        params.dstRepStride, params.dstBlkStride),
        host::PerRepeat(src, BLOCKS, BLOCKS * sizeof(T), 0)));
    const bool even = params.dstRepStride == BLOCKS * params.dstBlkStride;
    for (uint32_t repeat = 0; repeat < (even ? 1u : repeatTimes); ++repeat) {
        host::Instruction& instruction = host::Core::Current().Next();
        instruction.operation = host::OperationOn(host::BitsOf(sizeof(T)), host::Opcode::BROADCAST_BLOCK);
        instruction.iterations = even ? BLOCKS * repeatTimes : BLOCKS;
        instruction.lanes = ONE_BLK_SIZE / sizeof(T);
        instruction.operandCount = 2;
        instruction.operands[0] = {dst.Address() + repeat * params.dstRepStride * ONE_BLK_SIZE,
                                   params.dstBlkStride * int64_t{ONE_BLK_SIZE}, ONE_BLK_SIZE};
        instruction.operands[1] = {src.Address() + repeat * BLOCKS * sizeof(T), sizeof(T), sizeof(T)};
        if (instruction.iterations > 0) {
            host::Core::Current().Issue();
        }
    }
}

// Keeps the elements a fixed pattern names: 1 the even, 2 the odd ones. In reduce mode `mask` elements are read.
template <typename T>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t src1Pattern, const bool reduceMode,
                const uint32_t mask, const GatherMaskParams& params, uint64_t& rsvdCnt HOST_WHERE)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "GatherMask: 16- and 32-bit types only");
    const bool gapless = params.repeatTimes == 1 || params.src0RepeatStride == DEFAULT_REPEAT_STRIDE;
    if ((src1Pattern != 1 && src1Pattern != 2) || !gapless || params.src0BlockStride != 1) {
        host::Fail("GatherMask: the host layer has patterns 1 and 2 on contiguous data, got pattern %u", src1Pattern);
    }
    const uint32_t read = reduceMode ? mask : params.repeatTimes * host::RepeatLanes<T>();
    const uint32_t skipped = src1Pattern - 1u;
    const uint32_t kept = (read + 1 - skipped) / 2;
    HOST_OBSERVED(
        host::ObserveVector(where, "GatherMask", host::First(read, 0, src1Pattern), host::Elements(dst, kept), src0));
    rsvdCnt = kept;
    if (kept == 0) {
        return;
    }
    host::Instruction& instruction = host::Core::Current().Next();
    instruction.operation = host::OperationOn(host::BitsOf(sizeof(T)), host::Opcode::GATHER_PATTERN);
    instruction.iterations = kept;
    instruction.operandCount = 2;
    instruction.option = skipped;
    instruction.operands[0] = {dst.Address(), sizeof(T), sizeof(T)};
    // The last element read lies within the data although an iteration spans a pair.
    instruction.operands[1] = {src0.Address(), 2 * sizeof(T), static_cast<uint32_t>((1 + skipped) * sizeof(T))};
    host::Core::Current().Issue();
}

// Sets dst[i] to the element srcBaseAddr + srcOffset[i] bytes into src.
template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
            const uint32_t srcBaseAddr, const uint32_t count HOST_WHERE)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Gather: 16- and 32-bit types only");
    HOST_OBSERVED(
        host::ObserveVector(where, "Gather", host::First(count, srcBaseAddr), dst, host::Elements(src, 0), srcOffset));
    if (count == 0) {
        return;
    }
    host::Instruction& instruction = host::Core::Current().Next();
    instruction.operation = host::OperationOn(host::BitsOf(sizeof(T)), host::Opcode::GATHER);
    instruction.iterations = count;
    instruction.operandCount = 3;
    instruction.option = srcBaseAddr;
    instruction.operands[0] = {dst.Address(), sizeof(T), sizeof(T)};
    instruction.operands[1] = {src.Address(), 0, src.GetSize() * static_cast<uint32_t>(sizeof(T))};
    instruction.operands[2] = {srcOffset.Address(), sizeof(uint32_t), sizeof(uint32_t)};
    host::Core::Current().Issue();
}

}  // namespace AscendC

#endif  // ASCENDC_HOST_API_REARRANGE_H
