/*!
 * Runs the gated kernels with the form of GELU that the tiling names.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_GATED_GELU_H
#define MS_ASCEND_OPS_PRIMITIVES_GATED_GELU_H

#include "primitives/gated_kernel.h"
#include "primitives/gelu.h"

namespace ms_ascend_ops {

template <typename T, class ACTIVATION>
__aicore__ inline void RunGated(GM_ADDR gate, GM_ADDR up, GM_ADDR y, const GatedTilingData& tiling)
{
    AscendC::TPipe pipe;
    GatedForward<T, ACTIVATION> kernel;
    kernel.Init(gate, up, y, tiling, pipe);
    kernel.Process();
}

template <typename T, class ACTIVATION>
__aicore__ inline void RunGatedGrad(GM_ADDR dy, GM_ADDR gate, GM_ADDR up, GM_ADDR dgate, GM_ADDR dup,
                                    const GatedTilingData& tiling)
{
    AscendC::TPipe pipe;
    GatedBackward<T, ACTIVATION> kernel;
    kernel.Init(dy, gate, up, dgate, dup, tiling, pipe);
    kernel.Process();
}

template <typename T>
__aicore__ inline void GatedGelu(GM_ADDR gate, GM_ADDR up, GM_ADDR y, const GatedTilingData& tiling)
{
    if (tiling.form == 1) {
        RunGated<T, GeluTanh>(gate, up, y, tiling);
    } else {
        RunGated<T, GeluErf<T>>(gate, up, y, tiling);
    }
}

template <typename T>
__aicore__ inline void GatedGeluGrad(GM_ADDR dy, GM_ADDR gate, GM_ADDR up, GM_ADDR dgate, GM_ADDR dup,
                                     const GatedTilingData& tiling)
{
    if (tiling.form == 1) {
        RunGatedGrad<T, GeluTanh>(dy, gate, up, dgate, dup, tiling);
    } else {
        RunGatedGrad<T, GeluErf<T>>(dy, gate, up, dgate, dup, tiling);
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_GATED_GELU_H
