/*!
 * Writes LLVM IR on float vectors, instruction by instruction. An instruction's result is known by its name.
 */
#ifndef ASCENDC_HOST_JIT_IR_BUILDER_H
#define ASCENDC_HOST_JIT_IR_BUILDER_H

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace AscendC {
namespace host {

using Vectors = std::vector<std::string>;  // names of values

class IrBuilder {
public:
    static constexpr uint32_t AVX512_LANES = 16;

    // `lanes`: floats in a vector. `label`: of the basic block it begins in; names of values and of other blocks begin
    // with `prefix`.
    explicit IrBuilder(uint32_t lanes, const char* label = "loop", const char* prefix = "");

    // ---- the text so far

    const std::string& Body() const { return body_; }
    const std::string& Block() const { return label_; }  // the label of the basic block at hand
    // Returns the module up to the first line of a function `void name(ptr bases, i64 begin, i64 end, ptr ahead)`; and
    // its end.
    std::string Opening(const std::string& name) const;
    static const char* Closing();

    // ---- text

    void Line(const std::string& text) { body_ += "  " + text + "\n"; }
    void Define(const std::string& name, const std::string& operation) { Line(name + " = " + operation); }
    std::string Let(const std::string& operation);

    static std::string Vector(uint32_t lanes, const char* type);
    std::string VectorOf(const char* type) const { return Vector(lanes_, type); }
    static std::string Number(float value);
    static std::string Splat(float value) { return "splat (" + Number(value) + ")"; }
    static std::string SplatInt(uint32_t value) { return "splat (i32 " + std::to_string(value) + ")"; }

    // ---- instructions

    std::string Op(const char* operation, const std::string& a, const std::string& b);     // on floats
    std::string IntOp(const char* operation, const std::string& a, const std::string& b);  // on 32-bit integers
    std::string Compare(const char* condition, const std::string& a, const std::string& b);
    std::string Select(const std::string& mask, const std::string& yes, const std::string& no);
    std::string SelectInt(const std::string& mask, const std::string& yes, const std::string& no);
    std::string Intrinsic(const char* function, const std::vector<std::string>& arguments);
    std::string Fma(const std::string& a, const std::string& b, const std::string& c)
    {
        return Intrinsic("fma", {a, b, c});
    }
    // AVX-512 has these, which nothing in LLVM's own language becomes: p * 2^n, n rounded down; of |a| and the limit
    // the smaller, with the sign of a, and the limit if a is NaN; entry number `index`, of which the low bits count.
    std::string ScaledByPower(const std::string& p, const std::string& n);
    std::string SmallerWithSign(const std::string& a, float limit);
    std::string Lookup(const std::array<float, 2 * AVX512_LANES>& table, const std::string& index);
    std::string IsSubnormal(const std::string& a);  // a mask
    // Gathers the 32 bits at entries of a table of `type`, of which the numbers are integers; as integers.
    std::string Gather(const void* table, const char* type, const std::string& index);
    // Loads entry number `index`, an i32, of a table of `type`; and assembles a vector of values of that type.
    std::string Entry(const void* table, const char* type, const std::string& index);
    std::string Assembled(const std::vector<std::string>& values, const char* type);
    // Loads the first lanes of a vector of `type` in memory, by a mask, and zeros; and the other way round.
    std::string MaskedLoad(const std::string& address, const char* type, const std::string& mask);
    void MaskedStore(const std::string& address, const char* type, const std::string& value, const std::string& mask);
    // This one is of AVX512_BF16: it rounds a, then b to bfloat16, as 16-bit integers; subnormal numbers become zeros.
    std::string ConvertToBFloat16(const std::string& a, const std::string& b);
    std::string AsInt(const std::string& a) { return Let("bitcast " + floats_ + " " + a + " to " + integers_); }
    std::string AsFloat(const std::string& a) { return Let("bitcast " + integers_ + " " + a + " to " + floats_); }
    // Element i of the result is number `index(i)` of a, then of b, vectors of `type`.
    static std::string Shuffle(const std::string& type, const std::string& a, const std::string& b, uint32_t lanes,
                               const std::function<uint32_t(uint32_t)>& index);
    // Does one or the other, by an i1.
    void If(const std::string& condition, const std::function<void()>& yes, const std::function<void()>& no);
    // `each` of `begin`, `begin` + step and so on, as long as that is less than `end`; 64-bit integers.
    void For(const std::string& begin, const std::string& end, uint32_t step,
             const std::function<void(const std::string&)>& each);
    // Returns the first of two 64-bit integers, but no more than the second.
    std::string UpTo(const std::string& a, const std::string& limit);
    // Prefetches the line at an address, to be read or written, into this cache and those below.
    enum class Cache : uint32_t { SECOND = 2, FIRST = 3 };  // as LLVM numbers localities
    void Prefetch(const std::string& address, bool writes, Cache cache);
    // Is any of so many lanes of a mask set? An i1.
    std::string Any(const std::string& mask, uint32_t lanes);
    // Does `likely`, or if the i1 is set, `unlikely`; both return equally many vectors.
    Vectors Unless(const std::string& condition, const std::function<Vectors()>& likely,
                   const std::function<Vectors()>& unlikely);

protected:
    const uint32_t lanes_;
    const std::string floats_, integers_, halves_, masks_;  // types
    const std::string pairs_;                               // twice as many halves

private:
    std::string Declarations() const;
    void Label(const std::string& label);
    std::string GatherName() const;
    std::string MaskedName(const char* what, const char* type) const;
    static std::string AddressOf(const void* table);

    std::string Unique() { return prefix_ + std::to_string(names_++); }

    std::string body_;
    std::string label_;
    const std::string prefix_;
    uint32_t names_ = 0;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_JIT_IR_BUILDER_H
