/*!
 * Holds the tensors of an attention in global memory: its inputs and output, and those in the workspace by which the
 * cube and the vector unit exchange tiles.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ATTENTION_MEMORY_H
#define MS_ASCEND_OPS_PRIMITIVES_ATTENTION_MEMORY_H

#include "kernel_operator.h"
#include "primitives/products.h"

namespace ms_ascend_ops {

template <typename T>
struct AttentionMemory {
    AscendC::GlobalTensor<T> query;
    AscendC::GlobalTensor<T> key;
    AscendC::GlobalTensor<T> value;
    AscendC::GlobalTensor<T> out;
    AscendC::GlobalTensor<float> scores[2];  // the cube makes one tile while the vector unit works on the other
    AscendC::GlobalTensor<T> probabilities;
    AscendC::GlobalTensor<float> product;  // of probabilities and values

    // Finds the tensors of the arguments of a kernel.
    __aicore__ inline void SetTensors(GM_ADDR queryGm, GM_ADDR keyGm, GM_ADDR valueGm, GM_ADDR outGm)
    {
        query.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(queryGm));
        key.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(keyGm));
        value.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(valueGm));
        out.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(outGm));
    }

    // Takes the tiles from this core's part of the workspace.
    template <class TILING>
    __aicore__ inline void TakeTiles(CoreWorkspace& own, const TILING& tiling)
    {
        const uint32_t elements = tiling.tileRows * tiling.tileCols;
        own.Take(scores[0], elements);
        own.Take(scores[1], elements);
        own.Take(probabilities, elements);
        own.Take(product, tiling.tileRows * tiling.valueSize);
    }
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ATTENTION_MEMORY_H
