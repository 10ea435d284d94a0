#include "operators/convolution_addends.h"

#include <algorithm>

#include "operators/element_type.h"
#include "simd/convert.h"

namespace AscendC {
namespace host {
namespace convolutions {

void Addends::Create(const Convolution& c, size_t& bytes)
{
    c_ = c;
    shift_ = bytes;
    bytes += Lines(static_cast<size_t>(c.samples * c.outChannels) * sizeof(float));
}

void Addends::Run(State& state, char* sums, const ConvolutionTensors& tensors) const
{
    constexpr int64_t PIECE = 1024;  // floats of a piece stay in the L1 data cache
    const bool isLast = c_.channelsLast != 0;
    const int64_t plane = c_.outHeight * c_.outWidth;
    const int64_t channels = c_.outChannels;
    const auto* const residual = static_cast<const char*>(tensors.residual);
    const float* shift = nullptr;
    if (tensors.shift != nullptr) {
        shift = AsFloats(static_cast<const char*>(tensors.shift), c_.type, c_.samples * channels,
                         reinterpret_cast<float*>(state.memory + shift_));
    }
    // A row has one value of the shift, or with channels last all of them.
    const int64_t cols = isLast ? channels : plane;
    const int64_t rows = c_.samples * (isLast ? plane : channels);
    const auto addPiece = [&](int64_t row, int64_t col) {
        const int64_t count = std::min(PIECE, cols - col);
        const int64_t at = row * cols + col;
        char* const begin = sums + at * static_cast<int64_t>(sizeof(float));
        auto* const z = reinterpret_cast<float*>(begin);
        if (shift != nullptr && isLast) {
            const float* const values = shift + row / plane * channels + col;
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
            const float* const values = AsFloats(residual + at * SizeOf(c_.type), c_.type, count, buffer);
            for (int64_t i = 0; i < count; ++i) {
                z[i] += values[i];
            }
        }
        if (c_.type != DataType::FLOAT32) {
            const auto length = static_cast<uint32_t>(count);
            Convert(static_cast<char*>(tensors.y) + at * SizeOf(c_.type), ElementOf(c_.type), length, begin,
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
