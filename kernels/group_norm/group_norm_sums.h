/*!
 * Runs the stages of group_norm that touch data: stage 1 sums groups or channels, stage 3 makes y of x.
 */
#ifndef MS_ASCEND_OPS_GROUP_NORM_SUMS_H
#define MS_ASCEND_OPS_GROUP_NORM_SUMS_H

#include "group_norm_tiling.h"
#include "kernel_operator.h"
#include "primitives/group_norm_apply.h"
#include "primitives/group_norm_tiles.h"

namespace ms_ascend_ops {

// Runs stages 1 and 3.
template <typename T, bool LAST>
class GroupNormData : public GroupNormApply<T, LAST> {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, const GroupNormTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        sumRows_ = SumRows(tiling);
        GroupNormApply<T, LAST>::Init(x, y, workspace, tiling, sumRows_.TileElements(), sumRows_.StepElements(), pipe);
        sumWalk_.Init(tiling, sumRows_);
        shift_.InitSet(sumRows_, 1, pipe);
        sums_.Init(workspace, tiling.arrayStride, sumRows_, GroupNormArrays::SUMS, pipe);
        if (!LAST && sumRows_.pieces > 1) {
            pipe.InitBuffer(inQueueProbe_, 1, tiling.probe * sizeof(T));
        }
        if constexpr (LAST) {
            pipe.InitBuffer(pieceBuf_, 2 * sumRows_.stride * sizeof(float));
            pieceShift_ = pieceBuf_.template Get<float>();
            pieceMean_ = pieceShift_[sumRows_.stride];
        }
    }

    // Stage 1 on items [begin, end) of those that sums are taken of.
    __aicore__ inline void Sum(uint64_t begin, uint64_t end)
    {
        uint64_t probed = ~0ull;  // the group that K is of
        sumWalk_.Begin(begin, end);
        while (sumWalk_.NextTask()) {
            sums_.Begin();
            if (LAST || (sumRows_.pieces > 1 && sumWalk_.state != probed)) {
                LoadProbe();
                probed = sumWalk_.state;
            }
            bool first = true;
            while (sumWalk_.NextTile()) {
                AscendC::LocalTensor<T> xLocal = this->CopyIn(sumWalk_.offset, sumWalk_.shape);
                if (LAST && first) {
                    SetPieceShift(xLocal);
                    first = false;
                }
                if (!LAST && sumRows_.pieces == 1) {
                    for (uint32_t r = 0; r < sumWalk_.shape.rows; r += sumRows_.stepRows) {
                        ProbeRows(xLocal[r * sumRows_.stride], r, sumWalk_.BlockOf(r));
                    }
                    SetShift();
                }
                for (uint32_t r = 0; r < sumWalk_.shape.rows; r += sumRows_.stepRows) {
                    const RowBlock block = sumWalk_.BlockOf(r);
                    const AscendC::LocalTensor<float> xFloat =
                        ToFloat(xLocal[r * sumRows_.stride], this->work_, block.Elements());
                    shift_.template Apply<SubOf>(this->work_, xFloat, 0, r, block);
                    AscendC::Mul(this->square_, this->work_, this->work_, static_cast<int32_t>(block.Elements()));
                    sums_.Add(1, this->work_, r, block);
                    sums_.Add(2, this->square_, r, block);
                }
                this->inQueueX_.FreeTensor(xLocal);
            }
            if constexpr (LAST) {
                FinishPiece();
                sums_.Ready();
                if (sumWalk_.piece == 0) {
                    sums_.Store(0, 1, GroupNormArrays::K, sumWalk_.state, sumWalk_.channels);
                }
                sums_.Store(1, GroupNormArrays::PIECE_SUMS,
                            GroupNormArrays::CHANNEL_SUMS + sumWalk_.piece * GroupNormArrays::PIECE_SUMS,
                            sumWalk_.state, sumWalk_.channels);
                sums_.Free();
            } else {
                sums_.End(1, GroupNormArrays::GROUP_SUMS, sumWalk_.state * sumRows_.pieces + sumWalk_.piece,
                          sumWalk_.channels);
            }
        }
    }

private:
    // Loads K of a task whose tiles do not begin with the first elements. The first elements of a group of several
    // tiles may be unlike most: there it is the mean of elements from all over the group, at places where channels
    // hardly begin.
    __aicore__ inline void LoadProbe()
    {
        if constexpr (LAST) {
            const uint64_t apart = this->tiling_.size / this->tiling_.probe;
            const RowBlock block{this->tiling_.probe, sumWalk_.channels, sumRows_.stride};
            const Rows shape{block.rows, block.cols, block.stride, apart * this->tiling_.channels};
            AscendC::LocalTensor<T> xLocal = this->CopyIn(sumWalk_.probe + apart / 2 * this->tiling_.channels, shape);
            SumColumns(sums_.Of(0), ToFloat(xLocal, this->work_, block.Elements()), block);
            this->inQueueX_.FreeTensor(xLocal);
        } else {
            const uint32_t places = this->tiling_.probe / FLOAT_LANES;
            const uint64_t apart = 2 * sumRows_.size / (2 * places + 1);
            AscendC::LocalTensor<T> xLocal = inQueueProbe_.template AllocTensor<T>();
            LoadRows(xLocal, this->xGm_[sumWalk_.probe + apart / 2], {places, FLOAT_LANES, FLOAT_LANES, apart});
            inQueueProbe_.EnQue(xLocal);
            xLocal = inQueueProbe_.template DeQue<T>();
            ProbeRows(xLocal, 0, {1, this->tiling_.probe, this->tiling_.probe});
            inQueueProbe_.FreeTensor(xLocal);
        }
        SetShift();
    }

    // Sums the first elements of each row of a block.
    __aicore__ inline void ProbeRows(const AscendC::LocalTensor<T>& x, uint32_t r, const RowBlock& block)
    {
        const RowBlock probe{block.rows, this->tiling_.probe, block.stride};
        const AscendC::LocalTensor<float> xFloat = ToFloat(x, this->work_, probe.Elements());
        if (probe.cols > FLOAT_LANES) {
            sums_.Add(0, xFloat, r, probe);
        } else {
            ReduceRepeats<AddOf>(sums_.Of(0)[r], xFloat, probe.cols, probe.rows, probe.stride);
        }
    }

    __aicore__ inline void SetShift()
    {
        if (!LAST && this->tiling_.probe > FLOAT_LANES) {
            sums_.Finish(0, sumWalk_.channels);
        }
        AscendC::Muls(sums_.Of(0), sums_.Of(0), this->tiling_.inverseProbe, static_cast<int32_t>(sumWalk_.channels));
        if constexpr (!LAST) {
            shift_.Set(sums_.Of(0), sumWalk_.channels);
        }
    }

    // Channels last: the mean of the first rows of a piece, which its sums are shifted by. They are here already.
    __aicore__ inline void SetPieceShift(const AscendC::LocalTensor<T>& x)
    {
        const uint32_t rows = sumWalk_.shape.rows < this->tiling_.probe ? sumWalk_.shape.rows : this->tiling_.probe;
        const RowBlock block{rows, sumWalk_.channels, sumRows_.stride};
        const int32_t channels = static_cast<int32_t>(sumWalk_.channels);
        AscendC::Duplicate(pieceShift_, 0.0f, channels);
        SumColumns(pieceShift_, ToFloat(x, this->work_, block.Elements()), block);
        AscendC::Muls(pieceShift_, pieceShift_, 1.0f / static_cast<float>(rows), channels);
        shift_.Set(pieceShift_, sumWalk_.channels);
    }

    // The piece's mean less K takes the place of the sum of c, and s2 - s1^2 / n that of the sum of c^2.
    __aicore__ inline void FinishPiece()
    {
        const int32_t channels = static_cast<int32_t>(sumWalk_.channels);
        const AscendC::LocalTensor<float> sum = sums_.Of(1);
        const AscendC::LocalTensor<float> square = sums_.Of(2);
        AscendC::Muls(pieceMean_, sum, 1.0f / static_cast<float>(PieceRows(this->tiling_, sumWalk_.piece)), channels);
        AscendC::Mul(sum, sum, pieceMean_, channels);
        AscendC::Sub(square, square, sum, channels);
        AscendC::Sub(sum, pieceShift_, sums_.Of(0), channels);
        AscendC::Add(sum, sum, pieceMean_, channels);
    }

    DataRows sumRows_;
    ChannelWalk<LAST> sumWalk_;
    ChannelValues<LAST> shift_;  // K
    ChannelSums<LAST> sums_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueProbe_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> pieceBuf_;
    AscendC::LocalTensor<float> pieceShift_;  // channels last
    AscendC::LocalTensor<float> pieceMean_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GROUP_NORM_SUMS_H
