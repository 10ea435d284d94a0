/*!
 * Computes ReLU and its derivative on float tensors, ReLU6 and hard swish. The derivative at 0 is 0.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_RELU_H
#define MS_ASCEND_OPS_PRIMITIVES_RELU_H

#include "kernel_operator.h"

namespace ms_ascend_ops {

struct Relu {
    // It takes the arguments of the one in silu.h.
    static __aicore__ inline void Forward(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>&,
                                          uint32_t, const AscendC::LocalTensor<float>& x,
                                          const AscendC::LocalTensor<float>&, int32_t count)
    {
        AscendC::Relu(dst, x, count);
    }

    // slope = 1 where x > 0, else 0: the factor takes the least positive normal number beyond 1.
    static __aicore__ inline void Slope(const AscendC::LocalTensor<float>& slope, const AscendC::LocalTensor<float>& x,
                                        int32_t count)
    {
        constexpr float LARGE = 0x1p127f;
        AscendC::Relu(slope, x, count);
        AscendC::Muls(slope, slope, LARGE, count);
        AscendC::Mins(slope, slope, 1.0f, count);
    }
};

// min(max(x, 0), 6). It takes the arguments of the one in silu.h, as does HardSwish.
struct Relu6 {
    static __aicore__ inline void Forward(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>&,
                                          uint32_t, const AscendC::LocalTensor<float>& x,
                                          const AscendC::LocalTensor<float>&, int32_t count)
    {
        AscendC::Relu(dst, x, count);
        AscendC::Mins(dst, dst, 6.0f, count);
    }
};

// x * min(max(x + 3, 0), 6) / 6; dst is not x.
struct HardSwish {
    static __aicore__ inline void Forward(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>&,
                                          uint32_t, const AscendC::LocalTensor<float>& x,
                                          const AscendC::LocalTensor<float>&, int32_t count)
    {
        AscendC::Adds(dst, x, 3.0f, count);
        AscendC::Relu(dst, dst, count);
        AscendC::Mins(dst, dst, 6.0f, count);
        AscendC::Muls(dst, dst, 1.0f / 6.0f, count);
        AscendC::Mul(dst, dst, x, count);
    }
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_RELU_H
