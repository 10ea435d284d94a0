/*!
 * Adds shift and residual to the sums of a convolution before these are rounded, in the order of the kernel.
 */
#ifndef ASCENDC_HOST_OPERATORS_CONVOLUTION_ADDENDS_H
#define ASCENDC_HOST_OPERATORS_CONVOLUTION_ADDENDS_H

#include <cstddef>
#include <cstdint>

#include "operators/convolution_operand.h"

namespace AscendC {
namespace host {
namespace convolutions {

class Addends {
public:
    static bool AreIn(const Convolution& c) { return c.hasShift != 0 || c.hasResidual != 0; }
    void Create(const Convolution& c, size_t& bytes);
    // The sums are floats in the order of y. In float32 they are y.
    void Run(State& state, char* sums, const ConvolutionTensors& tensors) const;

private:
    Convolution c_{};
    size_t shift_ = 0;  // as floats, in the state's memory
};

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OPERATORS_CONVOLUTION_ADDENDS_H
