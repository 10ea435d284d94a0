/*!
 * Runs the stage of group_norm that applies the factors of channels to data: y = act((x - K) * A + B).
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_APPLY_H
#define MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_APPLY_H

#include "kernel_operator.h"
#include "primitives/group_norm_activation.h"
#include "primitives/group_norm_tiles.h"
#include "primitives/row_norm.h"

namespace ms_ascend_ops {

// Arrays in the workspace: of channel values, and of what stage 1 leaves. Channels first: K, the sum of c and the sum
// of c^2, a value for each piece of each group; K is with a group's first piece. Channels last: channel values; K, the
// mean of a few positions from all over the sample, then two arrays for each piece: its mean less K, and the sum of the
// squares from its mean.
struct GroupNormArrays {
    static constexpr uint32_t A = 0;
    static constexpr uint32_t B = 1;
    static constexpr uint32_t K = 2;
    static constexpr uint32_t GROUP_SUMS = 3;
    static constexpr uint32_t CHANNEL_SUMS = 3;
    static constexpr uint32_t SUMS = 3;
    static constexpr uint32_t PIECE_SUMS = 2;  // channels last
};

// Runs stage 3.
template <typename T, bool LAST>
class GroupNormApply {
public:
    // Makes buffers for tiles and blocks of at least so many elements.
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, const NormGroupsTilingData& tiling,
                                uint32_t tileElements, uint32_t stepElements, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
        const DataRows rows = ChannelRows(tiling);
        walk_.Init(tiling, rows);
        values_.Init(workspace, tiling.arrayStride, rows, 3, pipe);
        tileElements = Larger(tileElements, rows.TileElements());
        stepElements = Larger(stepElements, rows.StepElements());
        pipe.InitBuffer(inQueueX_, 2, tileElements * sizeof(T));
        pipe.InitBuffer(outQueueY_, 2, tileElements * sizeof(T));
        pipe.InitBuffer(workBuf_, 2 * stepElements * sizeof(float));
        work_ = workBuf_.template Get<float>();
        square_ = work_[stepElements];
        AscendC::Duplicate(work_, 0.0f, static_cast<int32_t>(2 * stepElements));  // the gaps between rows are read
    }

    // Stage 3 on items [begin, end).
    __aicore__ inline void Apply(uint64_t begin, uint64_t end)
    {
        walk_.Begin(begin, end);
        while (walk_.NextTask()) {
            values_.Load(GroupNormArrays::A, 3, walk_.state, walk_.channels);
            while (walk_.NextTile()) {
                AscendC::LocalTensor<T> xLocal = CopyIn(walk_.offset, walk_.shape);
                AscendC::LocalTensor<T> yLocal = outQueueY_.template AllocTensor<T>();
                for (uint32_t r = 0; r < walk_.shape.rows; r += tiling_.stepRows) {
                    const uint32_t at = r * tiling_.stride;
                    ApplyBlock(yLocal[at], xLocal[at], r, walk_.BlockOf(r));
                }
                inQueueX_.FreeTensor(xLocal);
                StoreQueued(outQueueY_, yGm_[walk_.offset], yLocal, walk_.shape);
            }
            values_.Free();
        }
    }

protected:
    __aicore__ inline AscendC::LocalTensor<T> CopyIn(uint64_t offset, const Rows& shape)
    {
        AscendC::LocalTensor<T> local = inQueueX_.template AllocTensor<T>();
        LoadRows(local, xGm_[offset], shape, shape.rows > 1);
        inQueueX_.EnQue(local);
        return inQueueX_.template DeQue<T>();
    }

    NormGroupsTilingData tiling_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::LocalTensor<float> work_;    // of one block
    AscendC::LocalTensor<float> square_;  // of one block

private:
    static __aicore__ inline uint32_t Larger(uint32_t a, uint32_t b) { return a < b ? b : a; }

    // y = act((x - K) * A + B).
    __aicore__ inline void ApplyBlock(const AscendC::LocalTensor<T>& y, const AscendC::LocalTensor<T>& x, uint32_t r,
                                      const RowBlock& block)
    {
        const uint32_t count = block.Elements();
        const AscendC::LocalTensor<float> xFloat = ToFloat(x, work_, count);
        if (tiling_.activation != 0) {
            Affine(work_, work_, xFloat, r, block);
            const AscendC::LocalTensor<float> result = FloatTarget(y, square_);
            ActivateNorm(tiling_.activation, result, work_, count);
            FromFloat(y, result, count);
            return;
        }
        const AscendC::LocalTensor<float> result = FloatTarget(y, work_);
        // Short rows leave nothing in work_, which a CPU would have to write; of long ones a result is written once.
        Affine(result, !LAST && block.rows > 1 ? result : work_, xFloat, r, block);
        FromFloat(y, result, count);
    }

    // dst = (src - K) * A + B, by way of `work`
    __aicore__ inline void Affine(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& work,
                                  const AscendC::LocalTensor<float>& src, uint32_t r, const RowBlock& block)
    {
        values_.template Apply<SubOf>(work, src, GroupNormArrays::K, r, block);
        values_.template Apply<MulOf>(work, work, GroupNormArrays::A, r, block);
        values_.template Apply<AddOf>(dst, work, GroupNormArrays::B, r, block);
    }

    ChannelWalk<LAST> walk_;
    ChannelValues<LAST> values_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_APPLY_H
