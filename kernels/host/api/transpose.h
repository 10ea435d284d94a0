/*!
 * Implements TransDataTo5HD, which transposes a matrix with 16 blocks of 32 bytes as its rows.
 */
#ifndef ASCENDC_HOST_API_TRANSPOSE_H
#define ASCENDC_HOST_API_TRANSPOSE_H

#include "api/tensor.h"
#include "observed/observe.h"

namespace AscendC {

constexpr int32_t NCHW_CONV_ADDR_LIST_SIZE = 16;

struct TransDataTo5HDParams {
    TransDataTo5HDParams() = default;
    TransDataTo5HDParams(bool dstHigh, bool srcHigh, uint8_t repeat, uint16_t dstRep, uint16_t srcRep)
        : dstHighHalf(dstHigh), srcHighHalf(srcHigh), repeatTimes(repeat), dstRepStride(dstRep), srcRepStride(srcRep)
    {}
    bool dstHighHalf = false;  // of 8-bit types only
    bool srcHighHalf = false;
    uint8_t repeatTimes = 1;
    uint16_t dstRepStride = 0;
    uint16_t srcRepStride = 0;
};

namespace host {

// Returns the blocks from an address of a list to the `every`-th behind it.
template <typename T>
uint32_t ListStep(const LocalTensor<T> (&list)[NCHW_CONV_ADDR_LIST_SIZE], int32_t every)
{
    const int64_t step = list[every].Address() - list[0].Address();
    for (int32_t i = every; i < NCHW_CONV_ADDR_LIST_SIZE; ++i) {
        if (list[i].Address() - list[i - every].Address() != step) {
            Fail("TransDataTo5HD: the host layer has lists of equally distant blocks, or pairs, number %d is not", i);
        }
    }
    if (step <= 0 || step % ONE_BLK_SIZE != 0 || step / ONE_BLK_SIZE > UINT16_MAX) {
        Fail("TransDataTo5HD: the blocks of a list are %ld bytes apart", static_cast<long>(step));
    }
    return static_cast<uint32_t>(step / ONE_BLK_SIZE);
}

}  // namespace host

// 16-bit elements: block i of dst takes element i of every block of src. 32-bit elements: blocks 2 i and 2 i + 1 do.
// With repeatTimes 1 the lists begin a repeat stride further on, as on the chip.
template <typename T>
void TransDataTo5HD(const LocalTensor<T> (&dstList)[NCHW_CONV_ADDR_LIST_SIZE],
                    const LocalTensor<T> (&srcList)[NCHW_CONV_ADDR_LIST_SIZE],
                    const TransDataTo5HDParams& nchwconvParams HOST_WHERE)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "TransDataTo5HD: 16- and 32-bit types only");
    constexpr uint32_t LANES = NCHW_CONV_ADDR_LIST_SIZE * ONE_BLK_SIZE / sizeof(T);
    constexpr uint32_t LAST = NCHW_CONV_ADDR_LIST_SIZE - 1;
    constexpr int32_t EVERY = sizeof(T) / 2;  // blocks of dst that take an element
    const uint32_t repeats = nchwconvParams.repeatTimes;
    const uint32_t dstStep = host::ListStep(dstList, EVERY);
    const uint32_t srcStep = host::ListStep(srcList, 1);
    const uint32_t dstLast = static_cast<uint32_t>((dstList[LAST].Address() - dstList[0].Address()) / ONE_BLK_SIZE);
    const int64_t dstStride = nchwconvParams.dstRepStride * int64_t{ONE_BLK_SIZE};
    const int64_t srcStride = nchwconvParams.srcRepStride * int64_t{ONE_BLK_SIZE};
    const uint32_t perBlock = ONE_BLK_SIZE / sizeof(T);
    const LocalTensor<T> dst = dstList[0][repeats == 1 ? nchwconvParams.dstRepStride * perBlock : 0];
    const LocalTensor<T> src = srcList[0][repeats == 1 ? nchwconvParams.srcRepStride * perBlock : 0];
    HOST_OBSERVED(host::ObserveVector(where, "TransDataTo5HD",
                                      host::Repeats(true, ONE_REPEAT_BYTE_SIZE / sizeof(T), repeats),
                                      host::PairsPerRepeat(dst, LANES, dstStride, nchwconvParams.dstRepStride, dstStep,
                                                           EVERY == 2 ? dstLast - dstStep * (LAST / 2) : dstStep),
                                      host::PerRepeat(src, LANES, srcStride, nchwconvParams.srcRepStride, srcStep)));
    if (repeats == 0) {
        return;
    }
    host::Instruction& instruction = host::Core::Current().Next();
    instruction.operation = host::OperationOn(host::BitsOf(sizeof(T)), host::Opcode::TRANSPOSE);
    instruction.iterations = repeats;
    instruction.lanes = LANES;
    instruction.operandCount = 2;
    instruction.option = dstStep << 16 | srcStep;
    instruction.operands[0] = {dst.Address(), dstStride, (dstLast + 1) * ONE_BLK_SIZE};
    instruction.operands[1] = {src.Address(), srcStride, (LAST * srcStep + 1) * ONE_BLK_SIZE};
    host::Core::Current().Issue();
}

}  // namespace AscendC

#endif  // ASCENDC_HOST_API_TRANSPOSE_H
