/*!
 * Turns a batch normalization with given statistics into a factor and an offset of each channel.
 */
#ifndef ASCENDC_HOST_OPERATORS_CONVOLUTION_NORM_H
#define ASCENDC_HOST_OPERATORS_CONVOLUTION_NORM_H

#include <cstddef>
#include <cstdint>

#include "operators/convolution_operand.h"

namespace AscendC {
namespace host {
namespace convolutions {

class ChannelNorm {
public:
    ChannelNorm() = default;
    ChannelNorm(const ChannelNorm&) = delete;
    ~ChannelNorm();

    // Takes memory behind `bytes`. False: the library refused.
    bool Create(const Convolution& c, size_t& bytes);
    bool IsGiven() const { return channels_ != 0; }
    // Computes both in the state's memory.
    void Begin(State& state, const ConvolutionTensors& tensors) const;
    Memory Factors() const { return factors_; }
    Memory Offsets() const { return offsets_; }
    const float* FactorsIn(const State& state) const { return reinterpret_cast<float*>(state.memory + floats_); }
    const float* OffsetsIn(const State& state) const { return FactorsIn(state) + channels_; }

private:
    DataType type_ = DataType::FLOAT32;
    int64_t channels_ = 0;
    size_t floats_ = 0;  // where they are in the state's memory
    Memory factors_ = nullptr;
    Memory offsets_ = nullptr;
};

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OPERATORS_CONVOLUTION_NORM_H
