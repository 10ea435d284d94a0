/*!
 * Implements vector instructions. Each call brings its operands into one form (instruction.h) and hands it to the core.
 */
#ifndef ASCENDC_HOST_API_VECTOR_H
#define ASCENDC_HOST_API_VECTOR_H

#include <initializer_list>

#include "api/tensor.h"
#include "observed/observe.h"

namespace AscendC {
namespace host {

// An operand of a call has an address and strides in blocks of 32 bytes.
struct Source {
    char* base;
    uint32_t blkStride;
    uint32_t repStride;
    uint32_t elementBytes;
};

// A call has `full` repeats of `lanes` elements, then one of `tail` elements.
struct Iteration {
    uint32_t full;
    uint32_t lanes;
    uint32_t tail;
};

// Returns the elements in a repeat: the widest operand fills 256 bytes.
template <typename... T>
constexpr uint32_t RepeatLanes()
{
    uint32_t widest = 1;
    for (const uint32_t bytes : {static_cast<uint32_t>(sizeof(T))...}) {
        widest = bytes > widest ? bytes : widest;
    }
    return ONE_REPEAT_BYTE_SIZE / widest;
}

// Without isSetMask the mask register decides: in counter mode it holds the number of elements and repeatTimes is
// ignored, in normal mode the active lanes of each repeat.
inline Iteration IterationOf(bool isSetMask, uint64_t mask, uint32_t repeatTimes, uint32_t repeatLanes)
{
    const MaskState& state = Core::Current().mask;
    if (!isSetMask && state.mode == MaskMode::COUNTER) {
        return {state.count / repeatLanes, repeatLanes, state.count % repeatLanes};
    }
    return {repeatTimes, isSetMask ? static_cast<uint32_t>(mask) : state.count, 0};
}

// Runs of whole repeats, gaps between the blocks of a repeat, or one block for all of them.
enum class Walk { GAPLESS, REPEATS, ONE_BLOCK, BLOCK_A_REPEAT, ONE_REPEAT, BLOCKS };

inline Walk WalkOf(const Source& source, uint32_t lanes, uint32_t repeatLanes)
{
    const bool oneBlock = lanes * source.elementBytes <= ONE_BLK_SIZE;
    if (source.blkStride == 0 && !oneBlock) {
        return source.repStride == 0 ? Walk::ONE_BLOCK : Walk::BLOCK_A_REPEAT;
    }
    if (source.blkStride != 1 && !oneBlock) {
        return Walk::BLOCKS;
    }
    if (source.repStride == 0) {
        return Walk::ONE_REPEAT;
    }
    const bool gapless = lanes == repeatLanes && source.repStride * ONE_BLK_SIZE == repeatLanes * source.elementBytes;
    return gapless ? Walk::GAPLESS : Walk::REPEATS;
}

inline Operand ByElement(const Source& source)
{
    return {source.base, static_cast<int64_t>(source.elementBytes), source.elementBytes};
}

inline Operand ByRepeat(const Source& source, uint32_t lanes)
{
    return {source.base, static_cast<int64_t>(source.repStride) * ONE_BLK_SIZE, lanes * source.elementBytes};
}

inline Operand ByBlock(const Source& source)
{
    return {source.base, static_cast<int64_t>(source.repStride) * ONE_BLK_SIZE, ONE_BLK_SIZE};
}

// Records an instruction given by its strides.
void IssueStrided(const Operation& operation, const Source* sources, uint32_t count, const Iteration& iteration,
                  uint32_t repeatLanes, float scalar, uint32_t option);

// Records an instruction on `elements` contiguous elements.
inline void IssueContiguous(const Operation& operation, const Source* sources, uint32_t count, uint32_t elements,
                            float scalar, uint32_t option)
{
    if (elements == 0) {
        return;
    }
    Core& core = Core::Current();
    Instruction& instruction = core.Next();
    instruction.operation = operation;
    instruction.iterations = elements;
    instruction.operandCount = count;
    instruction.scalar = scalar;
    instruction.option = option;
    for (uint32_t i = 0; i < count; ++i) {
        instruction.operands[i] = ByElement(sources[i]);
    }
    core.Issue();
}

// A2 has float and half for everything, int32 for what needs no rounding, no arithmetic on bfloat16.
template <typename T, Opcode OPCODE>
constexpr bool HAS_INSTRUCTION =
    std::is_same<T, float>::value || std::is_same<T, half>::value ||
    (std::is_same<T, int32_t>::value && (OPCODE == Opcode::ADD || OPCODE == Opcode::SUB || OPCODE == Opcode::MUL ||
                                         OPCODE == Opcode::MAX || OPCODE == Opcode::MIN || OPCODE == Opcode::ADDS ||
                                         OPCODE == Opcode::MULS || OPCODE == Opcode::MAXS || OPCODE == Opcode::MINS));

template <typename T, Opcode OPCODE>
constexpr Operation OperationFor()
{
    static_assert(HAS_INSTRUCTION<T, OPCODE>, "A2 has no such instruction for this type: Cast to float first");
    return OperationOn(ElementTypeOf<T>::value, OPCODE);
}

template <typename T>
Source SourceOf(const LocalTensor<T>& tensor, uint32_t blkStride = 1, uint32_t repStride = DEFAULT_REPEAT_STRIDE)
{
    return {tensor.Address(), blkStride, repStride, static_cast<uint32_t>(sizeof(T))};
}

// Returns a scalar operand as instructions carry it: an integer by its bits.
inline float ScalarOf(float value)
{
    return value;
}
inline float ScalarOf(int32_t value)
{
    float bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

}  // namespace host

// ---- dst = src0 op src1

#define ASCENDC_HOST_BINARY(NAME, OPCODE)                                                                       \
    template <typename T>                                                                                       \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                \
              const int32_t& count HOST_WHERE)                                                                  \
    {                                                                                                           \
        HOST_OBSERVED(host::ObserveVector(where, #NAME, host::First(count), dst, src0, src1));                  \
        const host::Source sources[] = {host::SourceOf(dst), host::SourceOf(src0), host::SourceOf(src1)};       \
        host::IssueContiguous(host::OperationFor<T, host::Opcode::OPCODE>(), sources, 3, count, 0.0f, 0);       \
    }                                                                                                           \
    template <typename T, bool isSetMask = true>                                                                \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask, \
              const uint8_t repeatTimes, const BinaryRepeatParams& params HOST_WHERE)                           \
    {                                                                                                           \
        HOST_OBSERVED(host::ObserveVector(where, #NAME, host::Repeats(isSetMask, mask, repeatTimes),            \
                                          host::Strided(dst, params.dstBlkStride, params.dstRepStride),         \
                                          host::Strided(src0, params.src0BlkStride, params.src0RepStride),      \
                                          host::Strided(src1, params.src1BlkStride, params.src1RepStride)));    \
        constexpr uint32_t lanes = host::RepeatLanes<T>();                                                      \
        const host::Source sources[] = {host::SourceOf(dst, params.dstBlkStride, params.dstRepStride),          \
                                        host::SourceOf(src0, params.src0BlkStride, params.src0RepStride),       \
                                        host::SourceOf(src1, params.src1BlkStride, params.src1RepStride)};      \
        host::IssueStrided(host::OperationFor<T, host::Opcode::OPCODE>(), sources, 3,                           \
                           host::IterationOf(isSetMask, mask, repeatTimes, lanes), lanes, 0.0f, 0);             \
    }

ASCENDC_HOST_BINARY(Add, ADD)
ASCENDC_HOST_BINARY(Sub, SUB)
ASCENDC_HOST_BINARY(Mul, MUL)
ASCENDC_HOST_BINARY(Div, DIV)
ASCENDC_HOST_BINARY(Max, MAX)
ASCENDC_HOST_BINARY(Min, MIN)
#undef ASCENDC_HOST_BINARY

// ---- dst = src op scalar

namespace host {

// A scalar NaN gives NaN, as adding it does.
template <typename T, Opcode OPCODE>
Operation ScalarOperationFor(float scalar)
{
    const bool isNan = !std::is_same<T, int32_t>::value && scalar != scalar;
    return isNan ? OperationFor<T, Opcode::ADDS>() : OperationFor<T, OPCODE>();
}

}  // namespace host

#define ASCENDC_HOST_SCALAR(NAME, OPCODE)                                                                              \
    template <typename T>                                                                                              \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue,                              \
              const int32_t& count HOST_WHERE)                                                                         \
    {                                                                                                                  \
        HOST_OBSERVED(                                                                                                 \
            host::ObserveVector(where, #NAME, host::First(count, host::ScalarValue(scalarValue)), dst, src));          \
        const host::Source sources[] = {host::SourceOf(dst), host::SourceOf(src)};                                     \
        host::IssueContiguous(host::ScalarOperationFor<T, host::Opcode::OPCODE>(host::ScalarOf(scalarValue)), sources, \
                              2, count, host::ScalarOf(scalarValue), 0);                                               \
    }                                                                                                                  \
    template <typename T, bool isSetMask = true>                                                                       \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask,               \
              const uint8_t repeatTimes, const UnaryRepeatParams& params HOST_WHERE)                                   \
    {                                                                                                                  \
        HOST_OBSERVED(host::ObserveVector(where, #NAME,                                                                \
                                          host::Repeats(isSetMask, mask, repeatTimes, host::ScalarValue(scalarValue)), \
                                          host::Strided(dst, params.dstBlkStride, params.dstRepStride),                \
                                          host::Strided(src, params.srcBlkStride, params.srcRepStride)));              \
        constexpr uint32_t lanes = host::RepeatLanes<T>();                                                             \
        const host::Source sources[] = {host::SourceOf(dst, params.dstBlkStride, params.dstRepStride),                 \
                                        host::SourceOf(src, params.srcBlkStride, params.srcRepStride)};                \
        host::IssueStrided(host::ScalarOperationFor<T, host::Opcode::OPCODE>(host::ScalarOf(scalarValue)), sources, 2, \
                           host::IterationOf(isSetMask, mask, repeatTimes, lanes), lanes, host::ScalarOf(scalarValue), \
                           0);                                                                                         \
    }

ASCENDC_HOST_SCALAR(Adds, ADDS)
ASCENDC_HOST_SCALAR(Muls, MULS)
ASCENDC_HOST_SCALAR(Maxs, MAXS)
ASCENDC_HOST_SCALAR(Mins, MINS)
#undef ASCENDC_HOST_SCALAR

// ---- dst += src * scalar

template <typename T, typename U>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, const int32_t& count HOST_WHERE)
{
    static_assert(std::is_same<T, float>::value && std::is_same<U, float>::value,
                  "Axpy: the host layer has it for float");
    HOST_OBSERVED(
        host::ObserveVector(where, "Axpy", host::First(count, host::ScalarValue(scalarValue)), dst, src, dst));
    const host::Source sources[] = {host::SourceOf(dst), host::SourceOf(src), host::SourceOf(dst)};
    host::IssueContiguous(host::OperationFor<T, host::Opcode::AXPY>(), sources, 3, count, host::ScalarOf(scalarValue),
                          0);
}

// ---- dst = op(src)

#define ASCENDC_HOST_UNARY(NAME, OPCODE)                                                                      \
    template <typename T>                                                                                     \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count HOST_WHERE)          \
    {                                                                                                         \
        HOST_OBSERVED(host::ObserveVector(where, #NAME, host::First(count), dst, src));                       \
        const host::Source sources[] = {host::SourceOf(dst), host::SourceOf(src)};                            \
        host::IssueContiguous(host::OperationFor<T, host::Opcode::OPCODE>(), sources, 2, count, 0.0f, 0);     \
    }                                                                                                         \
    template <typename T, bool isSetMask = true>                                                              \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, const uint8_t repeatTimes, \
              const UnaryRepeatParams& params HOST_WHERE)                                                     \
    {                                                                                                         \
        HOST_OBSERVED(host::ObserveVector(where, #NAME, host::Repeats(isSetMask, mask, repeatTimes),          \
                                          host::Strided(dst, params.dstBlkStride, params.dstRepStride),       \
                                          host::Strided(src, params.srcBlkStride, params.srcRepStride)));     \
        constexpr uint32_t lanes = host::RepeatLanes<T>();                                                    \
        const host::Source sources[] = {host::SourceOf(dst, params.dstBlkStride, params.dstRepStride),        \
                                        host::SourceOf(src, params.srcBlkStride, params.srcRepStride)};       \
        host::IssueStrided(host::OperationFor<T, host::Opcode::OPCODE>(), sources, 2,                         \
                           host::IterationOf(isSetMask, mask, repeatTimes, lanes), lanes, 0.0f, 0);           \
    }

ASCENDC_HOST_UNARY(Exp, EXP)
ASCENDC_HOST_UNARY(Ln, LN)
ASCENDC_HOST_UNARY(Sqrt, SQRT)
ASCENDC_HOST_UNARY(Abs, ABS)
ASCENDC_HOST_UNARY(Relu, RELU)
#undef ASCENDC_HOST_UNARY

// ---- Cast

template <typename T, typename U>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& mode, const uint32_t count HOST_WHERE)
{
    HOST_OBSERVED(host::ObserveVector(where, "Cast", host::First(count, 0, static_cast<uint32_t>(mode)), dst, src));
    constexpr host::Operation CAST = host::CastOf(host::ElementTypeOf<U>::value, host::ElementTypeOf<T>::value);
    const host::Source sources[] = {host::SourceOf(dst), host::SourceOf(src)};
    host::IssueContiguous(CAST, sources, 2, count, 0.0f, static_cast<uint32_t>(mode));
}

// `count` numbers of 4 bits, an even count.
inline void Cast(const LocalTensor<half>& dst, const LocalTensor<int4b_t>& src, const RoundMode& mode,
                 const uint32_t count HOST_WHERE)
{
    const uint32_t bytes = count / 2;
    HOST_OBSERVED(host::ObserveVector(where, "Cast", host::First(count, 0, static_cast<uint32_t>(mode)), dst,
                                      host::Elements(src.ReinterpretCast<int8_t>(), bytes)));
    if (bytes == 0) {
        return;
    }
    host::Core& core = host::Core::Current();
    host::Instruction& instruction = core.Next();
    instruction.operation = host::CastOf(host::ElementType::INT4, host::ElementType::HALF);
    instruction.iterations = bytes;
    instruction.operandCount = 2;
    instruction.option = static_cast<uint32_t>(mode);
    instruction.operands[0] = {dst.Address(), 2 * sizeof(half), 2 * sizeof(half)};
    instruction.operands[1] = {src.Address(), 1, 1};
    core.Issue();
}

template <typename T, typename U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& mode, const uint64_t mask,
          const uint8_t repeatTimes, const UnaryRepeatParams& params HOST_WHERE)
{
    HOST_OBSERVED(host::ObserveVector(where, "Cast",
                                      host::Repeats(isSetMask, mask, repeatTimes, 0, static_cast<uint32_t>(mode)),
                                      host::Strided(dst, params.dstBlkStride, params.dstRepStride),
                                      host::Strided(src, params.srcBlkStride, params.srcRepStride)));
    constexpr uint32_t lanes = host::RepeatLanes<T, U>();
    const host::Source sources[] = {host::SourceOf(dst, params.dstBlkStride, params.dstRepStride),
                                    host::SourceOf(src, params.srcBlkStride, params.srcRepStride)};
    host::IssueStrided(host::CastOf(host::ElementTypeOf<U>::value, host::ElementTypeOf<T>::value), sources, 2,
                       host::IterationOf(isSetMask, mask, repeatTimes, lanes), lanes, 0.0f,
                       static_cast<uint32_t>(mode));
}

// ---- reductions within a repeat: one result a repeat, dstRepStride elements apart

namespace host {

template <typename T>
void IssueReduction(const char* name, Opcode opcode, const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t mask,
                    int32_t repeatTimes, int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride)
{
    static_assert(std::is_same<T, float>::value, "the reductions of the host layer take float");
    if (srcBlkStride != 1) {
        Fail("%s: srcBlkStride must be 1 in the host layer, got %d", name, srcBlkStride);
    }
    if (repeatTimes <= 0) {
        return;
    }
    Instruction& instruction = Core::Current().Next();
    instruction.operation = OperationOn(ElementType::FLOAT, opcode);
    instruction.iterations = static_cast<uint32_t>(repeatTimes);
    instruction.lanes = static_cast<uint32_t>(mask);
    instruction.operandCount = 2;
    instruction.operands[0] = {dst.Address(), dstRepStride * int64_t{sizeof(T)}, sizeof(T)};
    instruction.operands[1] = {src.Address(), srcRepStride * int64_t{ONE_BLK_SIZE},
                               static_cast<uint32_t>(mask * sizeof(T))};
    Core::Current().Issue();
}

}  // namespace host

template <typename T, bool isSetMask = true>
void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask, const int32_t repeatTimes,
                    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride HOST_WHERE)
{
    HOST_OBSERVED(host::ObserveVector(where, "WholeReduceSum", host::Repeats(isSetMask, mask, repeatTimes),
                                      host::PerRepeat(dst, 1, dstRepStride * int64_t{sizeof(T)}, dstRepStride),
                                      host::Strided(src, srcBlkStride, srcRepStride)));
    host::IssueReduction("WholeReduceSum", host::Opcode::REDUCE_SUM, dst, src, mask, repeatTimes, dstRepStride,
                         srcBlkStride, srcRepStride);
}

// These return the values alone (ORDER_ONLY_VALUE).
template <typename T, bool isSetMask = true>
void WholeReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask, const int32_t repeatTimes,
                    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,
                    ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX HOST_WHERE)
{
    HOST_OBSERVED(host::ObserveVector(where, "WholeReduceMax", host::Repeats(isSetMask, mask, repeatTimes),
                                      host::PerRepeat(dst, 1, dstRepStride * int64_t{sizeof(T)}, dstRepStride),
                                      host::Strided(src, srcBlkStride, srcRepStride)));
    if (order != ReduceOrder::ORDER_ONLY_VALUE) {
        host::Fail("WholeReduceMax: the order must be ORDER_ONLY_VALUE in the host layer");
    }
    host::IssueReduction("WholeReduceMax", host::Opcode::REDUCE_MAX, dst, src, mask, repeatTimes, dstRepStride,
                         srcBlkStride, srcRepStride);
}

}  // namespace AscendC

#endif  // ASCENDC_HOST_API_VECTOR_H
