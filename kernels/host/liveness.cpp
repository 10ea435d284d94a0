#include "liveness.h"

#include <algorithm>

namespace AscendC {
namespace host {

namespace {

// Does one store write all that the other one does?
bool Covers(const LoopForm& form, const LoopLink& store, const LoopLink& other)
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

void Liveness::Pass(Loop& loop)
{
    Forget(loop);
    MarkNeeded(loop);
    for (size_t k = loop.steps.size(); k-- > 0;) {
        PassStep(steps_.List()[loop.steps[k]]);
    }
}

// Bytes that were given up behind the loop, if nothing of before that has been passed.
void Liveness::Forget(const Loop& loop)
{
    uint32_t last = 0;
    uint32_t first = UINT32_MAX;
    for (const uint32_t s : loop.steps) {
        for (const uint32_t part : steps_.List()[s].parts) {
            last = std::max(last, steps_.NumberOf(part));
            first = std::min(first, steps_.NumberOf(part));
        }
    }
    while (forgotten_ > 0 && steps_.ForgottenAt(forgotten_ - 1).number > last) {
        const Forgotten& forgotten = steps_.ForgottenAt(--forgotten_);
        if (forgotten.number <= lowest_) {
            needed_.Remove(forgotten.span);
        }
    }
    lowest_ = std::min(lowest_, first);
}

void Liveness::MarkNeeded(Loop& loop) const
{
    std::vector<LoopLink>& links = loop.form.links;
    std::vector<const LoopLink*> stored;
    size_t at = links.size();
    for (size_t k = loop.steps.size(); k-- > 0;) {
        const std::vector<ChainItem>& items = loop.items[k];
        at -= links.empty() ? 0 : 1;  // END
        for (size_t i = items.size(); i-- > 0 && !links.empty();) {
            LoopLink& link = links[--at];
            if (!Stores(link.link)) {
                continue;
            }
            const bool last = std::none_of(stored.begin(), stored.end(),
                                           [&](const LoopLink* later) { return Covers(loop.form, *later, link); });
            stored.push_back(&link);
            const Operand& to = *items[i].operand;
            link.needed = !last                          ? LoopLink::NOT_NEEDED
                          : to.origin != NO_ORIGIN       ? LoopLink::IN_GM
                          : needed_.Overlaps(SpanOf(to)) ? LoopLink::IN_UB
                                                         : LoopLink::NOT_NEEDED;
        }
    }
}

void Liveness::PassStep(const Step& step)
{
    if (step.items.empty()) {
        const Instruction& instruction = instructions_[step.parts[0]];
        const Operand& to = instruction.operands[0];
        if (to.origin == NO_ORIGIN && to.stride > 0 && to.stride <= static_cast<int64_t>(to.extent)) {
            needed_.Remove(SpanOf(to));
        }
        for (uint32_t i = 1; i < instruction.operandCount; ++i) {
            Read(instruction.operands[i]);
        }
        return;
    }
    for (size_t i = step.items.size(); i-- > 0;) {
        const ChainItem& item = step.items[i];
        if (item.operand == nullptr) {
            continue;
        }
        if (Stores(item.link)) {
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
