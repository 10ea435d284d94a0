/*!
 * Holds the constants of exp and ln in float32, which simd.h and loop_ir.cpp calculate alike.
 */
#ifndef ASCENDC_HOST_SIMD_FUNCTION_CONSTANTS_H
#define ASCENDC_HOST_SIMD_FUNCTION_CONSTANTS_H

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
// Up to here the result is neither subnormal nor infinite.
constexpr float EXP_SMALL = 87.0f;

// These are for a table of 32 numbers that lies in two registers: x = n ln 2 + r, n in steps of 1/32, and 2^n comes
// from the table and an exponent.
constexpr float EXP_TABLE_MAGIC = 393216.0f;  // 1.5 * 2^18: adding it leaves 5 bits behind the point, the lowest ones
constexpr std::array<float, 32> EXP_TABLE = {
    // 2^(i / 32)
    1.0f,        1.0218972f,  1.04427373f, 1.06714046f, 1.09050775f, 1.1143868f,  1.13878858f, 1.1637249f,
    1.18920708f, 1.21524739f, 1.24185777f, 1.26905096f, 1.29683959f, 1.32523668f, 1.35425556f, 1.38390994f,
    1.41421354f, 1.44518077f, 1.47682619f, 1.50916445f, 1.54221082f, 1.5759809f,  1.61049032f, 1.64575553f,
    1.68179286f, 1.71861935f, 1.75625217f, 1.79470909f, 1.8340081f,  1.87416768f, 1.91520655f, 1.95714414f};
// exp(r) - 1 = r (C1 + C2 r), relative error 5.3e-8
constexpr float EXP_TABLE_C1 = 1.00001466f;
constexpr float EXP_TABLE_C2 = 0.5f;
// Beyond 65536 EXP_TABLE_MAGIC does not round to steps of 1/32: r is anything, and is brought down to at most
// EXP_TABLE_LIMIT, as the exponent is so large that it does not matter.
constexpr float EXP_TABLE_LIMIT = 1.0f;

constexpr float LN_TINY = 1.17549435e-38f;  // below it are subnormal numbers
constexpr float LN_SCALE = 16777216.0f;     // 2^24
constexpr float LN_SQRT_HALF = 0.70710678118654752f;
constexpr std::array<float, 9> LN_POLYNOMIAL = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                                                -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                                                2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_FUNCTION_CONSTANTS_H
