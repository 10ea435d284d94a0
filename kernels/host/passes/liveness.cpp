#include "passes/liveness.h"

#include <algorithm>

namespace AscendC {
namespace host {

namespace {

// Does one store write all that the other one does?
bool Covers(const LoopForm& form, const LoopNode& store, const LoopNode& other)
{
    if (!form.byRow) {
        return store.operand == other.operand;
    }
    const LoopRows& rows = form.rows[store.operand];
    const LoopRows& others = form.rows[other.operand];
    return rows.whole == others.whole && rows.column <= others.column &&
           rows.column + store.elements >= others.column + other.elements;
}

}  // namespace

void Liveness::Pass(FusedLoop& loop)
{
    Kill(loop);
    MarkNeeded(loop);
    for (size_t k = loop.steps.size(); k-- > 0;) {
        PassStep(steps_.List()[loop.steps[k]]);
    }
}

// Bytes that were given up behind the loop, if nothing of before that has been passed.
void Liveness::Kill(const FusedLoop& loop)
{
    uint32_t last = 0;
    uint32_t first = UINT32_MAX;
    for (const uint32_t s : loop.steps) {
        for (const uint32_t part : steps_.List()[s].parts) {
            last = std::max(last, steps_.NumberOf(part));
            first = std::min(first, steps_.NumberOf(part));
        }
    }
    while (killed_ > 0 && steps_.KilledAt(killed_ - 1).number > last) {
        const Killed& killed = steps_.KilledAt(--killed_);
        if (killed.number <= lowest_) {
            needed_.Remove(killed.span);
        }
    }
    lowest_ = std::min(lowest_, first);
}

void Liveness::MarkNeeded(FusedLoop& loop) const
{
    std::vector<LoopNode>& nodes = loop.form.nodes;
    std::vector<const LoopNode*> stored;
    size_t at = nodes.size();
    for (size_t k = loop.steps.size(); k-- > 0;) {
        const std::vector<SequenceNode>& items = loop.items[k];
        at -= nodes.empty() ? 0 : 1;  // END
        for (size_t i = items.size(); i-- > 0 && !nodes.empty();) {
            LoopNode& node = nodes[--at];
            if (!Stores(node.kind)) {
                continue;
            }
            const bool last = std::none_of(stored.begin(), stored.end(),
                                           [&](const LoopNode* later) { return Covers(loop.form, *later, node); });
            stored.push_back(&node);
            const Operand& to = *items[i].operand;
            node.needed = !last                          ? LoopNode::NOT_NEEDED
                          : to.origin != NO_ORIGIN       ? LoopNode::IN_GM
                          : needed_.Overlaps(SpanOf(to)) ? LoopNode::IN_UB
                                                         : LoopNode::NOT_NEEDED;
        }
    }
}

void Liveness::PassStep(const Step& step)
{
    if (step.items.empty()) {
        const Instruction& instruction = instructions_[step.parts[0]];
        const Operand& to = instruction.operands[0];
        if (to.origin == NO_ORIGIN && FillsSpan(to)) {
            needed_.Remove(SpanOf(to));
        }
        for (uint32_t i = 1; i < instruction.operandCount; ++i) {
            Read(instruction.operands[i]);
        }
        return;
    }
    for (size_t i = step.items.size(); i-- > 0;) {
        const SequenceNode& item = step.items[i];
        if (item.operand == nullptr) {
            continue;
        }
        if (Stores(item.kind)) {
            needed_.Remove(SpanOf(*item.operand));
        } else {
            Read(*item.operand);
        }
    }
}

void Liveness::Read(const Operand& operand)
{
    if (operand.origin == NO_ORIGIN) {
        needed_.Add(SpanOf(operand));
    }
}

}  // namespace host
}  // namespace AscendC
