/*!
 * Transposes rows of a tile, so that reductions of rows go down columns: they take whole repeats, however short the
 * rows are.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_COLUMNS_H
#define MS_ASCEND_OPS_PRIMITIVES_COLUMNS_H

#include "kernel_operator.h"

namespace ms_ascend_ops {

constexpr uint32_t TRANSPOSED_ROWS = 16;  // rows that an instruction takes at a time; or a multiple of them

// The instruction moves bits, and does not know all types.
template <uint32_t BYTES>
struct TransposedBits {
    using Type = float;
};
template <>
struct TransposedBits<sizeof(half)> {
    using Type = half;
};

// dst[column * height + row] = src[row * stride + column], for `rows` rows and all columns up to `cols`, with those in
// the same block: multiples of 16 rows, at most 255 of those, and a stride of whole blocks.
template <typename T>
__aicore__ inline void TransposeRows(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                     uint32_t rows, uint32_t cols, uint32_t stride, uint32_t height)
{
    using Bits = typename TransposedBits<sizeof(T)>::Type;
    constexpr uint32_t perBlock = AscendC::ONE_BLK_SIZE / sizeof(T);
    constexpr uint32_t perColumn = TRANSPOSED_ROWS / perBlock;  // blocks of dst
    const uint32_t times = rows / TRANSPOSED_ROWS;
    // A single repeat would begin a stride further on.
    const uint16_t dstStride = times == 1 ? 0 : perColumn;
    const uint16_t srcStride = times == 1 ? 0 : static_cast<uint16_t>(TRANSPOSED_ROWS * stride / perBlock);
    for (uint32_t column = 0; column < cols; column += perBlock) {
        AscendC::LocalTensor<Bits> dstList[AscendC::NCHW_CONV_ADDR_LIST_SIZE];
        AscendC::LocalTensor<Bits> srcList[AscendC::NCHW_CONV_ADDR_LIST_SIZE];
        for (uint32_t i = 0; i < TRANSPOSED_ROWS; ++i) {
            dstList[i] =
                dst[(column + i / perColumn) * height + i % perColumn * perBlock].template ReinterpretCast<Bits>();
            srcList[i] = src[i * stride + column].template ReinterpretCast<Bits>();
        }
        AscendC::TransDataTo5HD(dstList, srcList, {false, false, static_cast<uint8_t>(times), dstStride, srcStride});
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_COLUMNS_H
