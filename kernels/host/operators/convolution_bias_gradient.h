/*!
 * The gradient of a bias sums dy over samples and positions. The library would add up all of them one after the
 * other. Here a float has so many at most, and doubles take those.
 */
#ifndef ASCENDC_HOST_OPERATORS_CONVOLUTION_BIAS_GRADIENT_H
#define ASCENDC_HOST_OPERATORS_CONVOLUTION_BIAS_GRADIENT_H

#include <cstddef>
#include <cstdint>

#include "operators/convolution_operand.h"

namespace AscendC {
namespace host {
namespace convolutions {

class BiasSum {
public:
    void Create(const Convolution& c, size_t& bytes);
    void Run(State& state, const char* dy, float* dbias) const;

private:
    static constexpr int64_t BLOCKS = 64;
    static constexpr int64_t ROWS = 32;
    static constexpr int64_t LANES = 16;
    static constexpr int64_t PIECE = ROWS * LANES;

    double SumOf(const char* plane) const;
    void RunLast(State& state, const char* dy, float* dbias) const;

    DataType type_ = DataType::FLOAT32;
    bool isLast_ = false;
    int64_t samples_ = 0;
    int64_t plane_ = 0;
    int64_t channels_ = 0;
    int64_t blockRows_ = 0;
    int blocks_ = 0;
    size_t sums_ = 0;  // in the state's memory, those of each block
    size_t blockBytes_ = 0;
};

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OPERATORS_CONVOLUTION_BIAS_GRADIENT_H
