/*!
 * GELU and its derivative on float tensors, by error function and by its tanh approximation.
 *
 * Built on Exp, Div and polynomials, not on the Erf and Tanh of Ascend C's high-level library: 1 + erf(x / sqrt(2)) and
 * 1 + tanh(u) cancel for negative x, and what is left of a float is nothing from x = -5.5 on. These forms keep their
 * relative accuracy: the first down to the smallest floats, the second down to 3e-38, below which it gives 0.
 *
 * For x = NaN all results are NaN. gelu(inf) = inf, gelu(-inf) = NaN (-inf * 0, as in MindSpore and PyTorch); the slope
 * is 1 and 0 there.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_GELU_H
#define MS_ASCEND_OPS_PRIMITIVES_GELU_H

#include "kernel_operator.h"
#include "primitives/ones.h"

namespace ms_ascend_ops {

using FloatTensor = AscendC::LocalTensor<float>;

// p = p * t + c
__aicore__ inline void Horner(const FloatTensor& p, const FloatTensor& t, float c, int32_t count)
{
    AscendC::Mul(p, p, t, count);
    AscendC::Adds(p, p, c, count);
}

// gelu(x) = x * Phi(x), Phi the cumulative distribution of the normal distribution.
//
// With t = |x|: Phi(-t) = exp(-t^2 / 2) * R(t), where R(t) = erfcx(t / sqrt(2)) / 2 falls slowly from 1/2. R is a
// quotient of polynomials with positive coefficients, which nothing cancels in; its largest relative error is 4.3e-7
// (minimax on [0, 14.5], beyond which Phi(-t) is below the smallest float), and 2.5e-5 where T has 16 bits, a tenth of
// what rounding to half costs; but not in the slope, which goes through 0.
template <typename T>
struct GeluErf {
    // dst = x * Phi(x). dst, x and the two tensors of scratch are all different.
    static __aicore__ inline void Forward(const FloatTensor& dst, const FloatTensor& scratch, uint32_t stride,
                                          const FloatTensor& x, const FloatTensor& ones, int32_t count)
    {
        const FloatTensor t = scratch;
        const FloatTensor density = scratch[stride];
        AscendC::Abs(t, x, count);
        AscendC::Mins(t, t, LARGEST, count);
        Tail<NARROW>(dst, density, t, count);
        Denominator<NARROW>(density, t, count);
        AscendC::Div(dst, dst, density, count);
        Select(dst, t, density, x, ones, count);
        AscendC::Mul(dst, dst, x, count);
    }

    // value = x * Phi(x), slope = Phi(x) + x * phi(x), phi the density. All tensors are different.
    static __aicore__ inline void Backward(const FloatTensor& value, const FloatTensor& slope,
                                           const FloatTensor& scratch, uint32_t stride, const FloatTensor& x,
                                           const FloatTensor& ones, int32_t count)
    {
        const FloatTensor t = scratch;
        const FloatTensor density = scratch[stride];
        const FloatTensor denominator = scratch[2 * stride];
        AscendC::Mins(slope, x, LARGEST, count);
        AscendC::Maxs(slope, slope, -LARGEST, count);
        AscendC::Abs(t, slope, count);
        Tail<false>(value, density, t, count);
        Denominator<false>(denominator, t, count);
        AscendC::Div(value, value, denominator, count);
        Select(value, t, denominator, x, ones, count);
        AscendC::Muls(slope, slope, INVERSE_SQRT_2PI, count);
        AscendC::Mul(slope, slope, density, count);
        AscendC::Add(slope, slope, value, count);
        AscendC::Mul(value, value, x, count);
    }

private:
    static constexpr bool NARROW = sizeof(T) == 2;
    static constexpr float LARGEST = 14.5f;
    static constexpr float INVERSE_SQRT_2PI = 0.3989422804014327f;
    static constexpr float STEEP = 1152921504606846976.0f;  // 2^60

    // density = exp(-t^2 / 2), dst = density * numerator of R
    template <bool COARSE>
    static __aicore__ inline void Tail(const FloatTensor& dst, const FloatTensor& density, const FloatTensor& t,
                                       int32_t count)
    {
        AscendC::Mul(density, t, t, count);
        AscendC::Muls(density, density, -0.5f, count);
        AscendC::Exp(density, density, count);
        if constexpr (COARSE) {
            AscendC::Muls(dst, t, 0.39937124f, count);
            AscendC::Adds(dst, dst, 1.77339681f, count);
            Horner(dst, t, 3.17836651f, count);
        } else {
            AscendC::Muls(dst, t, 0.39889859f, count);
            AscendC::Adds(dst, dst, 2.7896454f, count);
            Horner(dst, t, 8.43329823f, count);
            Horner(dst, t, 11.62160996f, count);
        }
        AscendC::Mul(dst, dst, density, count);
    }

    template <bool COARSE>
    static __aicore__ inline void Denominator(const FloatTensor& dst, const FloatTensor& t, int32_t count)
    {
        if constexpr (COARSE) {
            AscendC::Adds(dst, t, 4.47677018f, count);
            Horner(dst, t, 8.62351205f, count);
            Horner(dst, t, 6.35657438f, count);
        } else {
            AscendC::Adds(dst, t, 6.98808079f, count);
            Horner(dst, t, 22.21558591f, count);
            Horner(dst, t, 35.41156051f, count);
            Horner(dst, t, 23.24322892f, count);
        }
    }

    // phi holds Phi(-|x|) and gets Phi(x): max(q, min(1 - q, x * 2^60)) is q where x < 0 and 1 - q where x > 0; next to
    // 0 both are 1/2.
    static __aicore__ inline void Select(const FloatTensor& phi, const FloatTensor& upper, const FloatTensor& side,
                                         const FloatTensor& x, const FloatTensor& ones, int32_t count)
    {
        OneMinus(upper, ones, phi, count);
        AscendC::Muls(side, x, STEEP, count);
        AscendC::Min(upper, upper, side, count);
        AscendC::Max(phi, phi, upper, count);
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

    // With s = 1 / (1 + exp(-z)), z = A x + B x^3: value = x s, slope = s + x z' s (1 - s). All tensors are different.
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
        AscendC::Mul(value, x, s, count);
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
