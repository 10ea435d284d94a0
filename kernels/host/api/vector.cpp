#include "api/vector.h"

#include "runtime/launch.h"

namespace AscendC {
namespace host {

namespace {

void IssueRepeats(const Operation& operation, const Operand* operands, uint32_t count, uint32_t repeats, uint32_t lanes,
                  float scalar, uint32_t option)
{
    Core& core = Core::Current();
    Instruction& instruction = core.Next();
    instruction.operation = operation;
    instruction.iterations = repeats;
    instruction.lanes = lanes;
    instruction.operandCount = count;
    instruction.scalar = scalar;
    instruction.option = option;
    for (uint32_t i = 0; i < count; ++i) {
        instruction.operands[i] = operands[i];
    }
    core.Issue();
}

// Repeats whose blocks lie apart: one block of every repeat at a time.
void IssueBlockwise(const Operation& operation, const Source* sources, uint32_t count, uint32_t repeats, uint32_t lanes,
                    float scalar, uint32_t option)
{
    uint32_t widest = 1;
    for (uint32_t i = 0; i < count; ++i) {
        widest = sources[i].elementBytes > widest ? sources[i].elementBytes : widest;
    }
    const uint32_t blockLanes = ONE_BLK_SIZE / widest;
    for (uint32_t done = 0; done < lanes; done += blockLanes) {
        const uint32_t now = lanes - done < blockLanes ? lanes - done : blockLanes;
        Operand operands[CALLED_OPERANDS];
        for (uint32_t i = 0; i < count; ++i) {
            // A narrow operand packs several of these pieces into one of its blocks.
            const uint32_t byte = done * sources[i].elementBytes;
            const uint32_t offset = byte / ONE_BLK_SIZE * sources[i].blkStride * ONE_BLK_SIZE + byte % ONE_BLK_SIZE;
            operands[i] = ByRepeat({sources[i].base + offset, 1, sources[i].repStride, sources[i].elementBytes}, now);
        }
        IssueRepeats(operation.With(Layout::REPEAT), operands, count, repeats, now, scalar, option);
    }
}

void IssueRegular(const Operation& operation, const Source* sources, uint32_t count, uint32_t repeats, uint32_t lanes,
                  uint32_t tail, uint32_t repeatLanes, float scalar, uint32_t option)
{
    Walk walks[CALLED_OPERANDS];
    bool allGapless = true;
    bool anyBlocks = false;
    for (uint32_t i = 0; i < count; ++i) {
        walks[i] = WalkOf(sources[i], lanes, repeatLanes);
        allGapless = allGapless && walks[i] == Walk::GAPLESS;
        anyBlocks = anyBlocks || walks[i] == Walk::BLOCKS;
    }
    const bool binary = count == 3;
    // These are the last columns of rows, up to a block of them, behind those that a DataBlock takes part in.
    if (binary && walks[2] == Walk::REPEATS && sources[2].blkStride == 0 && sources[0].blkStride == 1 &&
        sources[1].blkStride == 1) {
        walks[2] = Walk::BLOCK_A_REPEAT;
    }
    const uint32_t elements = repeats * lanes + tail;
    if (allGapless) {
        IssueContiguous(operation, sources, count, elements, scalar, option);
        return;
    }
    Core& core = Core::Current();
    const auto start = [&]() -> Instruction& {
        Instruction& instruction = core.Next();
        instruction.operandCount = count;
        instruction.scalar = scalar;
        instruction.option = option;
        return instruction;
    };
    // Such a call is acc = src0 op acc, repeat after repeat into the same lanes.
    const bool accumulates = binary && walks[0] == Walk::ONE_REPEAT && walks[2] == Walk::ONE_REPEAT &&
                             sources[0].base == sources[2].base && !anyBlocks;
    if (accumulates && walks[1] == Walk::GAPLESS) {
        Instruction& instruction = start();
        instruction.operation = operation.With(Layout::ACCUMULATE);
        instruction.iterations = elements;
        instruction.granule = repeatLanes;
        instruction.operands[0] = {sources[0].base, 0, ONE_REPEAT_BYTE_SIZE};
        instruction.operands[1] = ByElement(sources[1]);
        instruction.operands[2] = instruction.operands[0];
        core.Issue();
        return;
    }
    const int oneBlock = binary && walks[2] == Walk::ONE_BLOCK ? 2 : (binary && walks[1] == Walk::ONE_BLOCK ? 1 : 0);
    if (oneBlock != 0 && walks[0] == Walk::GAPLESS && walks[3 - oneBlock] == Walk::GAPLESS) {
        Instruction& instruction = start();
        instruction.operation = operation.With(oneBlock == 2 ? Layout::BROADCAST1 : Layout::BROADCAST0);
        instruction.iterations = elements;
        instruction.granule = repeatLanes * ONE_BLK_SIZE / ONE_REPEAT_BYTE_SIZE;  // a block
        for (int i = 0; i < 3; ++i) {
            instruction.operands[i] = ByElement(sources[i]);
        }
        instruction.operands[oneBlock] = {sources[oneBlock].base, 0, ONE_BLK_SIZE};
        core.Issue();
        return;
    }
    if (tail > 0) {  // by repeats here, of which the last, shorter one is an instruction of its own
        Source tailSources[CALLED_OPERANDS];
        for (uint32_t i = 0; i < count; ++i) {
            tailSources[i] = sources[i];
            tailSources[i].base += static_cast<uint64_t>(repeats) * sources[i].repStride * ONE_BLK_SIZE;
        }
        if (repeats > 0) {
            IssueRegular(operation, sources, count, repeats, lanes, 0, repeatLanes, scalar, option);
        }
        IssueRegular(operation, tailSources, count, 1, tail, 0, repeatLanes, scalar, option);
        return;
    }
    const auto blockOf = [&](int i) { return walks[i] == Walk::BLOCK_A_REPEAT || walks[i] == Walk::ONE_BLOCK; };
    if (anyBlocks || blockOf(0) || (binary && blockOf(1) && blockOf(2)) || (!binary && count > 1 && blockOf(1))) {
        IssueBlockwise(operation, sources, count, repeats, lanes, scalar, option);
        return;
    }
    Layout layout = Layout::REPEAT;
    Instruction& instruction = start();
    for (uint32_t i = 0; i < count; ++i) {
        instruction.operands[i] = blockOf(i) ? ByBlock(sources[i]) : ByRepeat(sources[i], lanes);
    }
    if (accumulates && !blockOf(1)) {
        layout = Layout::ACCUMULATE_REPEAT;
    } else if (binary && blockOf(1)) {
        layout = Layout::REPEAT_BROADCAST0;
    } else if (binary && blockOf(2)) {
        layout = Layout::REPEAT_BROADCAST1;
    }
    instruction.operation = operation.With(layout);
    instruction.iterations = repeats;
    instruction.lanes = lanes;
    instruction.widen = true;
    instruction.blockOperand = layout == Layout::REPEAT_BROADCAST0 ? 1 : (layout == Layout::REPEAT_BROADCAST1 ? 2 : 0);
    instruction.folds = layout == Layout::REPEAT && binary && sources[0].base == sources[2].base;
    core.Issue();
}

}  // namespace

void IssueStrided(const Operation& operation, const Source* sources, uint32_t count, const Iteration& iteration,
                  uint32_t repeatLanes, float scalar, uint32_t option)
{
    if (iteration.full == 0 && iteration.tail == 0) {
        return;
    }
    if (iteration.full * iteration.lanes + iteration.tail == 0) {
        return;
    }
    if (iteration.full == 0) {
        IssueRegular(operation, sources, count, 1, iteration.tail, 0, repeatLanes, scalar, option);
        return;
    }
    IssueRegular(operation, sources, count, iteration.full, iteration.lanes, iteration.tail, repeatLanes, scalar,
                 option);
}

}  // namespace host
}  // namespace AscendC
