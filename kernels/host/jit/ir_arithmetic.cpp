#include "jit/ir_arithmetic.h"

#include <cstring>

#include "simd/function_constants.h"

namespace AscendC {
namespace host {

namespace {

template <class F>
Vectors Each(const Vectors& values, F&& function)
{
    Vectors results;
    for (const std::string& value : values) {
        results.push_back(function(value));
    }
    return results;
}

}  // namespace

// ---- arithmetic

std::string IrArithmetic::Larger(const std::string& a, const std::string& b)
{
    return Select(Compare("ogt", a, b), a, b);
}

std::string IrArithmetic::Smaller(const std::string& a, const std::string& b)
{
    return Select(Compare("olt", a, b), a, b);
}

std::string IrArithmetic::Binary(Opcode opcode, const std::string& a, const std::string& b)
{
    switch (opcode) {
        case Opcode::ADD:
            return Op("fadd", a, b);
        case Opcode::SUB:
            return Op("fsub", a, b);
        case Opcode::MUL:
            return Op("fmul", a, b);
        case Opcode::DIV:
            return Op("fdiv", a, b);
        case Opcode::AND:
            return AsFloat(IntOp("and", AsInt(a), AsInt(b)));
        case Opcode::OR:
            return AsFloat(IntOp("or", AsInt(a), AsInt(b)));
        default:
            return Select(Compare("uno", a, a), a, opcode == Opcode::MAX ? Larger(a, b) : Smaller(a, b));
    }
}

// Returns the lanes in which one of the vectors is subnormal.
std::string IrArithmetic::AreSubnormal(const Vectors& x)
{
    std::string any;
    for (const std::string& value : x) {
        const std::string here = IsSubnormal(value);
        any = any.empty() ? here : Let("or " + masks_ + " " + any + ", " + here);
    }
    return any;
}

std::string IrArithmetic::HaveNan(const Vectors& x)
{
    std::string nans;
    for (size_t k = 0; k < x.size(); k += 2) {
        const std::string two = Compare("uno", x[k], x[k + 1 < x.size() ? k + 1 : k]);
        nans = nans.empty() ? two : Let("or " + masks_ + " " + nans + ", " + two);
    }
    return Any(nans, lanes_);
}

std::string IrArithmetic::Scalar(Opcode opcode, const std::string& a, float scalar)
{
    switch (opcode) {
        case Opcode::ADDS:
            return Op("fadd", a, Splat(scalar));
        case Opcode::MULS:
            return Op("fmul", a, Splat(scalar));
        case Opcode::MAXS:
            return Larger(Splat(scalar), a);
        default:
            return Smaller(Splat(scalar), a);
    }
}

std::string IrArithmetic::Axpy(const std::string& a, float scalar, const std::string& sum)
{
    return Fma(a, Splat(scalar), sum);
}

std::string IrArithmetic::Unary(Opcode opcode, const std::string& a)
{
    switch (opcode) {
        case Opcode::LN:
            return Ln(a);
        case Opcode::SQRT:
            return Intrinsic("sqrt", {a});
        case Opcode::ABS:
            return Intrinsic("fabs", {a});
        default:
            return Larger(Splat(0.0f), a);  // RELU
    }
}

// ---- exp

IrArithmetic::ExpParts IrArithmetic::SplitExp(const std::string& x)
{
    const std::string shifted = Fma(x, Splat(EXP_LOG2E), Splat(EXP_MAGIC));
    const std::string n = Op("fsub", shifted, Splat(EXP_MAGIC));
    const std::string r = Fma(n, Splat(-LN2_LOW), Fma(n, Splat(-LN2_HIGH), x));
    std::string p = Fma(Splat(EXP_POLYNOMIAL[0]), r, Splat(EXP_POLYNOMIAL[1]));
    for (const float coefficient : {EXP_POLYNOMIAL[2], EXP_POLYNOMIAL[3], EXP_POLYNOMIAL[4], 1.0f, 1.0f}) {
        p = Fma(p, r, Splat(coefficient));
    }
    return {p, shifted};
}

std::string IrArithmetic::PowerOfTwo(const std::string& n)
{
    return AsFloat(IntOp("shl", IntOp("add", n, SplatInt(127)), SplatInt(23)));
}

std::string IrArithmetic::ExpOfAny(const std::string& x)
{
    const ExpParts parts = SplitExp(Larger(Splat(EXP_LEAST), Smaller(Splat(EXP_MOST), x)));
    const std::string n = IntOp("sub", AsInt(parts.shifted), AsInt(Splat(EXP_MAGIC)));
    const std::string half1 = IntOp("ashr", n, SplatInt(1));
    const std::string half2 = IntOp("sub", n, half1);
    return Op("fmul", Op("fmul", parts.p, PowerOfTwo(half1)), PowerOfTwo(half2));
}

std::string IrArithmetic::ExpOfSmall(const std::string& x)
{
    const ExpParts parts = SplitExp(x);
    return AsFloat(IntOp("add", AsInt(parts.p), IntOp("shl", AsInt(parts.shifted), SplatInt(23))));
}

std::string IrArithmetic::ExpByTable(const std::string& x)
{
    const std::string shifted = Fma(x, Splat(EXP_LOG2E), Splat(EXP_TABLE_MAGIC));
    const std::string n = Op("fsub", shifted, Splat(EXP_TABLE_MAGIC));
    const std::string r = SmallerWithSign(Fma(n, Splat(-LN2_LOW), Fma(n, Splat(-LN2_HIGH), x)), EXP_TABLE_LIMIT);
    const std::string power = Lookup(EXP_TABLE, AsInt(shifted));
    const std::string q = Op("fmul", Fma(Splat(EXP_TABLE_C2), r, Splat(EXP_TABLE_C1)), r);
    return ScaledByPower(Fma(power, q, power), n);
}

Vectors IrArithmetic::Exp(const Vectors& x)
{
    if (lanes_ == AVX512_LANES) {
        return Each(x, [this](const std::string& value) { return ExpByTable(value); });
    }
    const auto ofAny = [&] { return Each(x, [this](const std::string& value) { return ExpOfAny(value); }); };
    const auto ofSmall = [&] { return Each(x, [this](const std::string& value) { return ExpOfSmall(value); }); };
    std::string largest;
    for (const std::string& value : x) {
        const std::string magnitude = IntOp("and", AsInt(value), SplatInt(0x7fffffff));
        if (largest.empty()) {
            largest = magnitude;
            continue;
        }
        const std::string larger = Let("icmp sgt " + integers_ + " " + magnitude + ", " + largest);
        largest = SelectInt(larger, magnitude, largest);
    }
    uint32_t limit;
    memcpy(&limit, &EXP_SMALL, sizeof(limit));
    const std::string large = Let("icmp sgt " + integers_ + " " + largest + ", " + SplatInt(limit));
    return Unless(Any(large, lanes_), ofSmall, ofAny);
}

// ---- ln

std::string IrArithmetic::Ln(const std::string& x)
{
    const std::string tiny = Compare("olt", x, Splat(LN_TINY));
    const std::string bits = AsInt(Select(tiny, Op("fmul", x, Splat(LN_SCALE)), x));
    std::string e = IntOp("and", IntOp("lshr", bits, SplatInt(23)), SplatInt(0xff));
    e = IntOp("sub", e, SplatInt(126));
    e = SelectInt(tiny, IntOp("sub", e, SplatInt(24)), e);
    std::string m = AsFloat(IntOp("or", IntOp("and", bits, SplatInt(0x007fffff)), SplatInt(0x3f000000)));
    const std::string low = Compare("olt", m, Splat(LN_SQRT_HALF));
    e = SelectInt(low, IntOp("sub", e, SplatInt(1)), e);
    m = Op("fsub", Select(low, Op("fadd", m, m), m), Splat(1.0f));
    const std::string ef = Let("sitofp " + integers_ + " " + e + " to " + floats_);
    const std::string z = Op("fmul", m, m);
    std::string p = Splat(LN_POLYNOMIAL[0]);
    for (size_t i = 1; i < LN_POLYNOMIAL.size(); ++i) {
        p = Fma(p, m, Splat(LN_POLYNOMIAL[i]));
    }
    std::string y = Op("fmul", Op("fmul", m, z), p);
    y = Fma(ef, Splat(LN2_LOW), y);
    y = Fma(z, Splat(-0.5f), y);
    std::string result = Fma(ef, Splat(LN2_HIGH), Op("fadd", m, y));
    const float infinity = __builtin_inff();
    result = Select(Compare("oeq", x, Splat(infinity)), Splat(infinity), result);
    result = Select(Compare("oeq", x, Splat(0.0f)), Splat(-infinity), result);
    return Select(Compare("ult", x, Splat(0.0f)), Splat(__builtin_nanf("")), result);
}

// ---- 16 bits

std::string IrArithmetic::Cleared(const std::string& bits, bool clear)
{
    return AsFloat(clear ? IntOp("and", bits, SplatInt(0xffff0000)) : bits);
}

std::string IrArithmetic::RoundNumber(const std::string& x, bool clear)
{
    const std::string bits = AsInt(x);
    const std::string odd =
        Let("icmp ne " + integers_ + " " + IntOp("and", bits, SplatInt(0x10000)) + ", zeroinitializer");
    const std::string up = IntOp("add", bits, SplatInt(0x8000));
    return Cleared(SelectInt(odd, up, IntOp("add", bits, SplatInt(0x7fff))), clear);
}

std::string IrArithmetic::RoundAny(const std::string& x, bool clear)
{
    const std::string number = AsInt(RoundNumber(x, clear));
    const std::string nan = IntOp("or", AsInt(x), SplatInt(0x400000));
    return Cleared(SelectInt(Compare("uno", x, x), nan, number), clear);
}

Vectors IrArithmetic::RoundToBFloat16(const Vectors& x, bool clear)
{
    const auto numbers = [&] { return Each(x, [&](const std::string& value) { return RoundNumber(value, clear); }); };
    const auto any = [&] { return Each(x, [&](const std::string& value) { return RoundAny(value, clear); }); };
    return Unless(HaveNan(x), numbers, any);
}

Vectors IrArithmetic::PackRounded(const Vectors& rounded, bool interleaved)
{
    const auto upper = [interleaved, this](uint32_t i) {
        if (!interleaved) {
            return 2 * i + 1;
        }
        return i % 2 == 0 ? i + 1 : 2 * lanes_ + i;
    };
    Vectors packed;
    for (size_t k = 0; k < rounded.size(); k += 2) {
        const std::string a = Let("bitcast " + floats_ + " " + rounded[k] + " to " + pairs_);
        const std::string b = Let("bitcast " + floats_ + " " + rounded[k + 1] + " to " + pairs_);
        packed.push_back(Let(Shuffle(pairs_, a, b, 2 * lanes_, upper)));
    }
    return packed;
}

Vectors IrArithmetic::PackAsBFloat16(const Vectors& x, bool interleaved, bool converts)
{
    if (!converts) {
        return PackRounded(RoundToBFloat16(x, false), interleaved);
    }
    const auto as = [this](const Vectors& values, const std::string& from, const std::string& to) {
        return Each(values, [&](const std::string& v) { return Let("bitcast " + from + " " + v + " to " + to); });
    };
    const auto turn = [this](uint32_t i) { return i % 2 * lanes_ + i / 2; };
    Vectors converted;
    std::string zeros;
    for (size_t k = 0; k < x.size(); k += 2) {
        const std::string both = ConvertToBFloat16(x[k], x[k + 1]);
        const std::string magnitude = Let("and " + pairs_ + " " + both + ", splat (i16 32767)");
        const std::string zero = Let("icmp eq " + pairs_ + " " + magnitude + ", zeroinitializer");
        zeros = zeros.empty() ? zero : Let("or " + Vector(2 * lanes_, "i1") + " " + zeros + ", " + zero);
        converted.push_back(interleaved ? Let(Shuffle(pairs_, both, "poison", 2 * lanes_, turn)) : both);
    }
    // A zero may have been a subnormal number; more often it was one.
    const auto usual = [&] { return as(converted, pairs_, floats_); };
    const auto rounded = [&] { return as(PackRounded(RoundToBFloat16(x, false), interleaved), pairs_, floats_); };
    const Vectors packed =
        Unless(Any(zeros, 2 * lanes_), usual, [&] { return Unless(Any(AreSubnormal(x), lanes_), usual, rounded); });
    return as(packed, floats_, pairs_);
}

Vectors IrArithmetic::RoundByConverting(const Vectors& x)
{
    const Vectors packed = PackAsBFloat16(x, false, true);
    Vectors rounded;
    for (uint32_t k = 0; k < x.size(); ++k) {
        const uint32_t first = k % 2 * lanes_;
        // This is one instruction, where FromPacked takes three.
        const auto upper = [first, this](uint32_t i) { return i % 2 == 0 ? 2 * lanes_ : first + i / 2; };
        const std::string wide = Let(Shuffle(pairs_, packed[k / 2], "zeroinitializer", 2 * lanes_, upper));
        rounded.push_back(Let("bitcast " + pairs_ + " " + wide + " to " + floats_));
    }
    return rounded;
}

std::string IrArithmetic::FromPacked(const std::string& pair, uint32_t second, bool interleaved)
{
    if (interleaved) {
        const std::string two = Let("bitcast " + pairs_ + " " + pair + " to " + integers_);
        return second == 0 ? AsFloat(IntOp("shl", two, SplatInt(16))) : Cleared(two, true);
    }
    const auto half = [second, this](uint32_t i) { return second * lanes_ + i; };
    return FromBFloat16(Let(Shuffle(pairs_, pair, "poison", lanes_, half)));
}

std::string IrArithmetic::FromTable(const LookupTable& table, const std::string& index)
{
    switch (table.type) {
        case ElementType::HALF: {
            const std::string entries = Gather(table.entries, "i16", index);
            return FromHalf(Let("trunc " + integers_ + " " + entries + " to " + halves_));
        }
        case ElementType::BFLOAT16:
            return AsFloat(IntOp("shl", Gather(table.entries, "i16", index), SplatInt(16)));
        default:
            return AsFloat(Gather(table.entries, "i32", index));
    }
}

std::string IrArithmetic::Widened(const std::string& bits)
{
    return Let("zext " + halves_ + " " + bits + " to " + integers_);
}

std::string IrArithmetic::WidenedOfPacked(const std::string& pair, uint32_t second)
{
    const std::string two = Let("bitcast " + pairs_ + " " + pair + " to " + integers_);
    return second == 0 ? IntOp("and", two, SplatInt(0xffff)) : IntOp("lshr", two, SplatInt(16));
}

std::string IrArithmetic::FromHalf(const std::string& bits)
{
    const std::string half = Let("bitcast " + halves_ + " " + bits + " to " + VectorOf("half"));
    return Let("fpext " + VectorOf("half") + " " + half + " to " + floats_);
}

std::string IrArithmetic::ToHalf(const std::string& x)
{
    const std::string half = Let("fptrunc " + floats_ + " " + x + " to " + VectorOf("half"));
    return Let("bitcast " + VectorOf("half") + " " + half + " to " + halves_);
}

std::string IrArithmetic::FromBFloat16(const std::string& bits)
{
    return AsFloat(IntOp("shl", Widened(bits), SplatInt(16)));
}

std::string IrArithmetic::UpperHalves(const std::string& x)
{
    const std::string upper = IntOp("lshr", AsInt(x), SplatInt(16));
    return Let("trunc " + integers_ + " " + upper + " to " + halves_);
}

}  // namespace host
}  // namespace AscendC
