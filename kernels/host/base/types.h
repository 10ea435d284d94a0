/*!
 * Declares scalar types, qualifiers and enumerations of the Ascend C subset, with the same names and values as CANN's.
 */
#ifndef ASCENDC_HOST_BASE_TYPES_H
#define ASCENDC_HOST_BASE_TYPES_H

#include <cstdint>
#include <cstring>
#include <type_traits>

#define __aicore__
#define __gm__
#define __global__
#define __ubuf__
#define GM_ADDR uint8_t*

// These are IEEE binary16 and bfloat16. As on A2, C++ code never calculates with them: vector instructions do, and Cast
// converts.
struct half {
    uint16_t bits;
};
struct bfloat16_t {
    uint16_t bits;
};

// The type is global, as the compiler of the chip has it.
enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL };

namespace AscendC {

// A byte holds two of these, the first in its lower half. A tensor of bytes is reinterpreted as this type, which has no
// elements of its own.
struct int4b_t {
    uint8_t bits;
};

constexpr uint32_t ONE_BLK_SIZE = 32;           // bytes of a DataBlock
constexpr uint32_t ONE_REPEAT_BYTE_SIZE = 256;  // bytes a vector instruction handles in one repeat
constexpr uint64_t MASK_PLACEHOLDER = 0;        // for calls that leave the mask register as it is
constexpr uint8_t DEFAULT_BLK_STRIDE = 1;
constexpr uint8_t DEFAULT_REPEAT_STRIDE = 8;

enum class TPosition : uint8_t { GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, LCM = VECCALC };
using QuePosition = TPosition;

enum class RoundMode : uint8_t { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };
enum class MaskMode : uint8_t { NORMAL, COUNTER };
enum class HardEvent : uint8_t {
    MTE2_V,
    V_MTE2,
    V_MTE3,
    MTE3_V,
    MTE2_MTE3,
    MTE3_MTE2,
    V_S,
    S_V,
    MTE2_S,
    S_MTE2,
    MTE3_S,
    S_MTE3
};

// WholeReduceMax has these results, of which the host layer has ORDER_ONLY_VALUE.
enum class ReduceOrder : uint8_t { ORDER_VALUE_INDEX, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };

using TEventID = int8_t;

struct DataCopyParams {
    uint16_t blockCount = 1;
    uint16_t blockLen = 0;
    uint16_t srcStride = 0;
    uint16_t dstStride = 0;
};

struct DataCopyExtParams {
    DataCopyExtParams() = default;
    DataCopyExtParams(uint16_t count, uint32_t len, uint32_t srcStrideIn, uint32_t dstStrideIn, uint32_t rsvIn)
        : blockCount(count), blockLen(len), srcStride(srcStrideIn), dstStride(dstStrideIn), rsv(rsvIn)
    {}
    uint16_t blockCount = 1;
    uint32_t blockLen = 0;
    uint32_t srcStride = 0;
    uint32_t dstStride = 0;
    uint32_t rsv = 0;
};

template <typename T>
struct DataCopyPadExtParams {
    DataCopyPadExtParams() = default;
    DataCopyPadExtParams(bool isPadValue, uint8_t leftPadValue, uint8_t rightPadValue, T padValue)
        : isPad(isPadValue), leftPadding(leftPadValue), rightPadding(rightPadValue), paddingValue(padValue)
    {}
    bool isPad = false;
    uint8_t leftPadding = 0;
    uint8_t rightPadding = 0;
    T paddingValue{};
};

struct UnaryRepeatParams {
    UnaryRepeatParams() = default;
    UnaryRepeatParams(uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep)
        : dstBlkStride(dstBlk), srcBlkStride(srcBlk), dstRepStride(dstRep), srcRepStride(srcRep)
    {}
    uint16_t dstBlkStride = DEFAULT_BLK_STRIDE;
    uint16_t srcBlkStride = DEFAULT_BLK_STRIDE;
    uint8_t dstRepStride = DEFAULT_REPEAT_STRIDE;
    uint8_t srcRepStride = DEFAULT_REPEAT_STRIDE;
};

struct BinaryRepeatParams {
    BinaryRepeatParams() = default;
    BinaryRepeatParams(uint8_t dstBlk, uint8_t src0Blk, uint8_t src1Blk, uint8_t dstRep, uint8_t src0Rep,
                       uint8_t src1Rep)
        : dstBlkStride(dstBlk),
          src0BlkStride(src0Blk),
          src1BlkStride(src1Blk),
          dstRepStride(dstRep),
          src0RepStride(src0Rep),
          src1RepStride(src1Rep)
    {}
    uint8_t dstBlkStride = DEFAULT_BLK_STRIDE;
    uint8_t src0BlkStride = DEFAULT_BLK_STRIDE;
    uint8_t src1BlkStride = DEFAULT_BLK_STRIDE;
    uint8_t dstRepStride = DEFAULT_REPEAT_STRIDE;
    uint8_t src0RepStride = DEFAULT_REPEAT_STRIDE;
    uint8_t src1RepStride = DEFAULT_REPEAT_STRIDE;
};

struct BrcbRepeatParams {
    BrcbRepeatParams() = default;
    BrcbRepeatParams(uint16_t dstBlk, uint16_t dstRep) : dstRepStride(dstRep), dstBlkStride(dstBlk) {}
    uint16_t dstRepStride = DEFAULT_REPEAT_STRIDE;
    uint16_t dstBlkStride = DEFAULT_BLK_STRIDE;
};

struct GatherMaskParams {
    GatherMaskParams() = default;
    GatherMaskParams(uint8_t blockStride, uint16_t repeat, uint16_t repeatStride, uint8_t patternStride)
        : src0BlockStride(blockStride),
          repeatTimes(repeat),
          src0RepeatStride(repeatStride),
          src1RepeatStride(patternStride)
    {}
    uint8_t src0BlockStride = DEFAULT_BLK_STRIDE;
    uint16_t repeatTimes = 0;
    uint16_t src0RepeatStride = DEFAULT_REPEAT_STRIDE;
    uint8_t src1RepeatStride = DEFAULT_REPEAT_STRIDE;
};

template <typename T, typename U>
struct IsSameType : std::is_same<T, U> {};

}  // namespace AscendC

#endif  // ASCENDC_HOST_BASE_TYPES_H
