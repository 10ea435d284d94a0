/*!
 * Finishes the float sums of a convolution before they are rounded, where a primitive cannot do that: normalizes
 * channels, adds shift and residual in the order of the kernel.
 */
#ifndef ASCENDC_HOST_OPERATORS_CONVOLUTION_FINISH_H
#define ASCENDC_HOST_OPERATORS_CONVOLUTION_FINISH_H

#include <cstddef>
#include <cstdint>

#include "operators/convolution_norm.h"
#include "operators/convolution_operand.h"

namespace AscendC {
namespace host {
namespace convolutions {

class Finish {
public:
    // `type`: in which the primitive computes.
    static bool IsNeeded(const Convolution& c, int type);
    // Returns true if it has the activation of `c`.
    static bool Has(ConvolutionActivation activation);

    void Create(const Convolution& c, size_t& bytes);
    // The sums are floats in the order of y. In float32 they are y. `norm` has been computed, if there is one.
    void Run(State& state, char* sums, const ConvolutionTensors& tensors, const ChannelNorm& norm) const;

private:
    struct Piece {
        int64_t row;
        int64_t col;
        int64_t count;
        float* values;
    };

    void Normalize(const Piece& piece, const float* factors, const float* offsets) const;
    void AddShift(const Piece& piece, const float* shift) const;
    void AddResidual(const Piece& piece, const char* residual) const;
    void Activate(const Piece& piece) const;

    Convolution c_{};
    int64_t cols_ = 0;  // a row has one channel of a sample, or with channels last all of a position
    int64_t rows_ = 0;
    size_t shift_ = 0;  // as floats, in the state's memory
};

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OPERATORS_CONVOLUTION_FINISH_H
