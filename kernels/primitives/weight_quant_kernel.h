/*!
 * Computes y = activation(x w^T + bias) of weights in 8 or 4 bits, w = (weight + offset) * scale by groups of a row; or
 * the activation of one such product times another.
 *
 * Plan: tiles of the weight, each as wide as the weight, go to cores round-robin. The vector unit unpacks one into the
 * workspace, in the dtype of x, while the cube multiplies all of x with the one before; there are two for each core.
 * With an activation, products are floats in the workspace, some rows of x at a time, of which the vector unit makes
 * the output while the cube multiplies the next; of a gated pair a tile has some rows of both weights. Where x has few
 * rows, the vector unit multiplies with the numbers as they are (weight_quant_rows.h). With quantize_x, many are
 * rounded first, into the workspace. Bound: of a few rows memory, the packed weight once; of many the cube.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_WEIGHT_QUANT_KERNEL_H
#define MS_ASCEND_OPS_PRIMITIVES_WEIGHT_QUANT_KERNEL_H

#include "kernel_operator.h"
#include "primitives/activations.h"
#include "primitives/group_rounding.h"
#include "primitives/ones.h"
#include "primitives/product_tiles.h"
#include "primitives/products.h"
#include "primitives/rows.h"
#include "primitives/tile.h"
#include "primitives/weight_quant_rows.h"
#include "primitives/weight_quant_tiling.h"

namespace ms_ascend_ops {

// Scales or offsets of some rows: as they come, as float, and each over a block, as MultiplyRows takes them.
template <typename S>
class RowFactors {
public:
    __aicore__ inline void Init(GM_ADDR values, uint32_t rows, AscendC::TPipe& pipe)
    {
        const uint32_t rows8 = (rows + FLOATS_PER_BLOCK - 1) / FLOATS_PER_BLOCK * FLOATS_PER_BLOCK;
        valuesGm_.SetGlobalBuffer(reinterpret_cast<__gm__ S*>(values));
        pipe.InitBuffer(queue_, 2, rows8 * sizeof(S));
        pipe.InitBuffer(floatBuf_, rows8 * sizeof(float));
        pipe.InitBuffer(blockBuf_, rows8 * AscendC::ONE_BLK_SIZE);
        floats_ = floatBuf_.template Get<float>();
        blocks = blockBuf_.template Get<float>();
        AscendC::Duplicate(floats_, 0.0f, static_cast<int32_t>(rows8));  // BroadcastRows reads whole blocks
    }

    __aicore__ inline void Load(uint64_t first, uint32_t count)
    {
        AscendC::LocalTensor<S> values = queue_.template AllocTensor<S>();
        LoadRows(values, valuesGm_[first], {1, count, count, count});
        queue_.EnQue(values);
        values = queue_.template DeQue<S>();
        if constexpr (IS_FLOAT<S>) {
            AscendC::Muls(floats_, values, 1.0f, static_cast<int32_t>(count));  // a copy
        } else {
            AscendC::Cast(floats_, values, AscendC::RoundMode::CAST_NONE, count);
        }
        queue_.FreeTensor(values);
        BroadcastRows(blocks, floats_, count);
    }

    AscendC::LocalTensor<float> blocks;

private:
    AscendC::GlobalTensor<S> valuesGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> queue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> blockBuf_;
    AscendC::LocalTensor<float> floats_;
};

// RESULT is the type of products: float if the vector unit finishes them.
template <typename T, typename S, typename RESULT>
class WeightQuantTiles {
public:
    using Result = GmMatrix<RESULT>;
    using Operand = GmMatrix<T>;
    using Transposed = GmMatrix<T, true>;
    using Bias = GmMatrix<float>;
    MatmulObject<Operand, Transposed, Result, Bias> product;

    __aicore__ inline void Init(GM_ADDR x, GM_ADDR weight, GM_ADDR scale, GM_ADDR offset, GM_ADDR bias, GM_ADDR y,
                                GM_ADDR workspace, const WeightQuantTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
        weightGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int8_t*>(weight));
        biasGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(bias));
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
        CoreWorkspace own(workspace, tiling.workspacePerCore);
        const uint64_t tile = static_cast<uint64_t>(tiling.parts * tiling.tileRows) * tiling.k;
        own.Take(tileGm_[0], tile);
        own.TakeBytes(tileGm_[1], tile, tiling.tileBytes - tile * sizeof(T));
        const uint32_t elements = tiling.blockRows * tiling.blockStride;
        pipe.InitBuffer(weightQueue_, 2, elements / tiling.perByte);
        pipe.InitBuffer(outQueue_, 2, elements * sizeof(T));
        pipe.InitBuffer(halfBuf_, elements * sizeof(half));
        pipe.InitBuffer(floatBuf_, elements * sizeof(float));
        half_ = halfBuf_.template Get<half>();
        float_ = floatBuf_.template Get<float>();
        scale_.Init(scale, tiling.blockRows, pipe);
        if (tiling.hasOffset != 0) {
            offset_.Init(offset, tiling.blockRows, pipe);
        }
        if (tiling.finished != 0) {
            InitFinish(own, pipe);
        }
    }

    __aicore__ inline void Process()
    {
        const uint64_t core = AscendC::GetBlockIdx();  // groups of cores may be one more than there is work for
        uint64_t task = core < tiling_.cores ? core : tiling_.tasks;
        uint32_t buffer = 0;
        if (task < tiling_.tasks) {
            Unpack(task, buffer);
        }
        for (; task < tiling_.tasks; task += tiling_.cores) {
            if (tiling_.finished != 0) {
                Start(task, buffer, 0, 0);
            } else {
                Multiply(task, buffer);
            }
            if (task + tiling_.cores < tiling_.tasks) {
                Unpack(task + tiling_.cores, 1 - buffer);
            }
            if (tiling_.finished != 0) {
                FinishTask(task, buffer);
            } else {
                product.WaitIterateAll();
            }
            buffer = 1 - buffer;
        }
        product.End();
    }

private:
    __aicore__ inline uint32_t RowsOf(uint64_t task) const
    {
        const uint64_t left = tiling_.n - task * tiling_.tileRows;
        return left < tiling_.tileRows ? static_cast<uint32_t>(left) : tiling_.tileRows;
    }

    __aicore__ inline void Multiply(uint64_t task, uint32_t buffer)
    {
        const uint32_t rows = RowsOf(task);
        product.SetOrgShape(static_cast<int>(tiling_.m), static_cast<int>(rows), static_cast<int>(tiling_.k),
                            static_cast<int>(tiling_.k), static_cast<int>(tiling_.n));
        product.SetSingleShape(static_cast<int>(tiling_.m), static_cast<int>(rows), static_cast<int>(tiling_.k));
        product.SetTensorA(xGm_);
        product.SetTensorB(tileGm_[buffer], true);
        if (tiling_.hasBias != 0) {
            product.SetBias(biasGm_[task * tiling_.tileRows]);
        }
        if constexpr (AscendC::IsSameType<RESULT, T>::value) {
            product.template IterateAll<false>(yGm_[task * tiling_.tileRows], 0, false, true);
        }
    }

    // ---- products that the vector unit finishes

    __aicore__ inline void InitFinish(CoreWorkspace& own, AscendC::TPipe& pipe)
    {
        const uint64_t elements = static_cast<uint64_t>(tiling_.stretchRows) * tiling_.parts * tiling_.tileRows;
        own.Take(resultGm_[0], elements);
        own.Take(resultGm_[1], elements);
        const uint32_t stride = ProductStride(tiling_.tileRows);
        chunkElements_ = tiling_.chunkRows * stride;
        // There is one queue for the products of all parts and for the bias: TPosition VECIN has 8 buffers, and weight,
        // scale and offset take 6.
        pipe.InitBuffer(productQueue_, 2, tiling_.parts * chunkElements_ * sizeof(float));
        pipe.InitBuffer(finishedQueue_, 2, chunkElements_ * sizeof(T));
        pipe.InitBuffer(workBuf_, (1 + tiling_.scratch) * chunkElements_ * sizeof(float));
        work_ = workBuf_.template Get<float>();
        ones_ = BlockOfOnes(onesBuf_, pipe);
        if (tiling_.hasBias != 0) {
            pipe.InitBuffer(biasBuf_, tiling_.parts * stride * sizeof(float));
            bias_ = biasBuf_.template Get<float>();
        }
    }

    __aicore__ inline uint32_t StretchOf(uint32_t row) const
    {
        const uint32_t left = tiling_.m - row;
        return left < tiling_.stretchRows ? left : tiling_.stretchRows;
    }

    // Starts the product of some rows of x, from `row` on, with a tile.
    __aicore__ inline void Start(uint64_t task, uint32_t buffer, uint32_t row, uint32_t result)
    {
        const uint32_t cols = tiling_.parts * RowsOf(task);
        const uint32_t rows = StretchOf(row);
        product.SetOrgShape(static_cast<int>(rows), static_cast<int>(cols), static_cast<int>(tiling_.k),
                            static_cast<int>(tiling_.k), static_cast<int>(tiling_.parts * tiling_.tileRows));
        product.SetSingleShape(static_cast<int>(rows), static_cast<int>(cols), static_cast<int>(tiling_.k));
        product.SetTensorA(xGm_[static_cast<uint64_t>(row) * tiling_.k]);
        product.SetTensorB(tileGm_[buffer], true);
        if constexpr (IS_FLOAT<RESULT>) {
            product.template IterateAll<false>(resultGm_[result], 0, false, true);
        }
    }

    __aicore__ inline void FinishTask(uint64_t task, uint32_t buffer)
    {
        if (tiling_.hasBias != 0) {
            TakeBias(task);
        }
        uint32_t result = 0;
        for (uint32_t row = 0; row < tiling_.m; row += tiling_.stretchRows) {
            product.WaitIterateAll();
            if (row + tiling_.stretchRows < tiling_.m) {
                Start(task, buffer, row + tiling_.stretchRows, 1 - result);
            }
            const uint32_t rows = StretchOf(row);
            for (uint32_t chunk = 0; chunk < rows; chunk += tiling_.chunkRows) {
                const uint32_t left = rows - chunk;
                FinishChunk(task, row, result, chunk, left < tiling_.chunkRows ? left : tiling_.chunkRows);
            }
            result = 1 - result;
        }
    }

    __aicore__ inline void TakeBias(uint64_t task)
    {
        const uint32_t cols = RowsOf(task);
        const Rows shape{tiling_.parts, cols, ProductStride(tiling_.tileRows), tiling_.n};
        AscendC::LocalTensor<float> bias = productQueue_.template AllocTensor<float>();
        LoadRows(bias, biasGm_[task * tiling_.tileRows], shape, true);
        productQueue_.EnQue(bias);
        bias = productQueue_.template DeQue<float>();
        for (uint32_t part = 0; part < tiling_.parts; ++part) {
            const uint32_t at = part * shape.ubStride;
            AscendC::Muls(bias_[at], bias[at], 1.0f, static_cast<int32_t>(cols));  // a copy
        }
        productQueue_.FreeTensor(bias);
    }

    // Finishes `rows` rows of a result, from `chunk` on, which belong to the rows of x from `row` on.
    __aicore__ inline void FinishChunk(uint64_t task, uint32_t row, uint32_t result, uint32_t chunk, uint32_t rows)
    {
        const uint32_t cols = RowsOf(task);
        const uint32_t width = tiling_.parts * tiling_.tileRows;
        const RowBlock block{rows, cols, ProductStride(cols)};
        const uint32_t elements = rows * block.stride;
        AscendC::LocalTensor<float> products = productQueue_.template AllocTensor<float>();
        for (uint32_t part = 0; part < tiling_.parts; ++part) {
            LoadRows(products[part * chunkElements_],
                     resultGm_[result][static_cast<uint64_t>(chunk) * width + part * cols],
                     {rows, cols, block.stride, width}, true);
        }
        productQueue_.EnQue(products);
        products = productQueue_.template DeQue<float>();
        for (uint32_t part = 0; part < tiling_.parts && tiling_.hasBias != 0; ++part) {
            const AscendC::LocalTensor<float> z = products[part * chunkElements_];
            AddColumns(z, z, bias_[part * ProductStride(tiling_.tileRows)], block);
        }
        AscendC::LocalTensor<T> y = finishedQueue_.template AllocTensor<T>();
        const AscendC::LocalTensor<float> values = FloatTarget(y, work_);
        Activate<T>(tiling_.activation, values, ScratchBehind(work_, chunkElements_, tiling_.scratch), chunkElements_,
                    products, ones_, static_cast<int32_t>(elements));
        if (tiling_.parts > 1) {
            AscendC::Mul(values, values, products[chunkElements_], static_cast<int32_t>(elements));
        }
        FromFloat(y, values, elements);
        productQueue_.FreeTensor(products);
        StoreQueued(finishedQueue_, yGm_[static_cast<uint64_t>(row + chunk) * tiling_.n + task * tiling_.tileRows], y,
                    {rows, cols, block.stride, tiling_.n});
    }

    // ---- tiles of the weight

    __aicore__ inline void Unpack(uint64_t task, uint32_t buffer)
    {
        const uint32_t rows = RowsOf(task);
        for (uint32_t part = 0; part < tiling_.parts; ++part) {
            UnpackRows(static_cast<uint64_t>(part) * tiling_.n + task * tiling_.tileRows, rows,
                       tileGm_[buffer][static_cast<uint64_t>(part) * rows * tiling_.k]);
        }
    }

    // Unpacks some rows of the weight.
    __aicore__ inline void UnpackRows(uint64_t firstRow, uint32_t tileRows, const AscendC::GlobalTensor<T>& tile)
    {
        const uint64_t first = firstRow * tiling_.groups;
        const uint32_t count = tileRows * tiling_.groups;
        for (uint32_t at = 0; at < count; at += tiling_.blockRows) {
            const uint32_t rows = count - at < tiling_.blockRows ? count - at : tiling_.blockRows;
            scale_.Load(first + at, rows);
            if (tiling_.hasOffset != 0) {
                offset_.Load(first + at, rows);
            }
            if (tiling_.groups > 1) {  // groups follow each other without a gap
                const uint32_t elements = rows * tiling_.blockCols;
                const uint32_t bytes = elements / tiling_.perByte;
                const uint64_t from = (first + at) * tiling_.blockCols / tiling_.perByte;
                UnpackBlock(weightGm_[from], {1, bytes, bytes, bytes}, {rows, tiling_.blockCols, tiling_.blockStride},
                            tile[static_cast<uint64_t>(at) * tiling_.blockCols], {1, elements, elements, elements});
                continue;
            }
            for (uint32_t col = 0; col < tiling_.k; col += tiling_.blockCols) {
                const uint32_t cols = tiling_.k - col < tiling_.blockCols ? tiling_.k - col : tiling_.blockCols;
                // A load fills rows up to whole blocks.
                const uint32_t stride = (cols / tiling_.perByte + AscendC::ONE_BLK_SIZE - 1) / AscendC::ONE_BLK_SIZE *
                                        AscendC::ONE_BLK_SIZE * tiling_.perByte;
                const uint64_t from = ((firstRow + at) * tiling_.k + col) / tiling_.perByte;
                UnpackBlock(weightGm_[from],
                            {rows, cols / tiling_.perByte, stride / tiling_.perByte, tiling_.k / tiling_.perByte},
                            {rows, cols, stride}, tile[static_cast<uint64_t>(at) * tiling_.k + col],
                            {rows, cols, stride, tiling_.k});
            }
        }
    }

    __aicore__ inline void UnpackBlock(const AscendC::GlobalTensor<int8_t>& from, const Rows& packed,
                                       const RowBlock& block, const AscendC::GlobalTensor<T>& to, const Rows& unpacked)
    {
        const uint32_t count = (block.rows - 1) * block.stride + block.cols;
        AscendC::LocalTensor<int8_t> weight = weightQueue_.template AllocTensor<int8_t>();
        LoadRows(weight, from, packed, true);
        weightQueue_.EnQue(weight);
        weight = weightQueue_.template DeQue<int8_t>();
        if (tiling_.perByte == 2) {
            AscendC::Cast(half_, weight.template ReinterpretCast<AscendC::int4b_t>(), AscendC::RoundMode::CAST_NONE,
                          count);
        } else {
            AscendC::Cast(half_, weight, AscendC::RoundMode::CAST_NONE, count);
        }
        weightQueue_.FreeTensor(weight);
        AscendC::Cast(float_, half_, AscendC::RoundMode::CAST_NONE, count);
        if (tiling_.hasOffset != 0) {
            AddRows(float_, float_, offset_.blocks, block);
        }
        AscendC::LocalTensor<T> out = outQueue_.template AllocTensor<T>();
        MultiplyRows(FloatTarget(out, float_), float_, scale_.blocks, block);
        FromFloat(out, float_, count);
        StoreQueued(outQueue_, to, out, unpacked);
    }

    WeightQuantTilingData tiling_;
    RowFactors<S> scale_;
    RowFactors<S> offset_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<int8_t> weightGm_;
    AscendC::GlobalTensor<float> biasGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::GlobalTensor<T> tileGm_[2];
    AscendC::TQue<AscendC::TPosition::VECIN, 1> weightQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> halfBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::LocalTensor<half> half_;
    AscendC::LocalTensor<float> float_;
    uint32_t chunkElements_ = 0;
    AscendC::GlobalTensor<float> resultGm_[2];
    AscendC::TQue<AscendC::TPosition::VECIN, 1> productQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> finishedQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> biasBuf_;
    AscendC::LocalTensor<float> work_;  // a chunk, and the activation's scratch
    AscendC::LocalTensor<float> ones_;
    AscendC::LocalTensor<float> bias_;
};

template <typename T, typename S, typename RESULT>
__aicore__ inline void RunWeightQuantTiles(GM_ADDR x, GM_ADDR weight, GM_ADDR scale, GM_ADDR offset, GM_ADDR bias,
                                           GM_ADDR y, GM_ADDR workspace, const WeightQuantTilingData& tiling)
{
    AscendC::TPipe pipe;
    WeightQuantTiles<T, S, RESULT> kernel;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), kernel.product, &tiling.product);
    if (tiling.fewRows != 0) {
        WeightQuantRows<T, S> rows;
        rows.Init(x, weight, scale, offset, bias, y, tiling, pipe);
        rows.Process();
        kernel.product.End();
        return;
    }
    if (tiling.roundedGroups != 0) {
        GM_ADDR rounded = workspace + tiling.roundedX;
        GroupRounding<T> rounding;
        rounding.Init(x, rounded, tiling, pipe);
        rounding.Process();
        AscendC::SyncAll();
        pipe.Reset();
        x = rounded;
    }
    kernel.Init(x, weight, scale, offset, bias, y, workspace, tiling, pipe);
    kernel.Process();
}

template <typename T, typename S>
__aicore__ inline void RunWeightQuant(GM_ADDR x, GM_ADDR weight, GM_ADDR scale, GM_ADDR offset, GM_ADDR bias, GM_ADDR y,
                                      GM_ADDR workspace, const WeightQuantTilingData& tiling)
{
    if (tiling.finished != 0) {
        RunWeightQuantTiles<T, S, float>(x, weight, scale, offset, bias, y, workspace, tiling);
    } else {
        RunWeightQuantTiles<T, S, T>(x, weight, scale, offset, bias, y, workspace, tiling);
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_WEIGHT_QUANT_KERNEL_H
