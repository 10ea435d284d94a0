/*!
 * Moves rows between global memory and the Unified Buffer, and between T and float.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_TILE_H
#define MS_ASCEND_OPS_PRIMITIVES_TILE_H

#include "kernel_operator.h"

namespace ms_ascend_ops {

template <typename T>
constexpr bool IS_FLOAT = AscendC::IsSameType<T, float>::value;

// Rows have `cols` elements, and are `gmStride` elements apart in global memory and `ubStride` in the Unified Buffer.
struct Rows {
    uint32_t rows;
    uint32_t cols;
    uint32_t ubStride;
    uint64_t gmStride;
};

// Returns the blocks of 32 bytes that lie in the Unified Buffer between a row's last block and the next row.
template <typename T>
__aicore__ inline uint32_t GapBlocks(const Rows& shape)
{
    if (shape.rows == 1) {
        return 0;
    }
    const uint32_t rowBlocks = (shape.cols * sizeof(T) + AscendC::ONE_BLK_SIZE - 1) / AscendC::ONE_BLK_SIZE;
    return static_cast<uint32_t>(shape.ubStride * sizeof(T) / AscendC::ONE_BLK_SIZE - rowBlocks);
}

// Returns the bytes that lie in global memory between a row's end and the next row. A single row has no next one: its
// stride may be larger than 32 bits hold.
template <typename T>
__aicore__ inline uint32_t GapBytes(const Rows& shape)
{
    return shape.rows == 1 ? 0 : static_cast<uint32_t>((shape.gmStride - shape.cols) * sizeof(T));
}

// With `fillGaps`, the elements between a row's end and the end of its last block become 0.
template <typename T>
__aicore__ inline void LoadRows(const AscendC::LocalTensor<T>& dst, const AscendC::GlobalTensor<T>& src,
                                const Rows& shape, bool fillGaps = false)
{
    const uint32_t perBlock = AscendC::ONE_BLK_SIZE / sizeof(T);
    const uint32_t ragged = shape.cols % perBlock;
    const bool pad = fillGaps && ragged != 0;
    AscendC::DataCopyPad(
        dst, src,
        {static_cast<uint16_t>(shape.rows), static_cast<uint32_t>(shape.cols * sizeof(T)), GapBytes<T>(shape),
         GapBlocks<T>(shape), 0},
        AscendC::DataCopyPadExtParams<T>{pad, 0, static_cast<uint8_t>(pad ? perBlock - ragged : 0), T{}});
}

template <typename T>
__aicore__ inline void StoreRows(const AscendC::GlobalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                 const Rows& shape)
{
    AscendC::DataCopyPad(dst, src,
                         {static_cast<uint16_t>(shape.rows), static_cast<uint32_t>(shape.cols * sizeof(T)),
                          GapBlocks<T>(shape), GapBytes<T>(shape), 0});
}

// Hands a tile that is computed to the copy engine, stores it and frees its buffer.
template <class QUEUE, typename T>
__aicore__ inline void StoreQueued(QUEUE& queue, const AscendC::GlobalTensor<T>& dst, AscendC::LocalTensor<T>& tile,
                                   const Rows& shape)
{
    queue.EnQue(tile);
    tile = queue.template DeQue<T>();
    StoreRows(dst, tile, shape);
    queue.FreeTensor(tile);
}

// Returns a float copy of src in `work`, or src itself if it is float already.
template <typename T>
__aicore__ inline AscendC::LocalTensor<float> ToFloat(const AscendC::LocalTensor<T>& src,
                                                      const AscendC::LocalTensor<float>& work, uint32_t count)
{
    if constexpr (IS_FLOAT<T>) {
        return src;
    } else {
        AscendC::Cast(work, src, AscendC::RoundMode::CAST_NONE, count);
        return work;
    }
}

// Float copies of a tile of T, in a buffer of their own; of a tile that is float already there are none.
template <typename T>
class FloatCopies {
public:
    __aicore__ inline void Init(uint32_t elements, AscendC::TPipe& pipe)
    {
        if constexpr (!IS_FLOAT<T>) {
            pipe.InitBuffer(buffer_, elements * sizeof(float));
            copies_ = buffer_.template Get<float>();
        }
    }

    // `count` elements of `tile` from element `at` on, in float.
    __aicore__ inline AscendC::LocalTensor<float> Take(const AscendC::LocalTensor<T>& tile, uint32_t at,
                                                       uint32_t count) const
    {
        const AscendC::LocalTensor<float> taken = Taken(tile, at);
        return ToFloat(tile[at], taken, count);
    }

    // Returns what Take() gives for this place.
    __aicore__ inline AscendC::LocalTensor<float> Taken(const AscendC::LocalTensor<T>& tile, uint32_t at) const
    {
        if constexpr (IS_FLOAT<T>) {
            return tile[at];
        } else {
            return copies_[at];
        }
    }

private:
    AscendC::TBuf<AscendC::TPosition::VECCALC> buffer_;
    AscendC::LocalTensor<float> copies_;
};

// Returns where float values for dst are calculated: dst itself if it is float, else `work`; FromFloat then finishes
// it.
template <typename T>
__aicore__ inline AscendC::LocalTensor<float> FloatTarget(const AscendC::LocalTensor<T>& dst,
                                                          const AscendC::LocalTensor<float>& work)
{
    if constexpr (IS_FLOAT<T>) {
        return dst;
    } else {
        return work;
    }
}

// `count` tensors behind the first `used` elements of `work`. None is not one that begins at the end of `work`: CANN's
// CPU debug run ends there.
__aicore__ inline AscendC::LocalTensor<float> ScratchBehind(const AscendC::LocalTensor<float>& work, uint32_t used,
                                                            uint32_t count)
{
    return count == 0 ? work : work[used];
}

// Sets dst to src, rounded to nearest even. For float the values must have been calculated in dst already.
template <typename T>
__aicore__ inline void FromFloat(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<float>& src,
                                 uint32_t count)
{
    if constexpr (!IS_FLOAT<T>) {
        AscendC::Cast(dst, src, AscendC::RoundMode::CAST_RINT, count);
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_TILE_H
