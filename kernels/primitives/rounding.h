/*!
 * Rounds floats to whole numbers, by the rounding of an addition.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ROUNDING_H
#define MS_ASCEND_OPS_PRIMITIVES_ROUNDING_H

#include "kernel_operator.h"

namespace ms_ascend_ops {

constexpr float ROUNDING = 12582912.0f;  // 1.5 * 2^23: a float of this size has no fraction
constexpr float INVERSE_OF_127 = 1.0f / 127.0f;

// dst = src, of magnitudes of 127 and a little, as integers of 8 bits; src becomes what they are. `halves`: scratch.
__aicore__ inline void RoundToBytes(const AscendC::LocalTensor<int8_t>& dst, const AscendC::LocalTensor<float>& src,
                                    const AscendC::LocalTensor<half>& halves, uint32_t count)
{
    AscendC::Adds(src, src, ROUNDING, static_cast<int32_t>(count));
    AscendC::Adds(src, src, -ROUNDING, static_cast<int32_t>(count));
    AscendC::Cast(halves, src, AscendC::RoundMode::CAST_NONE, count);
    AscendC::Cast(dst, halves, AscendC::RoundMode::CAST_RINT, count);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ROUNDING_H
