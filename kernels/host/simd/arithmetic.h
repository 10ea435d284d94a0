/*!
 * Implements the operation of each Opcode on vectors, for vector_unit.cpp only.
 */
#ifndef ASCENDC_HOST_SIMD_ARITHMETIC_H
#define ASCENDC_HOST_SIMD_ARITHMETIC_H

#include "ir/instruction.h"
#include "simd/simd.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

template <typename T>
struct VectorOf {
    using Type = VF;
};
template <>
struct VectorOf<int32_t> {
    using Type = VI;
};

HOST_INLINE VF FromScalar(float s, VF)
{
    return Set(s);
}
HOST_INLINE VI FromScalar(float s, VI)
{
    int32_t value;
    memcpy(&value, &s, sizeof(value));
    return SetInt(value);
}

// Max and Min are as on A2: NaN in either operand gives NaN.
HOST_INLINE VF MaxOf(VF a, VF b)
{
    return Choose(a != a, a, LargerOf(a, b));
}
HOST_INLINE VF MinOf(VF a, VF b)
{
    return Choose(a != a, a, SmallerOf(a, b));
}
HOST_INLINE VI MaxOf(VI a, VI b)
{
    const VI m = a > b;
    return (m & a) | (~m & b);
}
HOST_INLINE VI MinOf(VI a, VI b)
{
    const VI m = a < b;
    return (m & a) | (~m & b);
}

// Integers wrap around, which signed arithmetic in C++ must not.
template <Opcode OP>
struct Arithmetic;
template <>
struct Arithmetic<Opcode::ADD> {
    static HOST_INLINE VF Apply(VF a, VF b) { return a + b; }
    static HOST_INLINE VI Apply(VI a, VI b)
    {
        return reinterpret_cast<VI>(reinterpret_cast<VU>(a) + reinterpret_cast<VU>(b));
    }
};
template <>
struct Arithmetic<Opcode::SUB> {
    static HOST_INLINE VF Apply(VF a, VF b) { return a - b; }
    static HOST_INLINE VI Apply(VI a, VI b)
    {
        return reinterpret_cast<VI>(reinterpret_cast<VU>(a) - reinterpret_cast<VU>(b));
    }
};
template <>
struct Arithmetic<Opcode::MUL> {
    static HOST_INLINE VF Apply(VF a, VF b) { return a * b; }
    static HOST_INLINE VI Apply(VI a, VI b)
    {
        return reinterpret_cast<VI>(reinterpret_cast<VU>(a) * reinterpret_cast<VU>(b));
    }
};
template <>
struct Arithmetic<Opcode::DIV> {
    static HOST_INLINE VF Apply(VF a, VF b) { return a / b; }
};
template <>
struct Arithmetic<Opcode::MAX> {
    template <class V>
    static HOST_INLINE V Apply(V a, V b)
    {
        return MaxOf(a, b);
    }
};
template <>
struct Arithmetic<Opcode::MIN> {
    template <class V>
    static HOST_INLINE V Apply(V a, V b)
    {
        return MinOf(a, b);
    }
};
template <>
struct Arithmetic<Opcode::AND> {
    static HOST_INLINE VF Apply(VF a, VF b) { return AsFloat(AsInt(a) & AsInt(b)); }
};
template <>
struct Arithmetic<Opcode::OR> {
    static HOST_INLINE VF Apply(VF a, VF b) { return AsFloat(AsInt(a) | AsInt(b)); }
};
template <>
struct Arithmetic<Opcode::ADDS> : Arithmetic<Opcode::ADD> {};
template <>
struct Arithmetic<Opcode::MULS> : Arithmetic<Opcode::MUL> {};
// The scalar comes first, so that NaN comes out where the elements are. It is not NaN itself (ScalarLoops).
template <>
struct Arithmetic<Opcode::MAXS> {
    static HOST_INLINE VF Apply(VF a, VF scalar) { return LargerOf(scalar, a); }
    static HOST_INLINE VI Apply(VI a, VI scalar) { return MaxOf(a, scalar); }
};
template <>
struct Arithmetic<Opcode::MINS> {
    static HOST_INLINE VF Apply(VF a, VF scalar) { return SmallerOf(scalar, a); }
    static HOST_INLINE VI Apply(VI a, VI scalar) { return MinOf(a, scalar); }
};
template <>
struct Arithmetic<Opcode::EXP> {
    static HOST_INLINE VF Apply(VF a) { return ExpOf(a); }
};
template <>
struct Arithmetic<Opcode::LN> {
    static HOST_INLINE VF Apply(VF a) { return LnOf(a); }
};
template <>
struct Arithmetic<Opcode::SQRT> {
    static HOST_INLINE VF Apply(VF a) { return SqrtOf(a); }
};
template <>
struct Arithmetic<Opcode::ABS> {
    static HOST_INLINE VF Apply(VF a) { return AsFloat(AsInt(a) & 0x7fffffff); }
};
template <>
struct Arithmetic<Opcode::RELU> {
    static HOST_INLINE VF Apply(VF a) { return LargerOf(Set(0.0f), a); }
};

template <>
struct Arithmetic<Opcode::AXPY> {
    static HOST_INLINE VF Apply(VF a, VF scalar, VF sum) { return Fma(a, scalar, sum); }
};

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_ARITHMETIC_H
