/*!
 * Implements the loops behind every recorded instruction. It is compiled once per instruction set (HOST_ISA names it);
 * each copy fills one VectorUnit table, and vector_unit_select.cpp picks the best one for the CPU.
 */
#if defined(__GNUC__) && !defined(__clang__)
// GCC's own AVX-512 header triggers it (bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "simd/arithmetic_unit.h"
#include "simd/bytes_unit.h"
#include "simd/casts_unit.h"
#include "simd/depthwise_unit.h"
#include "simd/few_rows_unit.h"
#include "simd/integers_unit.h"
#include "simd/movement_unit.h"
#include "simd/packed_products_unit.h"
#include "simd/panels_unit.h"
#include "simd/reductions_unit.h"
#include "simd/simd.h"
#include "simd/sparse_rows_unit.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

template <Opcode OP, typename T>
void FillBinary(VectorUnit& unit, ElementType type)
{
    RunFn* row = unit.runs[static_cast<uint32_t>(OP)][static_cast<uint32_t>(type)];
    row[static_cast<uint32_t>(Layout::CONTIGUOUS)] = RunBinary<OP, T, Layout::CONTIGUOUS>;
    row[static_cast<uint32_t>(Layout::REPEAT)] = RunBinary<OP, T, Layout::REPEAT>;
    row[static_cast<uint32_t>(Layout::FOLD)] = RunBinary<OP, T, Layout::FOLD>;
    row[static_cast<uint32_t>(Layout::BROADCAST0)] = RunBinary<OP, T, Layout::BROADCAST0>;
    row[static_cast<uint32_t>(Layout::BROADCAST1)] = RunBinary<OP, T, Layout::BROADCAST1>;
    row[static_cast<uint32_t>(Layout::REPEAT_BROADCAST0)] = RunBinary<OP, T, Layout::REPEAT_BROADCAST0>;
    row[static_cast<uint32_t>(Layout::REPEAT_BROADCAST1)] = RunBinary<OP, T, Layout::REPEAT_BROADCAST1>;
    row[static_cast<uint32_t>(Layout::ACCUMULATE)] = RunBinary<OP, T, Layout::ACCUMULATE>;
    row[static_cast<uint32_t>(Layout::ACCUMULATE_REPEAT)] = RunBinary<OP, T, Layout::ACCUMULATE_REPEAT>;
}

template <Opcode OP, typename T>
void FillScalar(VectorUnit& unit, ElementType type)
{
    RunFn* row = unit.runs[static_cast<uint32_t>(OP)][static_cast<uint32_t>(type)];
    row[static_cast<uint32_t>(Layout::CONTIGUOUS)] = RunScalar<OP, T, Layout::CONTIGUOUS>;
    row[static_cast<uint32_t>(Layout::REPEAT)] = RunScalar<OP, T, Layout::REPEAT>;
}

template <Opcode OP, typename T>
void FillUnary(VectorUnit& unit, ElementType type)
{
    RunFn* row = unit.runs[static_cast<uint32_t>(OP)][static_cast<uint32_t>(type)];
    row[static_cast<uint32_t>(Layout::CONTIGUOUS)] = RunUnary<OP, T, Layout::CONTIGUOUS>;
    row[static_cast<uint32_t>(Layout::REPEAT)] = RunUnary<OP, T, Layout::REPEAT>;
}

// There is arithmetic for half, float and, where the chip has it, int32.
template <typename T>
void FillArithmetic(VectorUnit& unit, ElementType type)
{
    FillBinary<Opcode::ADD, T>(unit, type);
    FillBinary<Opcode::SUB, T>(unit, type);
    FillBinary<Opcode::MUL, T>(unit, type);
    FillBinary<Opcode::MAX, T>(unit, type);
    FillBinary<Opcode::MIN, T>(unit, type);
    FillScalar<Opcode::ADDS, T>(unit, type);
    FillScalar<Opcode::MULS, T>(unit, type);
    FillScalar<Opcode::MAXS, T>(unit, type);
    FillScalar<Opcode::MINS, T>(unit, type);
    if constexpr (!std::is_same<T, int32_t>::value) {
        FillBinary<Opcode::DIV, T>(unit, type);
        FillUnary<Opcode::EXP, T>(unit, type);
        FillUnary<Opcode::LN, T>(unit, type);
        FillUnary<Opcode::SQRT, T>(unit, type);
        FillUnary<Opcode::ABS, T>(unit, type);
        FillUnary<Opcode::RELU, T>(unit, type);
    }
}

template <typename To, typename From>
void FillCast(VectorUnit& unit, ElementType to, ElementType from)
{
    RunFn* entry = unit.casts[static_cast<uint32_t>(from)][static_cast<uint32_t>(to)];
    entry[0] = RunCast<To, From, false>;
    entry[1] = RunCast<To, From, true>;
}

// Among AMD's CPUs, Zen 4 was measured.
bool IsAmd()
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}

#if defined(HOST_SIMD_AVX512)
// Says whether there is AVX512_BF16: GCC 9 cannot ask for it.
bool ConvertsBFloat16()
{
    constexpr unsigned int LEAF = 7;
    constexpr unsigned int BIT = 5;  // of EAX
    unsigned int eax, ebx, ecx, edx;
    return __get_cpuid_count(LEAF, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> BIT & 1) != 0;
}
#endif

// CPUs of Intel with AVX512_FP16, which not every compiler knows, gather 16 floats in some 8 cycles. Those before them
// take many times that, since microcode keeps gathers from leaking data. Zen 4 takes 22 cycles, or 11 for a load of
// each, and calculates half as much in a cycle.
LookupMethod LookupMethodOfCpu()
{
#if defined(__x86_64__)
    if (IsAmd()) {
        return LookupMethod::BY_ELEMENT;
    }
    constexpr unsigned int LEAF = 7;
    constexpr unsigned int BIT = 23;  // of EDX
    unsigned int eax, ebx, ecx, edx;
    const bool hasFp16 = __get_cpuid_count(LEAF, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx >> BIT & 1) != 0;
    return W == 16 && hasFp16 ? LookupMethod::GATHERED : LookupMethod::NONE;
#else
    return LookupMethod::NONE;
#endif
}

const VectorUnit& Table(const char* name)
{
    static const VectorUnit table = [name] {
        VectorUnit unit{};
        unit.name = name;
        unit.lanes = W;
        unit.convertsHalf = CONVERTS_HALF;
#if defined(HOST_SIMD_AVX512)
        unit.convertsBFloat16 = ConvertsBFloat16();
#endif
        unit.lookupMethod = LookupMethodOfCpu();
        // The other way compares, which takes twice as long as adding on Zen 4. This one permutes words, which is
        // slower on Intel's.
        unit.roundsByConverting = unit.convertsBFloat16 && IsAmd();
        FillArithmetic<float>(unit, ElementType::FLOAT);
        unit.runs[static_cast<uint32_t>(Opcode::AXPY)][static_cast<uint32_t>(ElementType::FLOAT)]
                 [static_cast<uint32_t>(Layout::CONTIGUOUS)] = RunAxpy;
        FillArithmetic<half>(unit, ElementType::HALF);
        FillArithmetic<int32_t>(unit, ElementType::INT32);
        FillCast<float, half>(unit, ElementType::FLOAT, ElementType::HALF);
        FillCast<float, bfloat16_t>(unit, ElementType::FLOAT, ElementType::BFLOAT16);
        FillCast<half, float>(unit, ElementType::HALF, ElementType::FLOAT);
        FillCast<bfloat16_t, float>(unit, ElementType::BFLOAT16, ElementType::FLOAT);
        FillCast<float, float>(unit, ElementType::FLOAT, ElementType::FLOAT);
        FillCast<int32_t, float>(unit, ElementType::INT32, ElementType::FLOAT);
        FillCast<int32_t, half>(unit, ElementType::INT32, ElementType::HALF);
        FillCast<int32_t, bfloat16_t>(unit, ElementType::INT32, ElementType::BFLOAT16);
        FillCast<float, int32_t>(unit, ElementType::FLOAT, ElementType::INT32);
        unit.casts[static_cast<uint32_t>(ElementType::INT8)][static_cast<uint32_t>(ElementType::HALF)][0] = RunCastInt8;
        unit.casts[static_cast<uint32_t>(ElementType::HALF)][static_cast<uint32_t>(ElementType::INT8)][0] =
            RunCastToInt8;
        unit.casts[static_cast<uint32_t>(ElementType::INT4)][static_cast<uint32_t>(ElementType::HALF)][0] = RunCastInt4;
        const auto add = [&unit](Opcode opcode, ElementType from, RunFn run, Layout layout = Layout::CONTIGUOUS) {
            unit.runs[static_cast<uint32_t>(opcode)][static_cast<uint32_t>(from)][static_cast<uint32_t>(layout)] = run;
        };
        add(Opcode::REDUCE_SUM, ElementType::FLOAT, RunReduceSum);
        add(Opcode::REDUCE_MAX, ElementType::FLOAT, RunReduceMax);
        // Two of 16 bits are the bits of a float; where there is an odd number, they are not.
        FillBinary<Opcode::AND, float>(unit, ElementType::FLOAT);
        FillBinary<Opcode::OR, float>(unit, ElementType::FLOAT);
        add(Opcode::AND, BitsOf(2), RunBitwise<false, false>);
        add(Opcode::AND, BitsOf(2), RunBitwise<false, true>, Layout::BROADCAST1);
        add(Opcode::OR, BitsOf(2), RunBitwise<true, false>);
        add(Opcode::OR, BitsOf(2), RunBitwise<true, true>, Layout::BROADCAST1);
        add(Opcode::FILL, BitsOf(1), RunFill<uint8_t>);
        add(Opcode::FILL, BitsOf(2), RunFill<uint16_t>);
        add(Opcode::FILL, BitsOf(4), RunFill<uint32_t>);
        add(Opcode::BROADCAST_BLOCK, BitsOf(2), RunBroadcastBlock<uint16_t>);
        add(Opcode::BROADCAST_BLOCK, BitsOf(4), RunBroadcastBlock<uint32_t>);
        add(Opcode::GATHER_PATTERN, BitsOf(2), RunGatherPattern<uint16_t>);
        add(Opcode::GATHER_PATTERN, BitsOf(4), RunGatherPattern<uint32_t>);
        add(Opcode::GATHER, BitsOf(2), RunGather<uint16_t>);
        add(Opcode::GATHER, BitsOf(4), RunGather<uint32_t>);
        add(Opcode::TRANSPOSE, BitsOf(2), RunTranspose16);
        add(Opcode::TRANSPOSE, BitsOf(4), RunTranspose32);
        add(Opcode::COPY, ElementType::FLOAT, RunCopy);
        add(Opcode::COPY_ADD, ElementType::FLOAT, RunCopyAdd);
        unit.multiplyFewRows[static_cast<uint32_t>(ElementType::FLOAT)] = MultiplyFewRows<FloatTerms<float>>;
        unit.multiplyFewRows[static_cast<uint32_t>(ElementType::HALF)] = MultiplyFewRows<FloatTerms<half>>;
        unit.multiplyFewRows[static_cast<uint32_t>(ElementType::BFLOAT16)] = MultiplyFewRows<FloatTerms<bfloat16_t>>;
#if defined(HOST_MULTIPLIES_BFLOAT16)
        unit.multiplyBFloat16Rows = unit.convertsBFloat16 ? MultiplyFewRows<BFloat16Terms> : nullptr;
#endif
        unit.multiplyIntegers = MultiplyIntegers;
        unit.roundRows = RoundRows;
#if defined(HOST_SIMD_AVX512) || defined(HOST_SIMD_AVX2)
        unit.takesBlocks = true;
#endif
        unit.multiplyPacked[static_cast<uint32_t>(ElementType::FLOAT)] = MultiplyPacked<float>;
        unit.multiplyPacked[static_cast<uint32_t>(ElementType::HALF)] = MultiplyPacked<half>;
        unit.multiplyPacked[static_cast<uint32_t>(ElementType::BFLOAT16)] = MultiplyPacked<bfloat16_t>;
        unit.packPanel[static_cast<uint32_t>(ElementType::FLOAT)] = PackPanel<float>;
        unit.packPanel[static_cast<uint32_t>(ElementType::HALF)] = PackPanel<half>;
        unit.packPanel[static_cast<uint32_t>(ElementType::BFLOAT16)] = PackPanel<bfloat16_t>;
        unit.sumSparseRows[static_cast<uint32_t>(ElementType::FLOAT)] = SumSparseRows<float>;
        unit.sumSparseRows[static_cast<uint32_t>(ElementType::HALF)] = SumSparseRows<half>;
        unit.sumSparseRows[static_cast<uint32_t>(ElementType::BFLOAT16)] = SumSparseRows<bfloat16_t>;
        unit.sumDepthwise = SumDepthwise;
        unit.multiplySparseRows[static_cast<uint32_t>(ElementType::FLOAT)] = MultiplySparseRows<float>;
        unit.multiplySparseRows[static_cast<uint32_t>(ElementType::HALF)] = MultiplySparseRows<half>;
        unit.multiplySparseRows[static_cast<uint32_t>(ElementType::BFLOAT16)] = MultiplySparseRows<bfloat16_t>;
        return unit;
    }();
    return table;
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC
