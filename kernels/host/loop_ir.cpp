#include "loop_ir.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "function_constants.h"

namespace AscendC {
namespace host {

namespace {

// As LLVM wants it: the bits of the same number as a double.
std::string Number(float value)
{
    const double wide = value;
    uint64_t bits;
    memcpy(&bits, &wide, sizeof(bits));
    char text[32];
    std::snprintf(text, sizeof(text), "0x%016llX", static_cast<unsigned long long>(bits));
    return text;
}

using Vectors = std::vector<std::string>;  // names of values

class LoopWriter {
public:
    LoopWriter(const LoopForm& form, uint32_t lanes)
        : form_(form),
          lanes_(lanes),
          byRow_(form.rowElements > 0),
          paired_(Pairs(form, lanes)),
          floats_(VectorOf("float")),
          integers_(VectorOf("i32")),
          halves_(VectorOf("i16")),
          masks_(VectorOf("i1"))
    {
    }

    std::string Write(const std::string& name)
    {
        Prepare();
        const uint32_t elements = byRow_ ? form_.rowElements : AtOnce();
        const uint32_t vectors = elements / lanes_;
        const uint32_t together = VectorsAtOnce();
        valid_ = lanes_;
        for (first_ = 0; first_ < vectors; first_ += count_) {
            count_ = vectors - first_ < together ? vectors - first_ : together;
            EmitAll();
        }
        valid_ = elements % lanes_;
        if (valid_ > 0) {
            count_ = 1;
            EmitAll();
        }
        if (byRow_) {
            body_ += StoreLanes();
        }
        return Module(name);
    }

private:
    static constexpr uint32_t OPERANDS = LoopLink::NO_OPERAND;
    static constexpr uint32_t AVX512_LANES = 16;
    static constexpr uint32_t LANES_OF_128_BITS = 4;
    static constexpr uint32_t REPEAT = 64;  // floats in one

    // Do two vectors hold the even and the odd ones of twice as many elements? bfloat16 comes apart into these, and
    // together again, by half the instructions. Floats in memory need some for it.
    static bool Pairs(const LoopForm& form, uint32_t lanes)
    {
        int32_t gain = 0;
        for (const LoopLink& link : form.links) {
            const Access access = AccessOf(link.link);
            const bool stores = link.link == Link::STORE_FLOAT || link.link == Link::STORE_BFLOAT16 ||
                                link.link == Link::CAST_BFLOAT16;
            if (access == Access::HALF) {
                return false;
            }
            if (access == Access::BFLOAT16) {
                gain += stores ? static_cast<int32_t>(link.needed) : 2;
            } else if (access == Access::FLOAT && (!stores || link.needed != 0)) {
                gain -= 2;
            }
        }
        return form.rowElements == 0 && lanes > LANES_OF_128_BITS && gain > 0;
    }
    void EmitAll()
    {
        known_.assign(OPERANDS, {});
        value_.clear();
        for (const LoopLink& link : form_.links) {
            Emit(link);
        }
    }

    // ---- text

    std::string VectorOf(const char* type) const { return "<" + std::to_string(lanes_) + " x " + type + ">"; }
    std::string Fresh() { return "%v" + std::to_string(names_++); }
    std::string Let(const std::string& operation)
    {
        std::string name = Fresh();
        Line(name + " = " + operation);
        return name;
    }
    void Line(const std::string& text) { body_ += "  " + text + "\n"; }
    void Label(const std::string& label)
    {
        body_ += label + ":\n";
        label_ = label;
    }
    std::string Splat(float value) const { return "splat (float " + Number(value) + ")"; }
    static std::string SplatInt(uint32_t value) { return "splat (i32 " + std::to_string(value) + ")"; }

    std::string Op(const char* operation, const std::string& a, const std::string& b)
    {
        return Let(std::string(operation) + " " + floats_ + " " + a + ", " + b);
    }
    std::string IntOp(const char* operation, const std::string& a, const std::string& b)
    {
        return Let(std::string(operation) + " " + integers_ + " " + a + ", " + b);
    }
    std::string Compare(const char* condition, const std::string& a, const std::string& b)
    {
        return Let(std::string("fcmp ") + condition + " " + floats_ + " " + a + ", " + b);
    }
    std::string Select(const std::string& mask, const std::string& yes, const std::string& no)
    {
        return SelectOf(floats_, mask, yes, no);
    }
    std::string SelectOf(const std::string& type, const std::string& mask, const std::string& yes,
                         const std::string& no)
    {
        return Let("select " + masks_ + " " + mask + ", " + type + " " + yes + ", " + type + " " + no);
    }
    std::string Intrinsic(const char* function, const std::vector<std::string>& arguments)
    {
        std::string text = "call " + floats_ + " @llvm." + function + ".v" + std::to_string(lanes_) + "f32(";
        for (size_t i = 0; i < arguments.size(); ++i) {
            text += (i > 0 ? ", " : "") + floats_ + " " + arguments[i];
        }
        return Let(text + ")");
    }
    std::string Fma(const std::string& a, const std::string& b, const std::string& c)
    {
        return Intrinsic("fma", {a, b, c});
    }
    std::string AsInt(const std::string& a) { return Let("bitcast " + floats_ + " " + a + " to " + integers_); }
    std::string AsFloat(const std::string& a) { return Let("bitcast " + integers_ + " " + a + " to " + floats_); }

    // ---- memory

    static std::string Base(uint8_t operand) { return "%base" + std::to_string(operand); }
    static std::string Lane(uint8_t operand, uint32_t k, const char* when)
    {
        return "%lanes" + std::to_string(operand) + "_" + std::to_string(k) + when;
    }

    // What comes before the loop: addresses; and before it, or before each row, DataBlocks and lanes that collect.
    void Prepare()
    {
        for (const LoopLink& link : form_.links) {
            if (link.operand == LoopLink::NO_OPERAND || access_[link.operand] != Access::NONE) {
                continue;
            }
            const Access access = AccessOf(link.link);
            access_[link.operand] = access;
            const std::string number = std::to_string(link.operand);
            const size_t offset = link.index * sizeof(ChainLink) + offsetof(ChainLink, base);
            entry_ += "  %place" + number + " = getelementptr i8, ptr %links, i64 " + std::to_string(offset) + "\n";
            entry_ += "  " + (byRow_ ? "%origin" + number : Base(link.operand)) + " = load ptr, ptr %place" + number + "\n";
            std::string& before = byRow_ ? body_ : entry_;
            if (byRow_) {
                body_ += "  %down" + number + " = mul i64 %i, " + std::to_string(form_.strides[link.operand]) + "\n";
                body_ += "  " + Base(link.operand) + " = getelementptr i8, ptr %origin" + number + ", i64 %down" +
                         number + "\n";
            }
            if (access == Access::BLOCK) {
                PrepareBlock(link.operand, before);
            } else if (access == Access::LANES) {
                PrepareLanes(link.operand, before);
            }
        }
    }
    // A DataBlock is read once: nothing in the loop writes to it.
    void PrepareBlock(uint8_t operand, std::string& before)
    {
        constexpr uint32_t LENGTH = 8;
        const std::string number = std::to_string(operand);
        before += "  %block" + number + " = load <8 x float>, ptr " + Base(operand) + ", align 4\n";
        for (uint32_t part = 0; part < BlockParts(); ++part) {
            std::string indices;
            for (uint32_t i = 0; i < lanes_; ++i) {
                const uint32_t element = paired_ ? 2 * i + part : part * lanes_ + i;
                indices += (i > 0 ? ", i32 " : "i32 ") + std::to_string(element % LENGTH);
            }
            before += "  %block" + number + "_" + std::to_string(part) + " = shufflevector <8 x float> %block" +
                      number + ", <8 x float> poison, " + VectorOf("i32") + " <" + indices + ">\n";
        }
    }
    // Different vectors that a DataBlock makes when it is repeated.
    uint32_t BlockParts() const { return paired_ ? 2 : (lanes_ < 8 ? 8 / lanes_ : 1); }

    void PrepareLanes(uint8_t operand, std::string& before)
    {
        for (uint32_t k = 0; k < REPEAT / lanes_; ++k) {
            const std::string at = Lane(operand, k, ".at");
            before += "  " + at + " = getelementptr float, ptr " + Base(operand) + ", i64 " +
                      std::to_string(k * lanes_) + "\n";
            before += "  " + Lane(operand, k, paired_ ? ".there" : ".first") + " = load " + floats_ + ", ptr " + at +
                      ", align 4\n";
            sums_[operand][k] = Lane(operand, k, byRow_ ? ".first" : "");
            collected_.push_back({operand, k});
        }
        for (uint32_t k = 0; k < REPEAT / lanes_ && paired_; ++k) {
            before += "  " + Lane(operand, k, ".first") + " = " +
                      Apart(Lane(operand, k & ~1u, ".there"), Lane(operand, k | 1u, ".there"), k % 2) + "\n";
        }
    }
    // The even elements of two vectors, or the odd ones.
    std::string Apart(const std::string& a, const std::string& b, uint32_t odd) const
    {
        std::string indices;
        for (uint32_t i = 0; i < lanes_; ++i) {
            indices += (i > 0 ? ", i32 " : "i32 ") + std::to_string(2 * i + odd);
        }
        return "shufflevector " + floats_ + " " + a + ", " + floats_ + " " + b + ", " + VectorOf("i32") + " <" +
               indices + ">";
    }
    // The first vector, or the second, of what Apart has taken apart.
    std::string Together(const std::string& even, const std::string& odd, uint32_t second) const
    {
        std::string indices;
        for (uint32_t i = 0; i < lanes_; ++i) {
            indices += (i > 0 ? ", i32 " : "i32 ") +
                       std::to_string(second * lanes_ / 2 + i / 2 + i % 2 * lanes_);
        }
        return "shufflevector " + floats_ + " " + even + ", " + floats_ + " " + odd + ", " + VectorOf("i32") + " <" +
               indices + ">";
    }

    std::string StoreLanes() const
    {
        std::string text;
        for (const auto& [operand, k] : collected_) {
            std::string sum = sums_[operand][k];
            if (paired_) {
                sum = Lane(operand, k, ".last");
                text += "  " + sum + " = " + Together(sums_[operand][k & ~1u], sums_[operand][k | 1u], k % 2) + "\n";
            }
            text += "  store " + floats_ + " " + sum + ", ptr " + Lane(operand, k, ".at") + ", align 4\n";
        }
        return text;
    }

    std::string Address(const LoopLink& link, uint32_t k, const char* type)
    {
        const std::string begin =
            byRow_ ? Base(link.operand)
                   : Let(std::string("getelementptr ") + type + ", ptr " + Base(link.operand) + ", i64 %i");
        return Let(std::string("getelementptr ") + type + ", ptr " + begin + ", i64 " +
                   std::to_string((first_ + k) * lanes_));
    }
    // The elements of an operand as floats; those that the loop knows are not read.
    const Vectors& Read(const LoopLink& link)
    {
        Vectors& known = known_[link.operand];
        if (known.empty()) {
            for (uint32_t k = 0; k < count_; ++k) {
                known.push_back(paired_ && access_[link.operand] == Access::BFLOAT16 ? ReadOfPair(link, k)
                                                                                    : ReadVector(link, k));
            }
            for (uint32_t k = 0; k < count_ && paired_ && access_[link.operand] == Access::FLOAT; k += 2) {
                const std::string even = Let(Apart(known[k], known[k + 1], 0));
                known[k + 1] = Let(Apart(known[k], known[k + 1], 1));
                known[k] = even;
            }
        }
        return known;
    }
    // An element is in either half of 32 bits.
    std::string ReadOfPair(const LoopLink& link, uint32_t k)
    {
        const std::string pair = Let("load " + integers_ + ", ptr " + Address(link, k & ~1u, "i16") + ", align 2");
        return AsFloat(k % 2 == 0 ? IntOp("shl", pair, SplatInt(16)) : IntOp("and", pair, SplatInt(0xffff0000)));
    }
    std::string ReadVector(const LoopLink& link, uint32_t k)
    {
        const Access access = access_[link.operand];
        if (access == Access::FLOAT) {
            return Load("float", Address(link, k, "float"), ", align 4");
        }
        const std::string bits = Load("i16", Address(link, k, "i16"), ", align 2");
        return access == Access::HALF ? FromHalf(bits) : FromBFloat16(bits);
    }
    // The lanes behind the last valid one are zeros.
    std::string Load(const char* type, const std::string& address, const char* alignment)
    {
        if (valid_ == lanes_) {
            return Let("load " + VectorOf(type) + ", ptr " + address + alignment);
        }
        const std::string part = Part(type);
        const std::string some = Let("load " + part + ", ptr " + address + alignment);
        std::string indices;
        for (uint32_t i = 0; i < lanes_; ++i) {
            indices += (i > 0 ? ", i32 " : "i32 ") + std::to_string(i < valid_ ? i : valid_);
        }
        return Let("shufflevector " + part + " " + some + ", " + part + " zeroinitializer, " + VectorOf("i32") + " <" +
                   indices + ">");
    }
    void Store(const char* type, const std::string& value, const std::string& address, const char* alignment)
    {
        std::string stored = VectorOf(type) + " " + value;
        if (valid_ < lanes_) {
            std::string indices;
            for (uint32_t i = 0; i < valid_; ++i) {
                indices += (i > 0 ? ", i32 " : "i32 ") + std::to_string(i);
            }
            stored = Part(type) + " " +
                     Let("shufflevector " + stored + ", " + VectorOf(type) + " poison, <" + std::to_string(valid_) +
                         " x i32> <" + indices + ">");
        }
        Line("store " + stored + ", ptr " + address + alignment);
    }
    std::string Part(const char* type) const { return "<" + std::to_string(valid_) + " x " + type + ">"; }

    std::string FromHalf(const std::string& bits)
    {
        const std::string half = Let("bitcast " + halves_ + " " + bits + " to " + VectorOf("half"));
        return Let("fpext " + VectorOf("half") + " " + half + " to " + floats_);
    }
    std::string FromBFloat16(const std::string& bits)
    {
        const std::string wide = Let("zext " + halves_ + " " + bits + " to " + integers_);
        return AsFloat(IntOp("shl", wide, SplatInt(16)));
    }
    std::string Halves(const std::string& value)
    {
        return Let("fptrunc " + floats_ + " " + value + " to " + VectorOf("half"));
    }

    void Keep(const LoopLink& link)
    {
        for (uint32_t k = 0; k < count_ && link.needed; ++k) {
            const std::string value = paired_ ? Let(Together(value_[k & ~1u], value_[k | 1u], k % 2)) : value_[k];
            Store("float", value, Address(link, k, "float"), ", align 4");
        }
        known_[link.operand] = value_;
    }
    void KeepHalf(const LoopLink& link)
    {
        Vectors rounded;
        for (uint32_t k = 0; k < count_; ++k) {
            const std::string half = Halves(value_[k]);
            if (link.needed) {
                Store("half", half, Address(link, k, "i16"), ", align 2");
            }
            rounded.push_back(Let("fpext " + VectorOf("half") + " " + half + " to " + floats_));
        }
        known_[link.operand] = rounded;
    }
    // The upper halves, of two vectors at a time where there are two.
    void KeepBFloat16(const LoopLink& link)
    {
        const std::string pairs = "<" + std::to_string(2 * lanes_) + " x i16>";
        std::string odd;
        for (uint32_t i = 0; i < 2 * lanes_; ++i) {
            odd += (i > 0 ? ", i32 " : "i32 ") + std::to_string(2 * i + 1);
        }
        const bool one = count_ % 2 == 1;
        for (uint32_t k = 0; k < count_ && link.needed && one; ++k) {
            const std::string upper = IntOp("lshr", AsInt(value_[k]), SplatInt(16));
            const std::string halves = Let("trunc " + integers_ + " " + upper + " to " + halves_);
            Store("i16", halves, Address(link, k, "i16"), ", align 2");
        }
        for (uint32_t k = 0; k < count_ && link.needed && paired_; k += 2) {
            const std::string even = IntOp("lshr", AsInt(value_[k]), SplatInt(16));
            const std::string both = IntOp("or", IntOp("and", AsInt(value_[k + 1]), SplatInt(0xffff0000)), even);
            Line("store " + integers_ + " " + both + ", ptr " + Address(link, k, "i16") + ", align 2");
        }
        for (uint32_t k = 0; k < count_ && link.needed && !one && !paired_; k += 2) {
            const std::string a = Let("bitcast " + floats_ + " " + value_[k] + " to " + pairs);
            const std::string b = Let("bitcast " + floats_ + " " + value_[k + 1] + " to " + pairs);
            const std::string both = Let("shufflevector " + pairs + " " + a + ", " + pairs + " " + b + ", <" +
                                         std::to_string(2 * lanes_) + " x i32> <" + odd + ">");
            Line("store " + pairs + " " + both + ", ptr " + Address(link, k, "i16") + ", align 2");
        }
    }

    // ---- branches

    // `likely`, or if any lane of the mask is set, `unlikely`: lists of equally many vectors.
    Vectors Unless(const std::string& mask, const std::function<Vectors()>& likely,
                   const std::function<Vectors()>& unlikely)
    {
        const std::string any = Let("call i1 @llvm.vector.reduce.or.v" + std::to_string(lanes_) + "i1(" + masks_ + " " +
                                    mask + ")");
        const std::string number = std::to_string(names_++);
        Line("br i1 " + any + ", label %rare" + number + ", label %usual" + number + ", !prof !0");
        Label("usual" + number);
        const Vectors usual = likely();
        const std::string fromUsual = label_;
        Line("br label %then" + number);
        Label("rare" + number);
        const Vectors rare = unlikely();
        const std::string fromRare = label_;
        Line("br label %then" + number);
        Label("then" + number);
        Vectors result;
        for (size_t k = 0; k < usual.size(); ++k) {
            result.push_back(Let("phi " + floats_ + " [ " + usual[k] + ", %" + fromUsual + " ], [ " + rare[k] + ", %" +
                                 fromRare + " ]"));
        }
        return result;
    }

    // ---- what is known of values that are not NaN

    struct Range {
        float least = -__builtin_inff();
        float most = __builtin_inff();
    };
    Range RangeOf(const std::string& value) const
    {
        const auto known = ranges_.find(value);
        return known == ranges_.end() ? Range{} : known->second;
    }
    std::string WithRange(const std::string& value, const Range& range)
    {
        ranges_[value] = range;
        return value;
    }
    std::string Abs(const std::string& a)
    {
        const Range range = RangeOf(a);
        return WithRange(Intrinsic("fabs", {a}), {0.0f, std::max(std::fabs(range.least), std::fabs(range.most))});
    }
    std::string Limit(float scalar, const std::string& a, bool above)
    {
        Range range = RangeOf(a);
        if (above) {
            range.most = std::min(range.most, scalar);
            return WithRange(Smaller(Splat(scalar), a), range);
        }
        range.least = std::max(range.least, scalar);
        return WithRange(Larger(Splat(scalar), a), range);
    }
    std::string Scaled(const std::string& a, float scalar)
    {
        const Range range = RangeOf(a);
        std::string scaled = Op("fmul", a, Splat(scalar));
        const float ends[] = {range.least * scalar, range.most * scalar};  // NaN, as 0 * infinity, says nothing
        return ends[0] == ends[0] && ends[1] == ends[1]
                   ? WithRange(scaled, {std::min(ends[0], ends[1]), std::max(ends[0], ends[1])})
                   : scaled;
    }
    std::string Square(const std::string& a)
    {
        const Range range = RangeOf(a);
        const float most = std::max(std::fabs(range.least), std::fabs(range.most));
        return WithRange(Op("fmul", a, a), {0.0f, most * most});
    }

    // ---- arithmetic: see simd.h and arithmetic.h

    std::string Larger(const std::string& a, const std::string& b) { return Select(Compare("ogt", a, b), a, b); }
    std::string Smaller(const std::string& a, const std::string& b) { return Select(Compare("olt", a, b), a, b); }
    std::string IsNan(const std::string& a) { return Compare("uno", a, a); }

    std::string Binary(Opcode opcode, const std::string& a, const std::string& b)
    {
        switch (opcode) {
            case Opcode::ADD:
                return Op("fadd", a, b);
            case Opcode::SUB:
                return Op("fsub", a, b);
            case Opcode::MUL:
                return a == b ? Square(a) : Op("fmul", a, b);
            case Opcode::DIV:
                return Op("fdiv", a, b);
            case Opcode::MAX:
                return Select(IsNan(a), a, Larger(a, b));
            default:
                return Select(IsNan(a), a, Smaller(a, b));
        }
    }

    // exp(r) of what is left of x, and the integer n, in the low bits of `shifted` and as a float.
    struct ExpParts {
        std::string p;
        std::string shifted;
        std::string n;
    };
    ExpParts SplitExp(const std::string& x)
    {
        const std::string shifted = Fma(x, Splat(EXP_LOG2E), Splat(EXP_MAGIC));
        const std::string n = Op("fsub", shifted, Splat(EXP_MAGIC));
        const std::string r = Fma(n, Splat(-LN2_LOW), Fma(n, Splat(-LN2_HIGH), x));
        std::string p = Fma(Splat(EXP_POLYNOMIAL[0]), r, Splat(EXP_POLYNOMIAL[1]));
        for (const float coefficient :
             {EXP_POLYNOMIAL[2], EXP_POLYNOMIAL[3], EXP_POLYNOMIAL[4], 1.0f, 1.0f}) {
            p = Fma(p, r, Splat(coefficient));
        }
        return {p, shifted, n};
    }
    std::string ExpOfAny(const std::string& x)
    {
        // Where x is small enough to be rounded to an integer, scalef gives the same 0 and infinity without the limits.
        const Range range = lanes_ == AVX512_LANES ? RangeOf(x) : Range{};
        std::string limited = x;
        if (range.most > EXP_ROUNDS) {
            limited = Smaller(Splat(EXP_MOST), limited);
        }
        if (range.least < -EXP_ROUNDS) {
            limited = Larger(Splat(EXP_LEAST), limited);
        }
        const ExpParts parts = SplitExp(limited);
        if (lanes_ == AVX512_LANES) {
            return Let("call " + floats_ + " @llvm.x86.avx512.mask.scalef.ps.512(" + floats_ + " " + parts.p + ", " +
                       floats_ + " " + parts.n + ", " + floats_ + " zeroinitializer, i16 -1, i32 4)");
        }
        const std::string n = IntOp("sub", AsInt(parts.shifted), AsInt(Splat(EXP_MAGIC)));
        const std::string half1 = IntOp("ashr", n, SplatInt(1));
        const std::string half2 = IntOp("sub", n, half1);
        return Op("fmul", Op("fmul", parts.p, PowerOfTwo(half1)), PowerOfTwo(half2));
    }
    std::string PowerOfTwo(const std::string& n)
    {
        return AsFloat(IntOp("shl", IntOp("add", n, SplatInt(127)), SplatInt(23)));
    }
    std::string ExpOfSmall(const std::string& x)
    {
        const ExpParts parts = SplitExp(x);
        return AsFloat(IntOp("add", AsInt(parts.p), IntOp("shl", AsInt(parts.shifted), SplatInt(23))));
    }
    void Exp()
    {
        const auto all = [this](auto function) {
            return [this, function] {
                Vectors result;
                for (const std::string& x : value_) {
                    result.push_back((this->*function)(x));
                }
                return result;
            };
        };
        if (lanes_ == AVX512_LANES) {  // has an instruction for any exponent
            value_ = all(&LoopWriter::ExpOfAny)();
            return;
        }
        std::string largest;
        for (const std::string& x : value_) {
            const std::string magnitude = IntOp("and", AsInt(x), SplatInt(0x7fffffff));
            if (largest.empty()) {
                largest = magnitude;
                continue;
            }
            const std::string larger = Let("icmp sgt " + integers_ + " " + magnitude + ", " + largest);
            largest = SelectOf(integers_, larger, magnitude, largest);
        }
        uint32_t limit;
        memcpy(&limit, &EXP_SMALL, sizeof(limit));
        const std::string large = Let("icmp sgt " + integers_ + " " + largest + ", " + SplatInt(limit));
        value_ = Unless(large, all(&LoopWriter::ExpOfSmall), all(&LoopWriter::ExpOfAny));
    }

    std::string Ln(const std::string& x)
    {
        const std::string tiny = Compare("olt", x, Splat(LN_TINY));
        const std::string scaled = Select(tiny, Op("fmul", x, Splat(LN_SCALE)), x);
        const std::string bits = AsInt(scaled);
        std::string e = IntOp("and", IntOp("lshr", bits, SplatInt(23)), SplatInt(0xff));
        e = IntOp("sub", e, SplatInt(126));
        e = SelectOf(integers_, tiny, IntOp("sub", e, SplatInt(24)), e);
        std::string m = AsFloat(IntOp("or", IntOp("and", bits, SplatInt(0x007fffff)), SplatInt(0x3f000000)));
        const std::string low = Compare("olt", m, Splat(LN_SQRT_HALF));
        e = SelectOf(integers_, low, IntOp("sub", e, SplatInt(1)), e);
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
        const std::string infinity = Splat(__builtin_inff());
        result = Select(Compare("oeq", x, infinity), infinity, result);
        result = Select(Compare("oeq", x, Splat(0.0f)), Splat(-__builtin_inff()), result);
        return Select(Compare("ult", x, Splat(0.0f)), Splat(__builtin_nanf("")), result);
    }

    // ---- rounding to bfloat16, the bits in the upper halves; below them anything, or with `clear` zeros

    std::string RoundNumber(const std::string& x, bool clear)
    {
        const std::string bits = AsInt(x);
        const std::string odd =
            Let("icmp ne " + integers_ + " " + IntOp("and", bits, SplatInt(0x10000)) + ", zeroinitializer");
        return Cleared(SelectOf(integers_, odd, IntOp("add", bits, SplatInt(0x8000)),
                                IntOp("add", bits, SplatInt(0x7fff))),
                       clear);
    }
    std::string RoundAny(const std::string& x, bool clear)
    {
        const std::string number = AsInt(RoundNumber(x, clear));
        const std::string nan = IntOp("or", AsInt(x), SplatInt(0x400000));
        return Cleared(SelectOf(integers_, IsNan(x), nan, number), clear);
    }
    std::string Cleared(const std::string& bits, bool clear)
    {
        return AsFloat(clear ? IntOp("and", bits, SplatInt(0xffff0000)) : bits);
    }
    void RoundBFloat16(bool clear)
    {
        std::string nans;
        for (size_t k = 0; k < value_.size(); k += 2) {
            const std::string two = Compare("uno", value_[k], value_[k + 1 < value_.size() ? k + 1 : k]);
            nans = nans.empty() ? two : Let("or " + masks_ + " " + nans + ", " + two);
        }
        const auto all = [this, clear](auto function) {
            return [this, clear, function] {
                Vectors result;
                for (const std::string& x : value_) {
                    result.push_back((this->*function)(x, clear));
                }
                return result;
            };
        };
        value_ = Unless(nans, all(&LoopWriter::RoundNumber), all(&LoopWriter::RoundAny));
    }

    // ---- links

    void Each(const std::function<std::string(const std::string&)>& function)
    {
        for (std::string& v : value_) {
            v = function(v);
        }
    }
    void Collect(const LoopLink& link, Opcode opcode)
    {
        for (uint32_t k = 0; k < count_; ++k) {
            std::string& sum = sums_[link.operand][(first_ + k) % (REPEAT / lanes_)];
            const std::string more = Binary(opcode, value_[k], sum);
            sum = valid_ < lanes_ ? Select(FirstLanes(), more, sum) : more;
        }
    }
    std::string FirstLanes() const
    {
        std::string lanes;
        for (uint32_t i = 0; i < lanes_; ++i) {
            lanes += std::string(i > 0 ? ", i1 " : "i1 ") + (i < valid_ ? "true" : "false");
        }
        return "<" + lanes + ">";
    }
    std::string SecondOf(const LoopLink& link, uint32_t k)
    {
        switch (OtherOf(link.link)) {
            case Other::SELF:
                return value_[k];
            case Other::BLOCK: {
                return "%block" + std::to_string(link.operand) + "_" + std::to_string((first_ + k) % BlockParts());
            }
            default:
                return Read(link)[k];
        }
    }
    void EmitBinary(const LoopLink& link)
    {
        const Opcode opcode = OpcodeOf(link.link);
        for (uint32_t k = 0; k < count_; ++k) {
            const std::string other = SecondOf(link, k);
            value_[k] =
                IsSwapped(link.link) ? Binary(opcode, other, value_[k]) : Binary(opcode, value_[k], other);
        }
    }
    void Emit(const LoopLink& link)
    {
        const std::string scalar = Splat(link.scalar);
        switch (link.link) {
            case Link::LOAD_FLOAT:
            case Link::LOAD_HALF:
            case Link::LOAD_BFLOAT16:
                value_ = Read(link);
                break;
            case Link::STORE_FLOAT:
                Keep(link);
                break;
            case Link::STORE_HALF:
                KeepHalf(link);
                break;
            case Link::CAST_BFLOAT16:
                RoundBFloat16(false);
                KeepBFloat16(link);
                Each([this](const std::string& v) { return Cleared(AsInt(v), true); });
                known_[link.operand] = value_;
                break;
            case Link::STORE_BFLOAT16:
                KeepBFloat16(link);
                known_[link.operand] = value_;
                break;
            case Link::ROUND_HALF:
                Each([this](const std::string& v) {
                    return Let("fpext " + VectorOf("half") + " " + Halves(v) + " to " + floats_);
                });
                break;
            case Link::ROUND_BFLOAT16:
                RoundBFloat16(true);
                break;
            case Link::ADDS:
                Each([&](const std::string& v) { return Op("fadd", v, scalar); });
                break;
            case Link::MULS:
                Each([&](const std::string& v) { return Scaled(v, link.scalar); });
                break;
            case Link::MAXS:
                Each([&](const std::string& v) { return Limit(link.scalar, v, false); });
                break;
            case Link::MINS:
                Each([&](const std::string& v) { return Limit(link.scalar, v, true); });
                break;
            case Link::EXP:
                Exp();
                break;
            case Link::LN:
                Each([this](const std::string& v) { return Ln(v); });
                break;
            case Link::SQRT:
                Each([this](const std::string& v) { return Intrinsic("sqrt", {v}); });
                break;
            case Link::ABS:
                Each([this](const std::string& v) { return Abs(v); });
                break;
            case Link::RELU:
                Each([this](const std::string& v) { return Larger(Splat(0.0f), v); });
                break;
            case Link::AXPY: {
                const Vectors other = Read(link);
                for (uint32_t k = 0; k < count_; ++k) {
                    value_[k] = Fma(other[k], scalar, value_[k]);
                }
                break;
            }
            case Link::SUM:
                Collect(link, Opcode::ADD);
                break;
            case Link::LARGEST:
                Collect(link, Opcode::MAX);
                break;
            case Link::SMALLEST:
                Collect(link, Opcode::MIN);
                break;
            case Link::END:
                value_.clear();
                break;
            default:
                EmitBinary(link);
        }
    }

    // ---- the module

    // How many vectors go through all links together: they hide each other's latency as long as registers last.
    uint32_t VectorsAtOnce() const
    {
        constexpr size_t MANY_LINKS = 24;
        if (lanes_ == AVX512_LANES) {
            return form_.links.size() <= MANY_LINKS ? 8 : 4;
        }
        return 2;
    }
    // Elements in one turn of the loop; it must be of LOOP_ELEMENTS, and is one repeat at least.
    uint32_t AtOnce() const { return lanes_ == AVX512_LANES ? LOOP_ELEMENTS : REPEAT; }

    std::string Module(const std::string& name) const
    {
        std::string text;
        const std::string f = floats_;
        const std::string suffix = ".v" + std::to_string(lanes_) + "f32(";
        text += "declare " + f + " @llvm.fma" + suffix + f + ", " + f + ", " + f + ")\n";
        text += "declare " + f + " @llvm.sqrt" + suffix + f + ")\n";
        text += "declare " + f + " @llvm.fabs" + suffix + f + ")\n";
        text += "declare i1 @llvm.vector.reduce.or.v" + std::to_string(lanes_) + "i1(" + masks_ + ")\n";
        if (lanes_ == AVX512_LANES) {
            text += "declare " + f + " @llvm.x86.avx512.mask.scalef.ps.512(" + f + ", " + f + ", " + f + ", i16, i32)\n";
        }
        // Or LLVM takes half the width on CPUs whose clock is lower with it.
        const std::string bits = "\"" + std::to_string(lanes_ * 32) + "\"";
        text += "define void @" + name + "(ptr noalias %links, i64 %begin, i64 %end) \"min-legal-vector-width\"=" +
                bits + " \"prefer-vector-width\"=" + bits + " {\nentry:\n" + entry_ + "  br label %loop\nloop:\n";
        text += "  %i = phi i64 [ %begin, %entry ], [ %next, %" + label_ + " ]\n";
        for (const auto& [operand, k] : collected_) {
            if (byRow_) {
                break;
            }
            text += "  " + Lane(operand, k, "") + " = phi " + f + " [ " + Lane(operand, k, ".first") + ", %entry ], [ " +
                    sums_[operand][k] + ", %" + label_ + " ]\n";
        }
        text += body_;
        text += "  %next = add i64 %i, " + std::to_string(byRow_ ? 1 : AtOnce()) + "\n";
        text += "  %more = icmp ult i64 %next, %end\n  br i1 %more, label %loop, label %done\ndone:\n";
        return text + (byRow_ ? "" : StoreLanes()) + "  ret void\n}\n!0 = !{!\"branch_weights\", i32 1, i32 10000}\n";
    }


    const LoopForm& form_;
    const uint32_t lanes_;
    const bool byRow_;
    const bool paired_;
    const std::string floats_, integers_, halves_, masks_;  // types
    std::string entry_;
    std::string body_;
    std::string label_ = "loop";  // of the block at hand
    uint32_t names_ = 0;
    uint32_t first_ = 0;  // the vectors at hand, of those of LOOP_ELEMENTS
    uint32_t count_ = 0;
    uint32_t valid_ = 0;  // lanes of them
    Vectors value_;
    std::unordered_map<std::string, Range> ranges_;
    std::vector<Vectors> known_;  // of each operand: the elements, as far as they are in registers
    std::array<Access, OPERANDS> access_{};
    std::array<std::array<std::string, REPEAT / LANES_OF_128_BITS>, OPERANDS> sums_;  // the lanes that collect
    std::vector<std::pair<uint8_t, uint32_t>> collected_;  // vectors of such lanes: operand and number
};

}  // namespace

bool WritesLoops(const VectorUnit& unit)
{
    return unit.convertsHalf;
}

std::string WriteLoop(const LoopForm& form, const VectorUnit& unit, const std::string& name)
{
    return LoopWriter(form, unit.lanes).Write(name);
}

}  // namespace host
}  // namespace AscendC
