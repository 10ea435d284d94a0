/*!
 * Computes GELU and its derivative on float tensors, by error function and by its tanh approximation.
 *
 * They are built on Exp, Div and polynomials, not on the Erf and Tanh of Ascend C's high-level library: 1 + erf(x /
 * sqrt(2)) and 1 + tanh(u) cancel for negative x, and no bit of a float is left from x = -5.5 on. These forms keep
 * their relative accuracy: the first down to the smallest floats, the second down to 3e-38, below which it gives 0.
 *
 * For x = NaN all results are NaN. gelu(inf) = inf. gelu(-inf) is its limit 0 by error function, and NaN by tanh, as in
 * MindSpore and PyTorch; the slope is 1 and 0 there.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_GELU_H
#define MS_ASCEND_OPS_PRIMITIVES_GELU_H

#include "kernel_operator.h"
#include "primitives/ones.h"

namespace ms_ascend_ops {

using FloatTensor = AscendC::LocalTensor<float>;

// dst = dst * t^2 + odd * t + even, square = t^2
__aicore__ inline void NextTerms(const FloatTensor& dst, const FloatTensor& t, const FloatTensor& square, float odd,
                                 float even, int32_t count)
{
    AscendC::Mul(dst, dst, square, count);
    AscendC::Axpy(dst, t, odd, count);
    AscendC::Adds(dst, dst, even, count);
}

// q(t) = ln(Phi(-t)) on [0, LARGEST], summed up in t and square = t^2, for GELU in 16 bits.
template <typename T>
struct LogPhi;

// The error, 3.9e-5, is at most a sixth of what rounding to half costs; beyond 5.8 t * Phi(-t) rounds to 0.
template <>
struct LogPhi<half> {
    static constexpr float LARGEST = 5.8f;

    static __aicore__ inline void Sum(const FloatTensor& dst, const FloatTensor& t, const FloatTensor& square,
                                      int32_t count)
    {
        AscendC::Muls(dst, square, 1.67943053e-05f, count);
        AscendC::Axpy(dst, t, -0.000437465933f, count);
        AscendC::Adds(dst, dst, 0.00507106725f, count);
        NextTerms(dst, t, square, -0.035708148f, -0.319447994f, count);
        NextTerms(dst, t, square, -0.79736495f, -0.693183184f, count);
    }
};

// The error is 2.9e-4 up to t = 4, a seventh of what rounding to bfloat16 costs at least, 1.4e-3 up to 6, and 3e-3, as
// much as rounding, down to the smallest results.
template <>
struct LogPhi<bfloat16_t> {
    static constexpr float LARGEST = 14.5f;

    static __aicore__ inline void Sum(const FloatTensor& dst, const FloatTensor& t, const FloatTensor& square,
                                      int32_t count)
    {
        AscendC::Muls(dst, t, -2.44797178e-07f, count);
        AscendC::Adds(dst, dst, 1.37349753e-05f, count);
        NextTerms(dst, t, square, -0.000319981162f, 0.0040819291f, count);
        NextTerms(dst, t, square, -0.0322231054f, -0.324771881f, count);
        NextTerms(dst, t, square, -0.794463098f, -0.693435729f, count);
    }
};

// gelu(x) = x * Phi(x) = max(x, 0) - |x| * Phi(-|x|), Phi the cumulative distribution of the normal distribution.
//
// With t = |x|: Phi(-t) = exp(-t^2 / 2) * R(t), where R(t) = erfcx(t / sqrt(2)) / 2 falls slowly from 1/2. R is a
// quotient of polynomials with positive coefficients, which nothing cancels in; its largest relative error is 4.3e-7
// (minimax on [0, 14.5], beyond which Phi(-t) is below the smallest float). The polynomials are summed up in t and t^2,
// by Axpy: a step of Horner's rule would be two instructions.
//
// For the values of a T of 16 bits Phi(-t) = exp(q(t)), q a minimax polynomial of its logarithm (LogPhi). Not for the
// slope, which goes through 0.
template <typename T>
struct GeluErf {
    // dst = x * Phi(x). dst, x and the tensors of scratch, two or for float three, are all different.
    static __aicore__ inline void Forward(const FloatTensor& dst, const FloatTensor& scratch, uint32_t stride,
                                          const FloatTensor& x, [[maybe_unused]] const FloatTensor& ones, int32_t count)
    {
        const FloatTensor t = scratch;
        const FloatTensor square = scratch[stride];
        if constexpr (sizeof(T) == 2) {
            Arguments(t, square, x, LogPhi<T>::LARGEST, count);
            LogPhi<T>::Sum(dst, t, square, count);
            AscendC::Exp(dst, dst, count);
            AscendC::Mul(dst, dst, t, count);
            AscendC::Relu(t, x, count);
        } else {
            const FloatTensor denominator = scratch[2 * stride];
            Arguments(t, square, x, LARGEST, count);
            Denominator(denominator, t, square, count);
            AscendC::Muls(dst, t, C2, count);
            AscendC::Axpy(dst, square, C3, count);
            AscendC::Mul(dst, dst, square, count);
            AscendC::Axpy(dst, square, C1, count);
            AscendC::Axpy(dst, t, C0, count);
            AscendC::Div(dst, dst, denominator, count);
            AscendC::Relu(t, x, count);
            Density(square, count);
            AscendC::Mul(dst, dst, square, count);
        }
        AscendC::Sub(dst, t, dst, count);
    }

    // slope = Phi(x) + x * phi(x), phi the density, and with VALUE value = x * Phi(x). All tensors are different;
    // without VALUE `value` is scratch.
    template <bool VALUE>
    static __aicore__ inline void Backward(const FloatTensor& value, const FloatTensor& slope,
                                           const FloatTensor& scratch, uint32_t stride, const FloatTensor& x,
                                           const FloatTensor& ones, int32_t count)
    {
        const FloatTensor t = scratch;
        const FloatTensor square = scratch[stride];
        const FloatTensor lower = scratch[2 * stride];
        Arguments(t, square, x, LARGEST, count);
        Denominator(lower, t, square, count);
        AscendC::Muls(slope, t, C3, count);
        AscendC::Adds(slope, slope, C2, count);
        AscendC::Mul(slope, slope, square, count);
        AscendC::Axpy(slope, t, C1, count);
        AscendC::Adds(slope, slope, C0, count);
        AscendC::Div(slope, slope, lower, count);
        Density(square, count);
        AscendC::Mul(value, slope, square, count);
        // value is Phi(-t), square the density without its factor; the slope at -t.
        AscendC::Mul(lower, t, square, count);
        AscendC::Muls(lower, lower, INVERSE_SQRT_2PI, count);
        AscendC::Sub(lower, value, lower, count);
        if constexpr (VALUE) {
            AscendC::Relu(slope, x, count);
            AscendC::Mul(value, value, t, count);
            AscendC::Sub(value, slope, value, count);
        }
        // max(lower, min(1 - lower, x * 2^60)): lower, which is at most 1/2, where x < 0, and 1 - lower where x > 0;
        // next to 0 both are 1/2.
        AscendC::Muls(t, x, STEEP, count);
        OneMinus(slope, ones, lower, count);
        AscendC::Min(slope, slope, t, count);
        AscendC::Max(slope, slope, lower, count);
    }

private:
    static constexpr float LARGEST = 14.5f;
    static constexpr float INVERSE_SQRT_2PI = 0.3989422804014327f;
    static constexpr float STEEP = 1152921504606846976.0f;  // 2^60

    // These are the coefficients of the numerator of R.
    static constexpr float C0 = 11.62160996f;
    static constexpr float C1 = 8.43329823f;
    static constexpr float C2 = 2.7896454f;
    static constexpr float C3 = 0.39889859f;

    // t = min(|x|, largest), square = t^2
    static __aicore__ inline void Arguments(const FloatTensor& t, const FloatTensor& square, const FloatTensor& x,
                                            float largest, int32_t count)
    {
        AscendC::Abs(t, x, count);
        AscendC::Mins(t, t, largest, count);
        AscendC::Mul(square, t, t, count);
    }

    // dst = 23.243 + 35.412 t + 22.216 t^2 + 6.988 t^3 + t^4
    static __aicore__ inline void Denominator(const FloatTensor& dst, const FloatTensor& t, const FloatTensor& square,
                                              int32_t count)
    {
        AscendC::Adds(dst, square, 22.21558591f, count);
        AscendC::Axpy(dst, t, 6.98808079f, count);
        AscendC::Mul(dst, dst, square, count);
        AscendC::Axpy(dst, t, 35.41156051f, count);
        AscendC::Adds(dst, dst, 23.24322892f, count);
    }

    // square = exp(-square / 2)
    static __aicore__ inline void Density(const FloatTensor& square, int32_t count)
    {
        AscendC::Muls(square, square, -0.5f, count);
        AscendC::Exp(square, square, count);
    }
};

// gelu(x) = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2 = x / (1 + exp(-x * (A + B * x^2))).
struct GeluTanh {
    // dst is not x.
    static __aicore__ inline void Forward(const FloatTensor& dst, [[maybe_unused]] const FloatTensor& scratch,
                                          [[maybe_unused]] uint32_t stride, const FloatTensor& x,
                                          [[maybe_unused]] const FloatTensor& ones, int32_t count)
    {
        Exponential(dst, x, count);
        AscendC::Div(dst, x, dst, count);
    }

    // With s = 1 / (1 + exp(-z)), z = A x + B x^3: slope = s + x z' s (1 - s), and with VALUE value = x s. All
    // tensors are different; without VALUE `value` is scratch.
    template <bool VALUE>
    static __aicore__ inline void Backward(const FloatTensor& value, const FloatTensor& slope,
                                           const FloatTensor& scratch, uint32_t stride, const FloatTensor& x,
                                           const FloatTensor& ones, int32_t count)
    {
        const FloatTensor s = scratch;
        const FloatTensor limited = scratch[stride];
        AscendC::Mins(limited, x, LARGEST, count);  // x^2 must not overflow
        AscendC::Maxs(limited, limited, -LARGEST, count);
        Exponential(s, limited, count);
        OneOver(s, ones, s, count);
        AscendC::Mul(slope, limited, limited, count);
        AscendC::Muls(slope, slope, 3.0f * B, count);
        AscendC::Adds(slope, slope, A, count);
        AscendC::Mul(slope, slope, limited, count);
        OneMinus(value, ones, s, count);
        AscendC::Mul(slope, slope, value, count);
        AscendC::Mul(slope, slope, s, count);
        AscendC::Add(slope, slope, s, count);
        if constexpr (VALUE) {
            AscendC::Mul(value, x, s, count);
        }
    }

private:
    static constexpr float LARGEST = 12.0f;  // s is 1 there, and 0 at -12
    static constexpr float A = 1.5957691216057308f;
    static constexpr float B = 0.0713548162726000f;

    // dst = 1 + exp(-z)
    static __aicore__ inline void Exponential(const FloatTensor& dst, const FloatTensor& x, int32_t count)
    {
        AscendC::Mul(dst, x, x, count);
        AscendC::Muls(dst, dst, -B, count);
        AscendC::Adds(dst, dst, -A, count);
        AscendC::Mul(dst, dst, x, count);
        AscendC::Exp(dst, dst, count);
        AscendC::Adds(dst, dst, 1.0f, count);
    }
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_GELU_H
