#include "jit/ir_builder.h"

#include <cstdio>
#include <cstring>

namespace AscendC {
namespace host {

IrBuilder::IrBuilder(uint32_t lanes, const char* label, const char* prefix)
    : lanes_(lanes),
      floats_(VectorOf("float")),
      integers_(VectorOf("i32")),
      halves_(VectorOf("i16")),
      masks_(VectorOf("i1")),
      pairs_(Vector(2 * lanes, "i16")),
      label_(label),
      prefix_(prefix)
{}

std::string IrBuilder::Declarations() const
{
    const std::string suffix = ".v" + std::to_string(lanes_) + "f32(" + floats_;
    std::string text = "declare " + floats_ + " @llvm.fma" + suffix + ", " + floats_ + ", " + floats_ + ")\n";
    text += "declare " + floats_ + " @llvm.sqrt" + suffix + ")\n";
    text += "declare " + floats_ + " @llvm.fabs" + suffix + ")\n";
    for (const uint32_t lanes : {lanes_, 2 * lanes_}) {
        text += "declare i1 @llvm.vector.reduce.or.v" + std::to_string(lanes) + "i1(" + Vector(lanes, "i1") + ")\n";
    }
    text += "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n";
    for (const char* const type : {"float", "i16"}) {
        const std::string vector = VectorOf(type);
        text += "declare " + vector + MaskedName("load", type) + "ptr, i32, " + masks_ + ", " + vector + ")\n";
        text += "declare void" + MaskedName("store", type) + vector + ", ptr, i32, " + masks_ + ")\n";
    }
    text += "declare " + integers_ + GatherName() + VectorOf("ptr") + ", i32, " + masks_ + ", " + integers_ + ")\n";
    if (lanes_ == AVX512_LANES) {
        const std::string two = floats_ + ", " + floats_ + ", ";
        text += "declare " + floats_ + " @llvm.x86.avx512.mask.scalef.ps.512(" + two + floats_ + ", i16, i32)\n";
        text +=
            "declare " + floats_ + " @llvm.x86.avx512.mask.range.ps.512(" + two + "i32, " + floats_ + ", i16, i32)\n";
        text += "declare " + floats_ + " @llvm.x86.avx512.vpermi2var.ps.512(" + floats_ + ", " + integers_ + ", " +
                floats_ + ")\n";
        text += "declare " + masks_ + " @llvm.x86.avx512.fpclass.ps.512(" + floats_ + ", i32)\n";
        text += "declare <32 x bfloat> @llvm.x86.avx512bf16.cvtne2ps2bf16.512(" + floats_ + ", " + floats_ + ")\n";
    }
    return text;
}

std::string IrBuilder::Opening(const std::string& name) const
{
    // Or LLVM takes half the width on CPUs whose clock is lower with it.
    const std::string bits = "\"" + std::to_string(lanes_ * 32) + "\"";
    return Declarations() + "define void @" + name +
           "(ptr noalias %bases, i64 %begin, i64 %end, ptr noalias %ahead) \"min-legal-vector-width\"=" + bits +
           " \"prefer-vector-width\"=" + bits + " {\nentry:\n";
}

const char* IrBuilder::Closing()
{
    return "  ret void\n}\n!0 = !{!\"branch_weights\", i32 1, i32 10000}\n!1 = !{i32 1}\n";
}

// ---- text

std::string IrBuilder::Let(const std::string& operation)
{
    std::string name = "%v" + Unique();
    Define(name, operation);
    return name;
}

void IrBuilder::Label(const std::string& label)
{
    body_ += label + ":\n";
    label_ = label;
}

std::string IrBuilder::Vector(uint32_t lanes, const char* type)
{
    return "<" + std::to_string(lanes) + " x " + type + ">";
}

// Returns a float as LLVM wants it: the bits of the same number as a double.
std::string IrBuilder::Number(float value)
{
    const double wide = value;
    uint64_t bits;
    memcpy(&bits, &wide, sizeof(bits));
    char text[40];
    std::snprintf(text, sizeof(text), "float 0x%016llX", static_cast<unsigned long long>(bits));
    return text;
}

// ---- instructions

std::string IrBuilder::Op(const char* operation, const std::string& a, const std::string& b)
{
    return Let(std::string(operation) + " " + floats_ + " " + a + ", " + b);
}

std::string IrBuilder::IntOp(const char* operation, const std::string& a, const std::string& b)
{
    return Let(std::string(operation) + " " + integers_ + " " + a + ", " + b);
}

std::string IrBuilder::Compare(const char* condition, const std::string& a, const std::string& b)
{
    return Let(std::string("fcmp ") + condition + " " + floats_ + " " + a + ", " + b);
}

std::string IrBuilder::Select(const std::string& mask, const std::string& yes, const std::string& no)
{
    return Let("select " + masks_ + " " + mask + ", " + floats_ + " " + yes + ", " + floats_ + " " + no);
}

std::string IrBuilder::SelectInt(const std::string& mask, const std::string& yes, const std::string& no)
{
    return Let("select " + masks_ + " " + mask + ", " + integers_ + " " + yes + ", " + integers_ + " " + no);
}

std::string IrBuilder::Intrinsic(const char* function, const std::vector<std::string>& arguments)
{
    std::string text = "call " + floats_ + " @llvm." + function + ".v" + std::to_string(lanes_) + "f32(";
    for (size_t i = 0; i < arguments.size(); ++i) {
        text += (i > 0 ? ", " : "") + floats_ + " " + arguments[i];
    }
    return Let(text + ")");
}

std::string IrBuilder::ScaledByPower(const std::string& p, const std::string& n)
{
    return Let("call " + floats_ + " @llvm.x86.avx512.mask.scalef.ps.512(" + floats_ + " " + p + ", " + floats_ + " " +
               n + ", " + floats_ + " zeroinitializer, i16 -1, i32 4)");
}

std::string IrBuilder::SmallerWithSign(const std::string& a, float limit)
{
    return Let("call " + floats_ + " @llvm.x86.avx512.mask.range.ps.512(" + floats_ + " " + a + ", " + floats_ + " " +
               Splat(limit) + ", i32 2, " + floats_ + " zeroinitializer, i16 -1, i32 4)");
}

std::string IrBuilder::ConvertToBFloat16(const std::string& a, const std::string& b)
{
    const std::string both = Let("call <32 x bfloat> @llvm.x86.avx512bf16.cvtne2ps2bf16.512(" + floats_ + " " + b +
                                 ", " + floats_ + " " + a + ")");
    return Let("bitcast <32 x bfloat> " + both + " to " + pairs_);
}

std::string IrBuilder::IsSubnormal(const std::string& a)
{
    return Let("call " + masks_ + " @llvm.x86.avx512.fpclass.ps.512(" + floats_ + " " + a + ", i32 32)");
}

std::string IrBuilder::Lookup(const std::array<float, 2 * AVX512_LANES>& table, const std::string& index)
{
    std::string half[2];
    for (size_t i = 0; i < table.size(); ++i) {
        half[i / AVX512_LANES] += (i % AVX512_LANES > 0 ? ", " : "") + Number(table[i]);
    }
    return Let("call " + floats_ + " @llvm.x86.avx512.vpermi2var.ps.512(" + floats_ + " <" + half[0] + ">, " +
               integers_ + " " + index + ", " + floats_ + " <" + half[1] + ">)");
}

std::string IrBuilder::Gather(const void* table, const char* type, const std::string& index)
{
    const std::string places =
        Let(std::string("getelementptr ") + type + ", ptr " + AddressOf(table) + ", " + integers_ + " " + index);
    return Let("call " + integers_ + GatherName() + VectorOf("ptr") + " " + places + ", i32 2, " + masks_ +
               " splat (i1 true), " + integers_ + " poison)");
}

std::string IrBuilder::Entry(const void* table, const char* type, const std::string& index)
{
    const std::string number = Let("zext i32 " + index + " to i64");
    const std::string place =
        Let(std::string("getelementptr ") + type + ", ptr " + AddressOf(table) + ", i64 " + number);
    return Let(std::string("load ") + type + ", ptr " + place);
}

std::string IrBuilder::Assembled(const std::vector<std::string>& values, const char* type)
{
    const std::string vector = Vector(static_cast<uint32_t>(values.size()), type);
    std::string assembled = "poison";
    for (size_t i = 0; i < values.size(); ++i) {
        assembled = Let("insertelement " + vector + " " + assembled + ", " + type + " " + values[i] + ", i32 " +
                        std::to_string(i));
    }
    return assembled;
}

std::string IrBuilder::MaskedName(const char* what, const char* type) const
{
    const std::string suffix = std::to_string(lanes_) + (type[0] == 'f' ? "f32" : type);
    return std::string(" @llvm.masked.") + what + ".v" + suffix + ".p0(";
}

std::string IrBuilder::MaskedLoad(const std::string& address, const char* type, const std::string& mask)
{
    return Let("call " + VectorOf(type) + MaskedName("load", type) + "ptr " + address + ", i32 2, " + masks_ + " " +
               mask + ", " + VectorOf(type) + " zeroinitializer)");
}

void IrBuilder::MaskedStore(const std::string& address, const char* type, const std::string& value,
                            const std::string& mask)
{
    Line("call void" + MaskedName("store", type) + VectorOf(type) + " " + value + ", ptr " + address + ", i32 2, " +
         masks_ + " " + mask + ")");
}

std::string IrBuilder::AddressOf(const void* table)
{
    return "inttoptr (i64 " + std::to_string(reinterpret_cast<uintptr_t>(table)) + " to ptr)";
}

std::string IrBuilder::GatherName() const
{
    const std::string lanes = std::to_string(lanes_);
    return " @llvm.masked.gather.v" + lanes + "i32.v" + lanes + "p0(";
}

std::string IrBuilder::Shuffle(const std::string& type, const std::string& a, const std::string& b, uint32_t lanes,
                               const std::function<uint32_t(uint32_t)>& index)
{
    std::string indices;
    for (uint32_t i = 0; i < lanes; ++i) {
        indices += (i > 0 ? ", i32 " : "i32 ") + std::to_string(index(i));
    }
    return "shufflevector " + type + " " + a + ", " + type + " " + b + ", " + Vector(lanes, "i32") + " <" + indices +
           ">";
}

void IrBuilder::If(const std::string& condition, const std::function<void()>& yes, const std::function<void()>& no)
{
    const std::string number = Unique();
    Line("br i1 " + condition + ", label %yes" + number + ", label %no" + number);
    Label("yes" + number);
    yes();
    Line("br label %then" + number);
    Label("no" + number);
    no();
    Line("br label %then" + number);
    Label("then" + number);
}

void IrBuilder::For(const std::string& begin, const std::string& end, uint32_t step,
                    const std::function<void(const std::string&)>& each)
{
    const std::string number = Unique();
    const std::string from = label_;
    Line("br label %check" + number);
    Label("check" + number);
    Define("%at" + number, "phi i64 [ " + begin + ", %" + from + " ], [ %further" + number + ", %next" + number + " ]");
    const std::string more = Let("icmp ult i64 %at" + number + ", " + end);
    Line("br i1 " + more + ", label %each" + number + ", label %then" + number);
    Label("each" + number);
    each("%at" + number);
    Line("br label %next" + number);  // a block of its own, as there may be blocks in between
    Label("next" + number);
    Define("%further" + number, "add i64 %at" + number + ", " + std::to_string(step));
    Line("br label %check" + number);
    Label("then" + number);
}

std::string IrBuilder::UpTo(const std::string& a, const std::string& limit)
{
    const std::string less = Let("icmp ult i64 " + a + ", " + limit);
    return Let("select i1 " + less + ", i64 " + a + ", i64 " + limit);
}

void IrBuilder::Prefetch(const std::string& address, bool writes, Cache cache)
{
    Line("call void @llvm.prefetch.p0(ptr " + address + ", i32 " + (writes ? "1" : "0") + ", i32 " +
         std::to_string(static_cast<uint32_t>(cache)) + ", i32 1)");
}

std::string IrBuilder::Any(const std::string& mask, uint32_t lanes)
{
    return Let("call i1 @llvm.vector.reduce.or.v" + std::to_string(lanes) + "i1(" + Vector(lanes, "i1") + " " + mask +
               ")");
}

Vectors IrBuilder::Unless(const std::string& condition, const std::function<Vectors()>& likely,
                          const std::function<Vectors()>& unlikely)
{
    const std::string number = Unique();
    Line("br i1 " + condition + ", label %rare" + number + ", label %usual" + number + ", !prof !0");
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

}  // namespace host
}  // namespace AscendC
