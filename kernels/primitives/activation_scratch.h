/*!
 * Counts the float tensors of a tile's size that Forward and Backward of an activation (silu.h, gelu.h) need besides
 * their operands. It is plain C++, for tilings.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ACTIVATION_SCRATCH_H
#define MS_ASCEND_OPS_PRIMITIVES_ACTIVATION_SCRATCH_H

#include <cstdint>

namespace ms_ascend_ops {

struct ActivationScratch {
    uint32_t forward;
    uint32_t backward;
};

constexpr ActivationScratch SILU_SCRATCH{0, 1};

constexpr ActivationScratch GeluScratch(bool tanh, uint32_t elementBytes)
{
    return tanh ? ActivationScratch{0, 2} : ActivationScratch{elementBytes == 2 ? 2u : 3u, 3};
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ACTIVATION_SCRATCH_H
