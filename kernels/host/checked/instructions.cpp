#include "checked/instructions.h"

#include <cstring>
#include <vector>

#include "checked/pieces.h"
#include "checked/rules.h"
#include "runtime/core.h"

namespace AscendC {
namespace host {
namespace {

constexpr uint32_t Bit(Dtype dtype)
{
    return 1u << static_cast<uint32_t>(dtype);
}
constexpr uint32_t HALF_FLOAT = Bit(Dtype::HALF) | Bit(Dtype::FLOAT);
constexpr uint32_t INT16_INT32 = Bit(Dtype::INT16) | Bit(Dtype::INT32);
constexpr uint32_t WORDS = Bit(Dtype::INT16) | Bit(Dtype::UINT16);  // 16-bit integers
constexpr uint32_t SHIFTED = WORDS | Bit(Dtype::INT32) | Bit(Dtype::UINT32);
constexpr uint32_t STORED = SHIFTED | HALF_FLOAT | Bit(Dtype::BFLOAT16);  // whatever has 16 or 32 bits

enum class Overlap : uint8_t {
    GENERAL,     // the same operand or apart
    ACCUMULATE,  // also dst == src1 with a repeat stride of 0
    NONE         // apart
};

struct InstructionRule {
    const char* name;
    uint32_t dtypes;  // of the sources; of the destination, if there are none
    Overlap overlap;
    uint32_t destinationAlignment = ONE_BLK_SIZE;  // 0: the element
};

// These are the data type tables of the instructions' pages, for Atlas A2.
constexpr InstructionRule INSTRUCTIONS[] = {
    {"Add", HALF_FLOAT | INT16_INT32, Overlap::ACCUMULATE},
    {"Sub", HALF_FLOAT | INT16_INT32, Overlap::ACCUMULATE},
    {"Mul", HALF_FLOAT | INT16_INT32, Overlap::ACCUMULATE},
    {"Max", HALF_FLOAT | INT16_INT32, Overlap::ACCUMULATE},
    {"Min", HALF_FLOAT | INT16_INT32, Overlap::ACCUMULATE},
    {"Div", HALF_FLOAT, Overlap::GENERAL},
    {"Adds", HALF_FLOAT | INT16_INT32, Overlap::GENERAL},
    {"Muls", HALF_FLOAT | INT16_INT32, Overlap::GENERAL},
    {"Maxs", HALF_FLOAT | INT16_INT32, Overlap::GENERAL},
    {"Mins", HALF_FLOAT | INT16_INT32, Overlap::GENERAL},
    {"Exp", HALF_FLOAT, Overlap::GENERAL},
    {"Ln", HALF_FLOAT, Overlap::GENERAL},
    {"Sqrt", HALF_FLOAT, Overlap::GENERAL},
    {"Rsqrt", HALF_FLOAT, Overlap::GENERAL},
    {"Reciprocal", HALF_FLOAT, Overlap::GENERAL},
    {"Abs", HALF_FLOAT, Overlap::GENERAL},
    {"LeakyRelu", HALF_FLOAT, Overlap::GENERAL},
    {"Relu", HALF_FLOAT | Bit(Dtype::INT32), Overlap::GENERAL},
    {"And", WORDS, Overlap::GENERAL},
    {"Or", WORDS, Overlap::GENERAL},
    {"Not", WORDS, Overlap::GENERAL},
    {"ShiftLeft", SHIFTED, Overlap::GENERAL},
    {"ShiftRight", SHIFTED, Overlap::GENERAL},
    {"Axpy", HALF_FLOAT, Overlap::GENERAL},
    {"MulAddDst", HALF_FLOAT, Overlap::GENERAL},
    {"FusedMulAdd", HALF_FLOAT, Overlap::GENERAL},
    {"Compare", HALF_FLOAT | Bit(Dtype::INT32), Overlap::NONE},
    {"CompareScalar", HALF_FLOAT | Bit(Dtype::INT32), Overlap::NONE},
    {"Select", HALF_FLOAT | Bit(Dtype::UINT8), Overlap::GENERAL},
    {"Copy", STORED, Overlap::GENERAL},
    {"DataCopy", ~0u, Overlap::NONE},
    {"Duplicate", STORED, Overlap::NONE},
    {"Brcb", STORED, Overlap::NONE},
    {"Gather", STORED, Overlap::NONE},
    {"GatherMask", STORED, Overlap::GENERAL},
    {"TransDataTo5HD", SHIFTED | HALF_FLOAT, Overlap::NONE},
    {"WholeReduceSum", HALF_FLOAT, Overlap::GENERAL, 0},
    {"WholeReduceMax", HALF_FLOAT, Overlap::GENERAL, 0},
    {"WholeReduceMin", HALF_FLOAT, Overlap::GENERAL, 0},
    {"BlockReduceSum", HALF_FLOAT, Overlap::GENERAL, 16},
    {"BlockReduceMax", HALF_FLOAT, Overlap::GENERAL, 16},
    {"BlockReduceMin", HALF_FLOAT, Overlap::GENERAL, 16},
    {"PairReduceSum", HALF_FLOAT, Overlap::GENERAL},
    {"Cast", ~0u, Overlap::GENERAL},
};

constexpr uint32_t Modes(std::initializer_list<RoundMode> modes)
{
    uint32_t bits = 0;
    for (const RoundMode mode : modes) {
        bits |= 1u << static_cast<uint32_t>(mode);
    }
    return bits;
}
constexpr uint32_t NONE = Modes({RoundMode::CAST_NONE});
constexpr uint32_t FIVE = Modes(
    {RoundMode::CAST_RINT, RoundMode::CAST_FLOOR, RoundMode::CAST_CEIL, RoundMode::CAST_ROUND, RoundMode::CAST_TRUNC});
constexpr uint32_t ODD = Modes({RoundMode::CAST_ODD});

struct Conversion {
    Dtype from;
    Dtype to;
    uint32_t modes;
};

// This is the table of Cast's page, for Atlas A2.
constexpr Conversion CONVERSIONS[] = {
    {Dtype::HALF, Dtype::FLOAT, NONE},        {Dtype::HALF, Dtype::INT32, FIVE},
    {Dtype::HALF, Dtype::INT16, FIVE},        {Dtype::HALF, Dtype::INT8, FIVE | NONE},
    {Dtype::HALF, Dtype::UINT8, FIVE | NONE}, {Dtype::BFLOAT16, Dtype::FLOAT, NONE},
    {Dtype::BFLOAT16, Dtype::INT32, FIVE},    {Dtype::FLOAT, Dtype::HALF, FIVE | NONE | ODD},
    {Dtype::FLOAT, Dtype::BFLOAT16, FIVE},    {Dtype::FLOAT, Dtype::FLOAT, FIVE},
    {Dtype::FLOAT, Dtype::INT16, FIVE},       {Dtype::FLOAT, Dtype::INT32, FIVE},
    {Dtype::FLOAT, Dtype::INT64, FIVE},       {Dtype::INT8, Dtype::HALF, NONE},
    {Dtype::UINT8, Dtype::HALF, NONE},        {Dtype::INT16, Dtype::HALF, FIVE | NONE},
    {Dtype::INT16, Dtype::FLOAT, NONE},       {Dtype::INT32, Dtype::FLOAT, FIVE | NONE},
    {Dtype::INT32, Dtype::INT16, NONE},       {Dtype::INT32, Dtype::INT64, NONE},
    {Dtype::INT32, Dtype::HALF, NONE},  // with SetDeqScale
    {Dtype::INT64, Dtype::INT32, NONE},       {Dtype::INT64, Dtype::FLOAT, FIVE},
};

const InstructionRule* Find(const char* name)
{
    for (const InstructionRule& instruction : INSTRUCTIONS) {
        if (std::strcmp(instruction.name, name) == 0) {
            return &instruction;
        }
    }
    return nullptr;
}

void CheckCast(const VectorEvent& event)
{
    constexpr const char* modes[] = {"CAST_NONE",  "CAST_RINT",  "CAST_FLOOR", "CAST_CEIL",
                                     "CAST_ROUND", "CAST_TRUNC", "CAST_ODD"};
    const Dtype from = event.accesses[1].dtype;
    const Dtype to = event.accesses[0].dtype;
    for (const Conversion& conversion : CONVERSIONS) {
        if (conversion.from == from && conversion.to == to) {
            if ((conversion.modes >> event.request.option & 1u) == 0) {
                Violation(Rule::ROUND_MODE, event, "%s to %s with %s", NameOf(from), NameOf(to),
                          event.request.option < 7 ? modes[event.request.option] : "an unknown mode");
            }
            return;
        }
    }
    Violation(Rule::DTYPE, event, "%s to %s", NameOf(from), NameOf(to));
}

void CheckDtypes(const VectorEvent& event, const InstructionRule& instruction)
{
    // The last operand of Gather holds offsets, Compare's destination and Select's mask hold bits.
    const Access& access = event.accesses[event.accessCount > 1 ? 1 : 0];
    if ((instruction.dtypes >> static_cast<uint32_t>(access.dtype) & 1u) == 0) {
        Violation(Rule::DTYPE, event, "%s on %s", event.name, NameOf(access.dtype));
    }
    if (std::strcmp(event.name, "Cast") == 0) {
        CheckCast(event);
    }
}

void CheckRequest(const VectorEvent& event)
{
    const Request& request = event.request;
    if (request.form == Form::FIRST) {
        if (request.mask < 0) {
            Violation(Rule::MASK, event, "a count of %ld elements", static_cast<long>(request.mask));
        }
        return;
    }
    const bool counter = event.maskMode == MaskMode::COUNTER;
    if (request.form == Form::MASK && counter) {
        Violation(Rule::MASK_STATE, event, "a mask of its own in counter mode, which the host layer does not have");
    }
    if (!counter) {
        constexpr int64_t maxRepeats = 255;
        if (request.repeatTimes < 0 || request.repeatTimes > maxRepeats) {
            Violation(Rule::REPEAT_TIMES, event, "repeatTimes is %ld", static_cast<long>(request.repeatTimes));
        }
        if (request.form == Form::MASK && (request.mask < 1 || request.mask > int64_t{event.repeatLanes})) {
            Violation(Rule::MASK, event, "a mask of %ld lanes, a repeat has %u", static_cast<long>(request.mask),
                      event.repeatLanes);
        }
    }
    for (uint32_t i = 0; i < event.accessCount; ++i) {
        constexpr uint32_t maxStride = 65535;
        const Access& access = event.accesses[i];
        if (access.blkStride > maxStride || access.repStride > maxStride) {
            Violation(Rule::STRIDE, event, "operand %u has strides %d and %d", i, static_cast<int>(access.blkStride),
                      static_cast<int>(access.repStride));
        }
        if (access.written && access.blkStride == 0 && access.lanes * SizeOf(access.dtype) > ONE_BLK_SIZE) {
            Violation(Rule::STRIDE, event,
                      "the destination's block stride is 0: the blocks of a repeat overwrite "
                      "each other");
        }
    }
}

void CheckAlignment(const VectorEvent& event, const InstructionRule& instruction)
{
    for (uint32_t i = 0; i < event.accessCount; ++i) {
        const Access& access = event.accesses[i];
        uint32_t alignment = i == 0 ? instruction.destinationAlignment : ONE_BLK_SIZE;
        alignment = alignment == 0 ? SizeOf(access.dtype) : alignment;
        if (access.offset % alignment != 0 && event.elements > 0) {
            Violation(Rule::ALIGNMENT, event, "operand %u begins at byte %u of the Unified Buffer, %u after a multiple",
                      i, access.offset, access.offset % alignment);
        }
    }
}

bool Same(const Access& a, const Access& b)
{
    return a.offset == b.offset && a.repeatStride == b.repeatStride && a.blockStride == b.blockStride &&
           a.pairStride == b.pairStride && a.lanes == b.lanes && a.lastLanes == b.lastLanes && a.dtype == b.dtype;
}

int64_t EndOf(const Access& access)
{
    int64_t end = 0;
    ForPieces(access, [&](int64_t offset, uint32_t bytes) { end = offset + bytes > end ? offset + bytes : end; });
    return end;
}

// Checks the repeats of a source against those of the destination, block by block.
void CheckOverlap(const VectorEvent& event, const InstructionRule& instruction, uint32_t index)
{
    const Access& dst = event.accesses[0];
    const Access& src = event.accesses[index];
    if (src.indirect) {
        if (dst.offset < src.offset + src.bytes && src.offset < EndOf(dst)) {
            Violation(Rule::OVERLAP, event, "the destination lies in the source");
        }
        return;
    }
    const int64_t dstEnd = EndOf(dst);
    const int64_t srcEnd = EndOf(src);
    if (dstEnd <= src.offset || srcEnd <= dst.offset) {
        return;
    }
    const bool same = Same(dst, src);
    const bool gapless = dst.repeatStride >= int64_t{dst.lanes} * SizeOf(dst.dtype) || dst.repeats == 1;
    if (same && gapless && instruction.overlap != Overlap::NONE && dst.BlocksAdjoin()) {
        return;
    }
    const bool accumulates = instruction.overlap == Overlap::ACCUMULATE && index == 2 && dst.offset == src.offset &&
                             (dst.repeatStride == 0 || src.repeatStride == 0);
    if (accumulates) {
        return;
    }
    // A narrowing Cast may write where it has read: its destination stays behind its source.
    const bool narrows =
        std::strcmp(event.name, "Cast") == 0 && SizeOf(dst.dtype) < SizeOf(src.dtype) && dst.offset == src.offset;
    // A reduction may leave its results in its source.
    const bool reduces = instruction.destinationAlignment != ONE_BLK_SIZE && dst.offset == src.offset;
    constexpr uint32_t untouched = ~0u;
    std::vector<uint32_t> writtenBy(UB_BYTES / ONE_BLK_SIZE + 1, untouched);  // the first repeat that does
    ForPiecesByRepeat(dst, [&](uint32_t repeat, int64_t offset, uint32_t bytes) {
        for (int64_t block = offset / ONE_BLK_SIZE; block <= (offset + bytes - 1) / ONE_BLK_SIZE; ++block) {
            if (writtenBy[block] == untouched) {
                writtenBy[block] = repeat;
            }
        }
    });
    ForPiecesByRepeat(src, [&](uint32_t repeat, int64_t offset, uint32_t bytes) {
        for (int64_t block = offset / ONE_BLK_SIZE; block <= (offset + bytes - 1) / ONE_BLK_SIZE; ++block) {
            const uint32_t writer = writtenBy[block];
            if (writer == untouched || writer > repeat) {
                continue;
            }
            if (writer < repeat) {
                Violation(Rule::OVERLAP, event, "repeat %u reads byte %ld of the Unified Buffer, which repeat %u wrote",
                          repeat, static_cast<long>(block * ONE_BLK_SIZE), writer);
            }
            if (instruction.overlap == Overlap::NONE || (!same && !narrows && !reduces)) {
                Violation(Rule::OVERLAP, event, "source %u and the destination overlap in part at byte %ld", index,
                          static_cast<long>(block * ONE_BLK_SIZE));
            }
        }
    });
}

}  // namespace

void CheckInstruction(const VectorEvent& event)
{
    const InstructionRule* instruction = Find(event.name);
    if (instruction == nullptr) {
        Note(Rule::NOTE_UNKNOWN_INSTRUCTION, event);
        constexpr InstructionRule unknown{"", ~0u, Overlap::GENERAL};
        instruction = &unknown;
    }
    CheckDtypes(event, *instruction);
    CheckRequest(event);
    CheckAlignment(event, *instruction);
    for (uint32_t i = 1; i < event.accessCount; ++i) {
        CheckOverlap(event, *instruction, i);
    }
}

bool IsElementwise(const VectorEvent& event)
{
    const Access& dst = event.accesses[0];
    for (uint32_t i = 1; i < event.accessCount; ++i) {
        const Access& src = event.accesses[i];
        if (src.indirect || src.lanes != dst.lanes || src.lastLanes != dst.lastLanes || src.repeats != dst.repeats) {
            return false;
        }
    }
    const InstructionRule* rule = Find(event.name);
    return rule == nullptr || rule->overlap != Overlap::NONE || std::strcmp(event.name, "DataCopy") == 0;
}

void MaskRegister::Set(const SettingEvent& event)
{
    switch (event.call) {
        case SettingCall::MASK_NORM:
            counter_ = false;
            break;
        case SettingCall::MASK_COUNT:
            counter_ = true;
            break;
        case SettingCall::VECTOR_MASK:
        case SettingCall::RESET_MASK:
            known_ = true;
            break;
        default:
            break;
    }
}

void MaskRegister::Vector(const VectorEvent& event)
{
    switch (event.request.form) {
        case Form::FIRST:  // sets counter mode and a mask, then normal mode and a full mask
            known_ = known_ && !counter_ && event.maskRegister == ONE_REPEAT_BYTE_SIZE / 2;
            counter_ = false;
            break;
        case Form::MASK:
            known_ = false;
            break;
        case Form::REGISTER:
            if (!known_ || counter_ != (event.maskMode == MaskMode::COUNTER)) {
                Violation(Rule::MASK_STATE, event,
                          "an instruction with a mask or a count of its own has changed the mask register or left "
                          "counter mode");
            }
            break;
    }
}

}  // namespace host
}  // namespace AscendC
