#include "loops.h"

#include <algorithm>

namespace AscendC {
namespace host {

Access AccessOf(Link link)
{
    switch (link) {
        case Link::LOAD_FLOAT:
        case Link::STORE_FLOAT:
        case Link::AXPY:
            return Access::FLOAT;
        case Link::LOAD_HALF:
        case Link::STORE_HALF:
            return Access::HALF;
        case Link::LOAD_BFLOAT16:
        case Link::STORE_BFLOAT16:
        case Link::CAST_BFLOAT16:
            return Access::BFLOAT16;
        case Link::SUM:
        case Link::LARGEST:
        case Link::SMALLEST:
            return Access::LANES;
        default:
            break;
    }
    if (link < Link::BINARY) {
        return Access::NONE;
    }
    switch (OtherOf(link)) {
        case Other::STREAM:
            return Access::FLOAT;
        case Other::STREAM_HALF:
            return Access::HALF;
        case Other::STREAM_BFLOAT16:
            return Access::BFLOAT16;
        case Other::BLOCK:
            return Access::BLOCK;
        default:
            return Access::NONE;
    }
}

namespace {

constexpr uint32_t MAX_LOOP_LINKS = 160;
constexpr uint32_t MAX_LOOP_OPERANDS = 32;
// How far back a loop is looked for that a chain goes on with.
constexpr uint32_t MAX_BACK = 16;

// What a step does to memory.
struct Touch {
    const Operand* operand;
    Access access;
    bool writes;

    bool SameMemory(const Touch& other) const
    {
        return operand->base == other.operand->base && operand->stride == other.operand->stride &&
               operand->origin == other.operand->origin && access == other.access;
    }
    bool Conflicts(const Touch& other) const
    {
        return (writes || other.writes) && SpanOf(*operand).Overlaps(SpanOf(*other.operand));
    }
};

using Touches = std::vector<Touch>;

Touches TouchesOf(const Step& step, const std::vector<Instruction>& instructions)
{
    Touches touches;
    if (step.items.empty()) {
        const Instruction& instruction = instructions[step.parts[0]];
        for (uint32_t i = 0; i < instruction.operandCount; ++i) {
            touches.push_back({&instruction.operands[i], Access::NONE, i == 0});
        }
        return touches;
    }
    for (const ChainItem& item : step.items) {
        if (item.operand != nullptr) {
            touches.push_back({item.operand, AccessOf(item.link), Stores(item.link) || Collects(item.link)});
        }
    }
    return touches;
}

bool Conflict(const Touches& a, const Touches& b)
{
    return std::any_of(a.begin(), a.end(), [&b](const Touch& x) {
        return std::any_of(b.begin(), b.end(), [&x](const Touch& y) { return x.Conflicts(y); });
    });
}

// A loop while steps are added to it.
struct OpenLoop {
    std::vector<uint32_t> steps;
    Touches touches;  // nothing twice
    uint32_t links = 0;
    bool compiles = false;

    // Does the step read what the loop makes?
    bool Feeds(const Touches& step) const
    {
        return std::any_of(step.begin(), step.end(), [this](const Touch& read) {
            return !read.writes &&
                   std::any_of(touches.begin(), touches.end(),
                               [&read](const Touch& made) { return made.writes && made.SameMemory(read); });
        });
    }
    // Is all that the step touches the same memory as something that is touched already, or apart from it? Vectors are
    // all that the loop can take from one link to another.
    bool Fits(const Touches& step) const
    {
        return std::all_of(step.begin(), step.end(), [&](const Touch& a) {
            const auto apart = [&a](const Touch& b) { return a.SameMemory(b) || !a.Conflicts(b); };
            return std::all_of(touches.begin(), touches.end(), apart) && std::all_of(step.begin(), step.end(), apart);
        });
    }
    void Add(uint32_t index, const Step& step, const Touches& added)
    {
        steps.push_back(index);
        links += static_cast<uint32_t>(step.items.size()) + 1;
        for (const Touch& touch : added) {
            const auto known = std::find_if(touches.begin(), touches.end(),
                                            [&touch](const Touch& other) { return other.SameMemory(touch); });
            if (known == touches.end()) {
                touches.push_back(touch);
            } else {
                known->writes = known->writes || touch.writes;
            }
        }
    }
};

// The loops of one group.
class GroupLoops {
public:
    void Add(uint32_t index, const Step& step, const std::vector<Instruction>& instructions)
    {
        const Touches touches = TouchesOf(step, instructions);
        if (!step.items.empty()) {
            for (size_t i = loops_.size(); i-- > 0 && loops_.size() - i <= MAX_BACK;) {
                OpenLoop& loop = loops_[i];
                if (loop.compiles && loop.Feeds(touches) && loop.Fits(touches) &&
                    loop.links + step.items.size() < MAX_LOOP_LINKS &&
                    loop.touches.size() + touches.size() <= MAX_LOOP_OPERANDS) {
                    loop.Add(index, step, touches);
                    return;
                }
                if (Conflict(loop.touches, touches)) {
                    break;
                }
            }
        }
        OpenLoop loop;
        loop.compiles = !step.items.empty() && loop.Fits(touches);
        loop.Add(index, step, touches);
        loops_.push_back(std::move(loop));
    }
    std::vector<OpenLoop>& List() { return loops_; }

private:
    std::vector<OpenLoop> loops_;
};

// What of the Unified Buffer will be read, going backwards through the loops.
class Liveness {
public:
    Liveness(const Steps& steps, const std::vector<Instruction>& instructions, const Ranges& needed)
        : steps_(steps), instructions_(instructions), needed_(needed), forgotten_(steps.ForgottenCount())
    {
    }

    // Marks the stores of the loop that something behind it needs.
    void Pass(const OpenLoop& loop, LoopForm& form)
    {
        Forget(loop);
        MarkNeeded(loop, form);
        for (size_t k = loop.steps.size(); k-- > 0;) {
            PassStep(steps_.List()[loop.steps[k]]);
        }
    }

private:
    // Bytes that were given up behind the loop, if nothing of before that has been passed.
    void Forget(const OpenLoop& loop)
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
            const Steps::Forgotten& forgotten = steps_.ForgottenAt(--forgotten_);
            if (forgotten.number <= lowest_) {
                needed_.Remove(forgotten.span);
            }
        }
        lowest_ = std::min(lowest_, first);
    }
    void MarkNeeded(const OpenLoop& loop, LoopForm& form) const
    {
        std::vector<uint8_t> stored;
        size_t at = form.size();
        for (size_t k = loop.steps.size(); k-- > 0;) {
            const std::vector<ChainItem>& items = steps_.List()[loop.steps[k]].items;
            at -= form.empty() ? 0 : 1;  // END
            for (size_t i = items.size(); i-- > 0 && !form.empty();) {
                LoopLink& link = form[--at];
                if (!Stores(link.link)) {
                    continue;
                }
                const bool last = std::find(stored.begin(), stored.end(), link.operand) == stored.end();
                stored.push_back(link.operand);
                const Operand& to = *items[i].operand;
                link.needed = last && (to.origin != NO_ORIGIN || needed_.Overlaps(SpanOf(to))) ? 1 : 0;
            }
        }
    }
    void PassStep(const Step& step)
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
    void Read(const Operand& operand)
    {
        if (operand.origin == NO_ORIGIN) {
            needed_.Add(SpanOf(operand));
        }
    }

    const Steps& steps_;
    const std::vector<Instruction>& instructions_;
    Ranges needed_;
    uint32_t forgotten_;
    uint32_t lowest_ = UINT32_MAX;  // number of an instruction that was passed
};

LoopForm FormOf(const OpenLoop& loop, const Steps& steps)
{
    LoopForm form;
    uint16_t index = 0;
    for (const uint32_t s : loop.steps) {
        for (const ChainItem& item : steps.List()[s].items) {
            uint8_t operand = LoopLink::NO_OPERAND;
            if (item.operand != nullptr) {
                const Touch touch{item.operand, AccessOf(item.link), false};
                operand = static_cast<uint8_t>(
                    std::find_if(loop.touches.begin(), loop.touches.end(),
                                 [&touch](const Touch& other) { return other.SameMemory(touch); }) -
                    loop.touches.begin());
            }
            form.push_back({item.link, operand, index++, 0, item.scalar});
        }
        form.push_back({Link::END, LoopLink::NO_OPERAND, index++, 0, 0.0f});
    }
    return form;
}

// Not for few elements; and what is one instruction has a loop of its own, but for sums, which that keeps in memory.
bool WorthCompiling(const OpenLoop& loop, const Steps& steps, const std::vector<Instruction>& instructions)
{
    constexpr uint32_t LEAST_ELEMENTS = 4 * LOOP_ELEMENTS;
    const Step& first = steps.List()[loop.steps[0]];
    const bool collects = std::any_of(first.items.begin(), first.items.end(),
                                      [](const ChainItem& item) { return Collects(item.link); });
    return loop.compiles && instructions[first.parts[0]].units >= LEAST_ELEMENTS &&
           (loop.steps.size() > 1 || first.mustChain || collects);
}

}  // namespace

std::vector<Loop> FindLoops(const Steps& steps, const std::vector<Instruction>& instructions, const Ranges& needed)
{
    const std::vector<Step>& list = steps.List();
    std::vector<OpenLoop> open;
    for (uint32_t begin = 0; begin < list.size();) {
        GroupLoops group;
        uint32_t end = begin;
        for (; end < list.size() && list[end].group == list[begin].group; ++end) {
            if (!list[end].parts.empty()) {
                group.Add(end, list[end], instructions);
            }
        }
        std::move(group.List().begin(), group.List().end(), std::back_inserter(open));
        begin = end;
    }
    std::vector<Loop> loops(open.size());
    Liveness liveness(steps, instructions, needed);
    for (size_t i = open.size(); i-- > 0;) {
        loops[i].form = WorthCompiling(open[i], steps, instructions) ? FormOf(open[i], steps) : LoopForm{};
        liveness.Pass(open[i], loops[i].form);
        loops[i].steps = std::move(open[i].steps);
    }
    return loops;
}

}  // namespace host
}  // namespace AscendC
