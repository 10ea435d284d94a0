#include "operators/convolution_addends.h"

#include <algorithm>

#include "operators/element_type.h"
#include "simd/convert.h"

namespace AscendC {
namespace host {
namespace convolutions {

void Addends::Create(const Convolution& c, size_t& bytes)
{
    type_ = c.type;
    isLast_ = c.channelsLast != 0;
    samples_ = c.samples;
    plane_ = c.outHeight * c.outWidth;
    channels_ = c.outChannels;
    shift_ = bytes;
    bytes += Lines(static_cast<size_t>(samples_ * channels_) * sizeof(float));
}

void Addends::Run(State& state, char* sums, const ConvolutionTensors& tensors) const
{
    constexpr int64_t PIECE = 1024;  // floats of a piece stay in the L1 data cache
    const auto* const residual = static_cast<const char*>(tensors.residual);
    const float* shift = nullptr;
    if (tensors.shift != nullptr) {
        shift = AsFloats(static_cast<const char*>(tensors.shift), type_, samples_ * channels_,
                         reinterpret_cast<float*>(state.memory + shift_));
    }
    // A row has one value of the shift, or with channels last all of them.
    const int64_t cols = isLast_ ? channels_ : plane_;
    const int64_t rows = samples_ * (isLast_ ? plane_ : channels_);
    const auto addPiece = [&](int64_t row, int64_t col) {
        const int64_t count = std::min(PIECE, cols - col);
        const int64_t at = row * cols + col;
        char* const begin = sums + at * static_cast<int64_t>(sizeof(float));
        auto* const z = reinterpret_cast<float*>(begin);
        if (shift != nullptr && isLast_) {
            const float* const values = shift + row / plane_ * channels_ + col;
            for (int64_t i = 0; i < count; ++i) {
                z[i] += values[i];
            }
        } else if (shift != nullptr) {
            const float value = shift[row];
            for (int64_t i = 0; i < count; ++i) {
                z[i] += value;
            }
        }
        if (residual != nullptr) {
            float buffer[PIECE];
            const float* const values = AsFloats(residual + at * SizeOf(type_), type_, count, buffer);
            for (int64_t i = 0; i < count; ++i) {
                z[i] += values[i];
            }
        }
        if (type_ != DataType::FLOAT32) {
            const auto length = static_cast<uint32_t>(count);
            Convert(static_cast<char*>(tensors.y) + at * SizeOf(type_), ElementOf(type_), length, begin,
                    ElementType::FLOAT, length, 1, length);
        }
    };
    state.pool.ParallelFor(static_cast<int>(std::min<int64_t>(rows, state.pool.ThreadNum())),
                           [&](int index, int count) {
                               for (int64_t row = rows * index / count; row < rows * (index + 1) / count; ++row) {
                                   for (int64_t col = 0; col < cols; col += PIECE) {
                                       addPiece(row, col);
                                   }
                               }
                           });
}

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC
