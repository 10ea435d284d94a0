/*!
 * Instructions and types of Ascend C by their names, as Python gives them.
 */
#ifndef TESTS_HOST_CALLS_INSTRUCTIONS_H
#define TESTS_HOST_CALLS_INSTRUCTIONS_H

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include "host/kernel_operator.h"

namespace host_calls {

template <typename T>
T FromBits(uint32_t bits)
{
    T value;
    memcpy(&value, &bits, sizeof(T));
    return value;
}

// Calls `body` with the one of ROWS that has this name.
template <class... ROWS, class BODY>
void WithNamed(const std::string& name, BODY&& body)
{
    const auto is = [&](auto row) { return name == row.NAME && (body(row), true); };
    if (!(is(ROWS{}) || ...)) {
        throw std::invalid_argument("host_calls: unknown " + name);
    }
}

struct Float32 {
    static constexpr const char* NAME = "float32";
    using Type = float;
};
struct Float16 {
    static constexpr const char* NAME = "float16";
    using Type = half;
};
struct Bfloat16 {
    static constexpr const char* NAME = "bfloat16";
    using Type = bfloat16_t;
};
struct Int32 {
    static constexpr const char* NAME = "int32";
    using Type = int32_t;
};

// Calls `body` with a value of the named type, which is one of these.
template <class... TYPES, class BODY>
void WithType(const std::string& dtype, BODY&& body)
{
    WithNamed<TYPES...>(dtype, [&](auto row) { body(typename decltype(row)::Type{}); });
}

// An instruction as a value: by a count or by repeats, and by repeats with the mask register.
#define INSTRUCTION(FUNCTION)                                                                    \
    struct FUNCTION##Call {                                                                      \
        static constexpr const char* NAME = #FUNCTION;                                           \
        template <typename T, class... ARGUMENTS>                                                \
        void operator()(const AscendC::LocalTensor<T>& dst, const ARGUMENTS&... arguments) const \
        {                                                                                        \
            AscendC::FUNCTION(dst, arguments...);                                                \
        }                                                                                        \
        template <typename T, class... ARGUMENTS>                                                \
        void Unmasked(const AscendC::LocalTensor<T>& dst, const ARGUMENTS&... arguments) const   \
        {                                                                                        \
            AscendC::FUNCTION<T, false>(dst, arguments...);                                      \
        }                                                                                        \
    };
INSTRUCTION(Add)
INSTRUCTION(Sub)
INSTRUCTION(Mul)
INSTRUCTION(Div)
INSTRUCTION(Max)
INSTRUCTION(Min)
INSTRUCTION(Adds)
INSTRUCTION(Muls)
INSTRUCTION(Maxs)
INSTRUCTION(Mins)
INSTRUCTION(Exp)
INSTRUCTION(Ln)
INSTRUCTION(Sqrt)
INSTRUCTION(Abs)
INSTRUCTION(Relu)
#undef INSTRUCTION

// Calls `body` with the named instruction and a value of the named type, which the instruction has.
template <class BODY>
void WithBinary(const std::string& op, const std::string& dtype, BODY&& body)
{
    if (op == DivCall::NAME) {
        WithType<Float32, Float16>(dtype, [&](auto type) { body(DivCall{}, type); });
    } else {
        WithNamed<AddCall, SubCall, MulCall, MaxCall, MinCall>(
            op, [&](auto call) { WithType<Float32, Float16, Int32>(dtype, [&](auto type) { body(call, type); }); });
    }
}

template <class BODY>
void WithScalar(const std::string& op, const std::string& dtype, BODY&& body)
{
    WithNamed<AddsCall, MulsCall, MaxsCall, MinsCall>(
        op, [&](auto call) { WithType<Float32, Int32>(dtype, [&](auto type) { body(call, type); }); });
}

template <class BODY>
void WithUnary(const std::string& op, const std::string& dtype, BODY&& body)
{
    WithNamed<ExpCall, LnCall, SqrtCall, AbsCall, ReluCall>(
        op, [&](auto call) { WithType<Float32, Float16>(dtype, [&](auto type) { body(call, type); }); });
}

// Calls `body` with values of both types of a conversion that A2 has.
template <class BODY>
void WithCast(const std::string& to, const std::string& from, BODY&& body)
{
    const auto from_to = [&](auto type) { return [&, type](auto target) { body(target, type); }; };
    if (from == Float32::NAME) {
        WithType<Float32, Float16, Bfloat16, Int32>(to, from_to(float{}));
    } else if (from == Float16::NAME) {
        WithType<Float32, Int32>(to, from_to(half{}));
    } else if (from == Bfloat16::NAME) {
        WithType<Float32, Int32>(to, from_to(bfloat16_t{}));
    } else {
        WithType<Int32>(from, [&](auto type) { WithType<Float32>(to, from_to(type)); });
    }
}

}  // namespace host_calls

#endif  // TESTS_HOST_CALLS_INSTRUCTIONS_H
