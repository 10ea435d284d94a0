#include "operators/convolution_finish.h"

#include <algorithm>

#include "operators/convolution_primitive.h"
#include "operators/element_type.h"
#include "simd/convert.h"

namespace AscendC {
namespace host {
namespace convolutions {
namespace {

constexpr int64_t PIECE = 1024;  // floats of a piece stay in the L1 data cache

}  // namespace

bool Finish::IsNeeded(const Convolution& c, int type)
{
    return c.hasShift != 0 || c.hasResidual != 0 || (c.hasNorm != 0 && !ScalesWeight(c, type));
}

bool Finish::Has(ConvolutionActivation activation)
{
    return activation == ConvolutionActivation::NONE || activation == ConvolutionActivation::RELU ||
           activation == ConvolutionActivation::RELU6 || activation == ConvolutionActivation::HARD_SWISH;
}

void Finish::Create(const Convolution& c, size_t& bytes)
{
    c_ = c;
    const int64_t plane = c.outHeight * c.outWidth;
    cols_ = c.channelsLast != 0 ? c.outChannels : plane;
    rows_ = c.samples * (c.channelsLast != 0 ? plane : c.outChannels);
    shift_ = bytes;
    if (c.hasShift != 0) {
        bytes += Lines(static_cast<size_t>(c.samples * c.outChannels) * sizeof(float));
    }
}

void Finish::Run(State& state, char* sums, const ConvolutionTensors& tensors, const ChannelNorm& norm) const
{
    const float* shift = nullptr;
    if (c_.hasShift != 0) {
        shift = AsFloats(static_cast<const char*>(tensors.shift), c_.type, c_.samples * c_.outChannels,
                         reinterpret_cast<float*>(state.memory + shift_));
    }
    const auto finishPiece = [&](int64_t row, int64_t col) {
        const int64_t at = row * cols_ + col;
        const Piece piece{row, col, std::min(PIECE, cols_ - col), reinterpret_cast<float*>(sums) + at};
        if (c_.hasNorm != 0) {
            Normalize(piece, norm.FactorsIn(state), norm.OffsetsIn(state));
        }
        if (shift != nullptr) {
            AddShift(piece, shift);
        }
        if (c_.hasResidual != 0) {
            AddResidual(piece, static_cast<const char*>(tensors.residual) + at * SizeOf(c_.type));
        }
        if (c_.hasNorm != 0) {  // the others have their activation behind another operator
            Activate(piece);
        }
        if (c_.type != DataType::FLOAT32) {
            const auto length = static_cast<uint32_t>(piece.count);
            Convert(static_cast<char*>(tensors.y) + at * SizeOf(c_.type), ElementOf(c_.type), length,
                    reinterpret_cast<const char*>(piece.values), ElementType::FLOAT, length, 1, length);
        }
    };
    state.pool.ParallelFor(static_cast<int>(std::min<int64_t>(rows_, state.pool.ThreadNum())),
                           [&](int index, int count) {
                               for (int64_t row = rows_ * index / count; row < rows_ * (index + 1) / count; ++row) {
                                   for (int64_t col = 0; col < cols_; col += PIECE) {
                                       finishPiece(row, col);
                                   }
                               }
                           });
}

void Finish::Normalize(const Piece& piece, const float* factors, const float* offsets) const
{
    float* const z = piece.values;
    if (c_.channelsLast != 0) {
        for (int64_t i = 0; i < piece.count; ++i) {
            z[i] = z[i] * factors[piece.col + i] + offsets[piece.col + i];
        }
        return;
    }
    const float factor = factors[piece.row % c_.outChannels];
    const float offset = offsets[piece.row % c_.outChannels];
    for (int64_t i = 0; i < piece.count; ++i) {
        z[i] = z[i] * factor + offset;
    }
}

void Finish::AddShift(const Piece& piece, const float* shift) const
{
    float* const z = piece.values;
    if (c_.channelsLast != 0) {
        const float* const values = shift + piece.row / (c_.outHeight * c_.outWidth) * c_.outChannels + piece.col;
        for (int64_t i = 0; i < piece.count; ++i) {
            z[i] += values[i];
        }
        return;
    }
    const float value = shift[piece.row];
    for (int64_t i = 0; i < piece.count; ++i) {
        z[i] += value;
    }
}

void Finish::AddResidual(const Piece& piece, const char* residual) const
{
    float buffer[PIECE];
    const float* const values = AsFloats(residual, c_.type, piece.count, buffer);
    for (int64_t i = 0; i < piece.count; ++i) {
        piece.values[i] += values[i];
    }
}

// Comparisons are such that NaN stays.
void Finish::Activate(const Piece& piece) const
{
    float* const z = piece.values;
    const auto clipped = [](float value, float most) { return value < 0.0f ? 0.0f : value > most ? most : value; };
    switch (c_.activation) {
        case ConvolutionActivation::RELU:
            for (int64_t i = 0; i < piece.count; ++i) {
                z[i] = z[i] < 0.0f ? 0.0f : z[i];
            }
            break;
        case ConvolutionActivation::RELU6:
            for (int64_t i = 0; i < piece.count; ++i) {
                z[i] = clipped(z[i], 6.0f);
            }
            break;
        case ConvolutionActivation::HARD_SWISH:
            for (int64_t i = 0; i < piece.count; ++i) {
                z[i] *= clipped(z[i] + 3.0f, 6.0f) * (1.0f / 6.0f);
            }
            break;
        default:
            break;
    }
}

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC
