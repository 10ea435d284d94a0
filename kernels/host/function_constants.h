/*!
 * Constants of exp and ln in float32, which simd.h and loop_ir.cpp calculate alike.
 */
#ifndef ASCENDC_HOST_FUNCTION_CONSTANTS_H
#define ASCENDC_HOST_FUNCTION_CONSTANTS_H

#include <array>

namespace AscendC {
namespace host {

// ln(2) as a sum: n * LN2_HIGH is exact for the exponents of floats.
constexpr float LN2_HIGH = 0.693359375f;
constexpr float LN2_LOW = -2.12194440e-4f;

constexpr float EXP_LOG2E = 1.44269504088896341f;
constexpr float EXP_MAGIC = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low mantissa bits
// From r^6 on; those of r and 1 are 1.
constexpr std::array<float, 5> EXP_POLYNOMIAL = {1.3886939310e-3f, 8.3733043998e-3f, 4.1667591222e-2f, 1.6666473312e-1f,
                                                 4.9999993480e-1f};
// Beyond these the result is 0 or infinite.
constexpr float EXP_LEAST = -104.0f;
constexpr float EXP_MOST = 89.0f;
// Up to here EXP_MAGIC rounds x to an integer.
constexpr float EXP_ROUNDS = 1048576.0f;
// Up to here the result is neither subnormal nor infinite.
constexpr float EXP_SMALL = 87.0f;

constexpr float LN_TINY = 1.17549435e-38f;  // below it are subnormal numbers
constexpr float LN_SCALE = 16777216.0f;     // 2^24
constexpr float LN_SQRT_HALF = 0.70710678118654752f;
constexpr std::array<float, 9> LN_POLYNOMIAL = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                                                -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                                                2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_FUNCTION_CONSTANTS_H
