#include "passes/rematerialization.h"

#include <algorithm>
#include <cstddef>

namespace AscendC {
namespace host {

namespace {

// Takes no longer than to read floats from the L2 cache.
constexpr size_t MOST_NODES = 3;
// Floats of shorter ones stay in the L1 data cache; and loops over 16 bits have more to do before and behind.
constexpr int64_t LEAST_BYTES = 2048;
constexpr int64_t LEAST_BYTES_OF_NARROW = 8192;

// A value in the Unified Buffer, and the nodes that make it.
struct Value {
    const Operand* to;
    std::vector<SequenceNode> items;
    uint32_t number;  // of the first instruction that makes it
};

bool IsCheap(const SequenceNode& item)
{
    if (item.kind == NodeKind::ADDS || item.kind == NodeKind::MULS) {
        return true;
    }
    if (item.kind < NodeKind::BINARY || OtherOf(item.kind) != Other::BLOCK) {
        return false;
    }
    const Opcode opcode = OpcodeOf(item.kind);
    return opcode == Opcode::ADD || opcode == Opcode::SUB || opcode == Opcode::MUL;
}

// How many nodes of a fused sequence make the value that the next one stores, and can be repeated; 0: they cannot.
size_t NodesOf(const std::vector<SequenceNode>& items)
{
    if (items.empty() || !Loads(items[0].kind) || items[0].operand->origin == NO_ORIGIN) {
        return 0;
    }
    size_t count = 1;
    while (count < items.size() && IsCheap(items[count])) {
        ++count;
    }
    if (count == 1 || count - 1 > MOST_NODES || count == items.size() || items[count].kind != NodeKind::STORE_FLOAT) {
        return 0;
    }
    const Operand& to = *items[count].operand;
    const int64_t least = items[0].kind == NodeKind::LOAD_FLOAT ? LEAST_BYTES : LEAST_BYTES_OF_NARROW;
    return to.origin == NO_ORIGIN && to.end - to.base >= least ? count : 0;
}

class Rematerialization {
public:
    Rematerialization(const std::vector<Instruction>& instructions, const std::vector<uint32_t>& numbers,
                      const std::vector<Killed>& killed)
        : instructions_(instructions), numbers_(numbers), killed_(killed)
    {}

    // The steps of a group, which runs strip by strip.
    void Pass(Step* begin, Step* end)
    {
        for (Step* step = begin; step != end; ++step) {
            if (!step->items.empty() && step->items[0].kind == NodeKind::LOAD_FLOAT) {
                Replace(*step, begin, end);
            }
        }
        for (const Step* step = begin; step != end; ++step) {
            values_.erase(std::remove_if(values_.begin(), values_.end(),
                                         [&](const Value& value) {
                                             return Overwrites(*step, *value.to) || OverwritesSource(*step, value);
                                         }),
                          values_.end());
            Keep(*step);
        }
    }

private:
    // The first operand of the step's fused sequence is replaced by those that it was made of.
    void Replace(Step& step, const Step* begin, const Step* end) const
    {
        const Operand& from = *step.items[0].operand;
        const auto value = std::find_if(values_.begin(), values_.end(), [&](const Value& made) {
            return made.to->base == from.base && made.to->end == from.end && made.to->stride == from.stride;
        });
        const uint32_t number = numbers_[step.parts[0]];
        if (value == values_.end() || !Stays(*value, number) || step.items.size() + value->items.size() > MAX_NODES ||
            std::any_of<const Step*>(begin, &step, [&](const Step& earlier) { return Overwrites(earlier, from); }) ||
            std::any_of(begin, end, [&](const Step& other) { return OverwritesSource(other, *value); })) {
            return;
        }
        step.items.erase(step.items.begin());
        step.items.insert(step.items.begin(), value->items.begin(), value->items.end());
        step.partOf.insert(step.partOf.begin(), value->items.size() - 1, step.partOf[0]);
        step.mustFuse = true;
    }
    // Stores to killed bytes may have been eliminated.
    bool Stays(const Value& value, uint32_t number) const
    {
        return std::none_of(killed_.begin(), killed_.end(), [&](const Killed& some) {
            return some.number > value.number && some.number <= number && IsMadeOf(value, some.span);
        });
    }
    static bool IsMadeOf(const Value& value, const Span& span)
    {
        return std::any_of(value.items.begin(), value.items.end(), [&span](const SequenceNode& item) {
            return item.operand != nullptr && span.Overlaps(SpanOf(*item.operand));
        });
    }
    bool Overwrites(const Step& step, const Operand& operand) const
    {
        return std::any_of(step.parts.begin(), step.parts.end(),
                           [&](uint32_t part) { return Overlap(instructions_[part].operands[0], operand); });
    }
    // Does the step overwrite an operand of the value?
    bool OverwritesSource(const Step& step, const Value& value) const
    {
        return std::any_of(step.parts.begin(), step.parts.end(),
                           [&](uint32_t part) { return IsMadeOf(value, SpanOf(instructions_[part].operands[0])); });
    }
    void Keep(const Step& step)
    {
        const auto count = static_cast<std::ptrdiff_t>(NodesOf(step.items));
        if (count == 0) {
            return;
        }
        const auto begin = step.items.begin();
        const Value value{step.items[count].operand, {begin, begin + count}, numbers_[step.parts[0]]};
        // Fused sequences collect in memory of its own (FusedSequence::Extend).
        const bool lasts = std::none_of(begin + count + 1, step.items.end(), [&value](const SequenceNode& item) {
            return Stores(item.kind) && Overlap(*item.operand, *value.to);
        });
        if (lasts && !OverwritesSource(step, value)) {
            values_.push_back(value);
        }
    }

    const std::vector<Instruction>& instructions_;
    const std::vector<uint32_t>& numbers_;
    const std::vector<Killed>& killed_;
    std::vector<Value> values_;
};

}  // namespace

void Rematerialize(std::vector<Step>& steps, const std::vector<Instruction>& instructions,
                   const std::vector<uint32_t>& numbers, const std::vector<Killed>& killed)
{
    Rematerialization rematerialization(instructions, numbers, killed);
    for (size_t begin = 0; begin < steps.size();) {
        size_t end = begin;
        while (end < steps.size() && steps[end].group == steps[begin].group) {
            ++end;
        }
        rematerialization.Pass(steps.data() + begin, steps.data() + end);
        begin = end;
    }
}

}  // namespace host
}  // namespace AscendC
