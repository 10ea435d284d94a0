#include "loops.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "chains.h"
#include "effort.h"
#include "liveness.h"
#include "meaning.h"
#include "types.h"

namespace AscendC {
namespace host {

LinkAccess AccessOf(Link link)
{
    switch (link) {
        case Link::LOAD_FLOAT:
        case Link::STORE_FLOAT:
        case Link::AXPY:
            return LinkAccess::FLOAT;
        case Link::LOAD_HALF:
        case Link::STORE_HALF:
            return LinkAccess::HALF;
        case Link::LOAD_BFLOAT16:
        case Link::STORE_BFLOAT16:
        case Link::CAST_BFLOAT16:
            return LinkAccess::BFLOAT16;
        case Link::SUM:
        case Link::LARGEST:
        case Link::SMALLEST:
            return LinkAccess::LANES;
        default:
            break;
    }
    if (link < Link::BINARY) {
        return LinkAccess::NONE;
    }
    switch (OtherOf(link)) {
        case Other::STREAM:
            return LinkAccess::FLOAT;
        case Other::STREAM_HALF:
            return LinkAccess::HALF;
        case Other::STREAM_BFLOAT16:
            return LinkAccess::BFLOAT16;
        case Other::BLOCK:
            return LinkAccess::BLOCK;
        default:
            return LinkAccess::NONE;
    }
}

uint32_t SizeOf(LinkAccess access)
{
    return access == LinkAccess::HALF || access == LinkAccess::BFLOAT16 ? sizeof(uint16_t) : sizeof(float);
}

ElementType TypeOf(LinkAccess access)
{
    return access == LinkAccess::HALF       ? ElementType::HALF
           : access == LinkAccess::BFLOAT16 ? ElementType::BFLOAT16
                                            : ElementType::FLOAT;
}

std::string LoopForm::Key() const
{
    const char kind = sequence.empty() ? (byRow ? 'r' : 'e') : 's';
    std::string key = {kind, static_cast<char>('0' + ways.Number())};
    key.append(reinterpret_cast<const char*>(&inGm), sizeof(inGm));
    key.append(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(rows[0]));
    key.append(reinterpret_cast<const char*>(links.data()), links.size() * sizeof(links[0]));
    return key.append(reinterpret_cast<const char*>(sequence.data()), sequence.size() * sizeof(sequence[0]));
}

uint32_t LoopForm::Cost() const
{
    uint32_t cost = 0;
    for (const LoopLink& link : links) {
        cost += link.link == Link::END
                    ? 0
                    : (1 + EffortOf(link.link).Time(FAST_PACE)) * std::max<uint32_t>(link.elements, 1);
    }
    return cost;
}

bool LoopForm::MayStream(const LoopLink& store) const
{
    return store.needed == LoopLink::IN_GM && (!byRow || rows[store.operand].stride % STREAMED_BYTES == 0);
}

uint32_t LoopForm::Inputs() const
{
    uint64_t read = 0;  // a bit for each operand
    for (const LoopLink& link : links) {
        read |= link.operand == LoopLink::NO_OPERAND || Stores(link.link) ? 0 : inGm & 1ull << link.operand;
    }
    return static_cast<uint32_t>(__builtin_popcountll(read));
}

bool LoopForm::MayOverlap() const
{
    uint64_t read = 0;  // before it is stored; a bit for each operand
    uint64_t stored = 0;
    bool collects = false;
    for (const LoopLink& link : links) {
        const uint64_t bit = link.operand == LoopLink::NO_OPERAND ? 0 : 1ull << link.operand;
        read |= Stores(link.link) ? 0 : bit & ~stored;
        stored |= Stores(link.link) ? bit : 0;
        collects = collects || Collects(link.link);
    }
    return !byRow && !collects && (read & stored) == 0;
}

namespace {

constexpr uint32_t MAX_LOOP_LINKS = 160;
constexpr uint32_t MAX_LOOP_OPERANDS = 32;  // of several steps
// Of steps that have no more to do with one another than that they read the same: the registers are for fewer.
constexpr uint32_t MAX_SHARING_OPERANDS = 24;
static_assert(MAX_LINKS <= 64, "LoopForm has a bit for each operand of a chain");
// How far back a loop is looked for that a step goes on with.
constexpr uint32_t MAX_BACK = 64;
// Columns of a row are told apart by so many, whole vectors of any CPU.
constexpr uint32_t COLUMNS = 16;

// What a step does to memory. A unit is one of the group.
struct Touch {
    const Operand* operand;
    int64_t stride;     // bytes from a unit to the next
    uint32_t elements;  // of a unit that is a row; 0: it is an element
    LinkAccess access;
    bool reads;
    bool writes;

    bool SameMemory(const Touch& other) const { return IsAlike(other) && operand->base == other.operand->base; }
    bool Conflicts(const Touch& other) const
    {
        return (writes || other.writes) && SpanOf(*operand).Overlaps(SpanOf(*other.operand));
    }
    bool IsApart(const Touch& other) const { return !Conflicts(other) || IsBeside(other); }
    // The code goes through all links for some elements, then for the next: of two that collect in the same lanes, the
    // second one would begin before the first one is done.
    bool MayFollow(const Touch& other) const
    {
        const bool collect = access == LinkAccess::LANES && other.access == LinkAccess::LANES;
        return IsApart(other) || (SameMemory(other) && !collect);
    }
    // Bytes of a row.
    int64_t Bytes() const
    {
        return access == LinkAccess::LANES   ? ONE_REPEAT_BYTE_SIZE
               : access == LinkAccess::BLOCK ? ONE_BLK_SIZE
                                             : elements * SizeOf(access);
    }
    // Columns of the same rows, which never meet?
    bool IsBeside(const Touch& other) const
    {
        if (elements == 0 || stride != other.stride || stride <= 0 || access == LinkAccess::NONE ||
            other.access == LinkAccess::NONE) {
            return false;
        }
        int64_t distance = BytesTo(other) % stride;
        distance += distance < 0 ? stride : 0;
        return distance >= Bytes() && distance + other.Bytes() <= stride;
    }
    // Columns of the same rows, whole vectors apart?
    bool SharesRows(const Touch& other) const
    {
        const int64_t bytes = BytesTo(other);
        return HasWhole() && other.HasWhole() && HasElements() && IsAlike(other) &&
               bytes % (COLUMNS * SizeOf(access)) == 0 &&
               std::max(Bytes(), bytes + other.Bytes()) - std::min<int64_t>(0, bytes) <= stride;
    }
    bool HasElements() const
    {
        return access == LinkAccess::FLOAT || access == LinkAccess::HALF || access == LinkAccess::BFLOAT16;
    }
    bool IsInput() const { return reads && !writes && HasElements(); }
    bool HasWhole() const { return elements > 0 && elements % COLUMNS == 0; }
    int32_t ColumnsTo(const Touch& other) const { return static_cast<int32_t>(BytesTo(other) / SizeOf(access)); }

private:
    bool IsAlike(const Touch& other) const
    {
        return stride == other.stride && operand->origin == other.operand->origin && access == other.access;
    }
    int64_t BytesTo(const Touch& other) const { return other.operand->base - operand->base; }
};

using Touches = std::vector<Touch>;

// One of the steps, as a loop sees it.
struct Member {
    uint32_t step;
    uint32_t units;
    uint32_t rowElements;  // 0: a unit is an element
    std::vector<ChainItem> items;
    Touches touches;
    bool compiles = false;
};

// What an instruction does to each row of so many elements, as a chain does it to elements; empty: that cannot be said.
std::vector<ChainItem> RowItems(const Instruction& instruction, uint32_t elements)
{
    Instruction byElement = instruction;
    if (instruction.lanes > 1) {
        byElement.run = ElementRunOf(instruction.run);
    }
    const Meaning meaning = byElement.run == nullptr ? Meaning{} : MeaningOf(byElement);
    const Operand* const operands = instruction.operands;
    const bool byRow = instruction.lanes > 1;
    if (meaning.layout == Layout::ACCUMULATE && meaning.kind == Meaning::BINARY) {
        const bool repeat = byRow && operands[0].base == operands[2].base && operands[0].stride == operands[2].stride &&
                            operands[0].stride >= static_cast<int64_t>(ONE_REPEAT_BYTE_SIZE);
        return repeat ? std::vector<ChainItem>{{LoadLink(ElementType::FLOAT), 0.0f, &operands[1]},
                                               {CollectLink(meaning.opcode), 0.0f, &operands[0]}}
                      : std::vector<ChainItem>{};
    }
    const bool blocks = meaning.layout != Layout::CONTIGUOUS;
    if (blocks && (meaning.kind != Meaning::BINARY || !(byRow || BlocksFit(elements)))) {
        return {};
    }
    const ChainItem store{StoreLink(meaning.to), 0.0f, &operands[0]};
    switch (meaning.kind) {
        case Meaning::BINARY: {
            const bool swapped = meaning.layout == Layout::BROADCAST0;
            const Operand& first = operands[swapped ? 2 : 1];
            const Operand& second = operands[swapped ? 1 : 2];
            const Other other = blocks ? Other::BLOCK : Other::STREAM;
            return {{LoadLink(meaning.from), 0.0f, &first},
                    {BinaryLink(meaning.opcode, other, swapped), 0.0f, &second},
                    store};
        }
        case Meaning::SCALAR:
        case Meaning::UNARY:
            return {{LoadLink(meaning.from), 0.0f, &operands[1]},
                    {LinkOf(meaning.opcode), instruction.scalar, nullptr},
                    store};
        case Meaning::CAST:
            if (meaning.to == ElementType::BFLOAT16) {
                return {{LoadLink(meaning.from), 0.0f, &operands[1]}, {Link::CAST_BFLOAT16, 0.0f, &operands[0]}};
            }
            return {{LoadLink(meaning.from), 0.0f, &operands[1]}, store};  // which rounds to half
        default:
            return {};
    }
}

// Is all that the step touches the same memory or apart? Vectors are all that a loop can take from one link to another,
// and a step that shifts columns may see some of its own.
bool IsSound(const Touches& touches)
{
    return std::all_of(touches.begin(), touches.end(), [&touches](const Touch& a) {
        return std::all_of(touches.begin(), touches.end(), [&a](const Touch& b) { return &a == &b || a.MayFollow(b); });
    });
}

// Does every row of what is written lie behind the one before?
bool RowsAreApart(const Touches& touches)
{
    return std::all_of(touches.begin(), touches.end(),
                       [](const Touch& touch) { return !touch.writes || touch.stride >= touch.Bytes(); });
}

// What a copy does to elements of a type.
std::vector<ChainItem> CopyItems(const Instruction& copy, LinkAccess access)
{
    const Operand* const operands = copy.operands;
    if (operands[0].extent != operands[1].extent || operands[0].extent % SizeOf(access) != 0) {
        return {};
    }
    const ElementType type = TypeOf(access);
    return {{LoadLink(type), 0.0f, &operands[1]}, {StoreLink(type), 0.0f, &operands[0]}};
}

// May a chain go over rows of so many elements, each anew?
bool MayGoByRow(const std::vector<ChainItem>& chain, uint32_t elements)
{
    return elements <= MAX_ROW_ELEMENTS && std::all_of(chain.begin(), chain.end(), [elements](const ChainItem& item) {
               const LinkAccess access = AccessOf(item.link);
               return access != LinkAccess::LANES && (access != LinkAccess::BLOCK || BlocksFit(elements));
           });
}

// `copied`: the type of elements that a copy is one of.
Member MemberOf(uint32_t index, const Step& step, const Group& group, const std::vector<Instruction>& instructions,
                LinkAccess copied)
{
    const Instruction& instruction = instructions[step.parts[0]];
    const uint32_t ratio = instruction.units / group.units;
    Member member{index, group.units, 0, step.items, {}, false};
    if (!step.items.empty() && ratio > 1 && MayGoByRow(step.items, ratio)) {
        member.rowElements = ratio;
    }
    if (step.items.empty()) {
        const bool copies = copied != LinkAccess::NONE;
        const uint32_t lanes = copies ? instruction.operands[0].extent / SizeOf(copied) : instruction.lanes;
        const bool byElement = copies ? group.elements == 1 : lanes == 1 && ratio == 1;
        member.rowElements = byElement ? 0 : (lanes > 1 ? lanes : ratio);
        const bool fits = member.rowElements <= MAX_ROW_ELEMENTS && (lanes == 1 || ratio == 1);
        member.items = !fits    ? std::vector<ChainItem>{}
                       : copies ? CopyItems(instruction, copied)
                                : RowItems(instruction, member.rowElements);
    }
    for (const ChainItem& item : member.items) {
        if (item.operand != nullptr) {
            const bool stores = Stores(item.link);
            const bool writes = stores || Collects(item.link);
            member.touches.push_back(
                {item.operand, item.operand->stride * ratio, member.rowElements, AccessOf(item.link), !stores, writes});
        }
    }
    if (member.rowElements > 0 && !RowsAreApart(member.touches)) {
        member.items.clear();
    }
    if (member.items.empty()) {
        member.touches.clear();
        for (uint32_t i = 0; i < instruction.operandCount; ++i) {
            member.touches.push_back({&instruction.operands[i], 0, 0, LinkAccess::NONE, i > 0, i == 0});
        }
    }
    member.compiles = !member.items.empty() && IsSound(member.touches);
    return member;
}

bool Conflict(const Touches& a, const Touches& b)
{
    return std::any_of(a.begin(), a.end(), [&b](const Touch& x) {
        return std::any_of(b.begin(), b.end(), [&x](const Touch& y) { return x.Conflicts(y); });
    });
}

// Do some of one work on other columns of rows that some of the other work on?
bool Shift(const Touches& a, const Touches& b)
{
    return std::any_of(a.begin(), a.end(), [&b](const Touch& x) {
        return std::any_of(b.begin(), b.end(), [&x](const Touch& y) { return x.SharesRows(y) && !x.SameMemory(y); });
    });
}

// A loop while steps are added to it.
struct OpenLoop {
    std::vector<uint32_t> steps;
    std::vector<std::vector<ChainItem>> items;
    Touches touches;             // nothing twice
    std::vector<LoopRows> rows;  // of each of them
    uint32_t units = 0;
    uint32_t rowElements = 0;  // of the first step
    bool byRow = false;
    std::vector<LoopLink> links;
    bool compiles = false;
    bool alone = false;

    explicit OpenLoop(Member&& first) : units(first.units), rowElements(first.rowElements), byRow(first.rowElements > 0)
    {
        compiles = first.compiles;
        Add(std::move(first));
    }
    // May the step become part of it?
    bool Takes(const Member& member) const
    {
        return member.compiles && (member.rowElements > 0) == byRow && Feeds(member.touches) &&
               Takes(member.touches, member.items.size() + 1, Shift(member.touches, member.touches),
                     member.rowElements % COLUMNS != 0);
    }
    // May all that the other loop does come behind what this one does, with what this one makes?
    bool Takes(const OpenLoop& other) const { return Feeds(other.touches) && TakesAll(other); }
    // The same of a loop where both read half of what one of them reads. Rows of three inputs that have but gamma in
    // common are better off alone.
    bool Shares(const OpenLoop& other) const
    {
        return touches.size() + other.touches.size() <= MAX_SHARING_OPERANDS && Shares(other.touches) &&
               TakesAll(other);
    }
    void Add(Member&& member)
    {
        steps.push_back(member.step);
        ragged_ = ragged_ || member.rowElements % COLUMNS != 0;
        size_t next = 0;  // of the touches, which the items have in their order
        for (const ChainItem& item : member.items) {
            const bool touches = item.operand != nullptr;
            const uint8_t operand = touches ? NumberOf(member.touches[next++]) : LoopLink::NO_OPERAND;
            AddLink({item.link, operand, 0, static_cast<uint16_t>(member.rowElements), 0, item.scalar});
        }
        AddLink({Link::END, LoopLink::NO_OPERAND, 0, 0, 0, 0.0f});
        if (member.items.empty()) {
            touches = std::move(member.touches);
        }
        items.push_back(std::move(member.items));
    }
    void Add(OpenLoop&& other)
    {
        std::move(other.steps.begin(), other.steps.end(), std::back_inserter(steps));
        std::move(other.items.begin(), other.items.end(), std::back_inserter(items));
        ragged_ = ragged_ || other.ragged_;
        for (LoopLink link : other.links) {
            link.operand = link.operand == LoopLink::NO_OPERAND ? link.operand : NumberOf(other.touches[link.operand]);
            AddLink(link);
        }
    }
    LoopForm Form() const
    {
        LoopForm form{rowElements > 0, {}, 0, rowElements > 0 ? rows : std::vector<LoopRows>{}, links, {}};
        for (size_t i = 0; i < touches.size(); ++i) {
            form.inGm |= touches[i].operand->origin == NO_ORIGIN ? 0 : 1ull << i;
        }
        return form;
    }

private:
    bool TakesAll(const OpenLoop& other) const
    {
        return other.compiles && other.byRow == byRow &&
               Takes(other.touches, other.links.size(), other.shifts_, other.ragged_);
    }
    // Columns that are shifted are whole vectors.
    bool Takes(const Touches& others, size_t moreLinks, bool shifts, bool ragged) const
    {
        return compiles && Fits(others) && !((shifts_ || shifts || Shift(touches, others)) && (ragged_ || ragged)) &&
               links.size() + moreLinks <= MAX_LOOP_LINKS && touches.size() + others.size() <= MAX_LOOP_OPERANDS;
    }
    void AddLink(LoopLink link)
    {
        link.index = static_cast<uint16_t>(links.size());
        links.push_back(link);
    }
    // Its number among the touches, which it is added to if it is new.
    uint8_t NumberOf(const Touch& touch)
    {
        const auto known = std::find_if(touches.begin(), touches.end(),
                                        [&touch](const Touch& other) { return other.SameMemory(touch); });
        const auto number = static_cast<uint8_t>(known - touches.begin());
        if (known == touches.end()) {
            rows.push_back(RowsOf(touch));
            touches.push_back(touch);
        } else {
            known->reads = known->reads || touch.reads;
            known->writes = known->writes || touch.writes;
            known->elements = std::max(known->elements, touch.elements);
        }
        return number;
    }
    // Of a new one.
    LoopRows RowsOf(const Touch& touch)
    {
        for (size_t i = 0; i < touches.size(); ++i) {
            if (touches[i].SharesRows(touch)) {
                shifts_ = true;
                return {touch.stride, rows[i].whole, rows[i].column + touches[i].ColumnsTo(touch)};
            }
        }
        return {touch.stride, static_cast<uint32_t>(touches.size()), 0};
    }
    // Do they read what the loop makes?
    bool Feeds(const Touches& others) const
    {
        return std::any_of(others.begin(), others.end(), [this](const Touch& read) {
            return read.reads && std::any_of(touches.begin(), touches.end(), [&read](const Touch& made) {
                       const bool columns = made.SharesRows(read) && !made.IsBeside(read);
                       return made.writes && (made.SameMemory(read) || columns);
                   });
        });
    }
    bool Shares(const Touches& others) const
    {
        const auto isInput = [](const Touch& touch) { return touch.IsInput(); };
        const auto isShared = [this](const Touch& read) {
            return read.IsInput() && std::any_of(touches.begin(), touches.end(), [&read](const Touch& mine) {
                       return mine.IsInput() && mine.SameMemory(read);
                   });
        };
        const auto shared = std::count_if(others.begin(), others.end(), isShared);
        return shared > 0 && 2 * shared >= std::min(std::count_if(touches.begin(), touches.end(), isInput),
                                                    std::count_if(others.begin(), others.end(), isInput));
    }
    // Is all that they touch the same memory as something that is touched already, other columns of it, or apart from
    // it?
    bool Fits(const Touches& others) const
    {
        return std::all_of(others.begin(), others.end(), [&](const Touch& a) {
            return std::all_of(touches.begin(), touches.end(),
                               [&a](const Touch& b) { return a.MayFollow(b) || a.SharesRows(b); });
        });
    }
    bool shifts_ = false;  // links work on different columns of the same rows
    bool ragged_ = false;  // a row is no whole number of COLUMNS
};

// Loop `last` has got a step that may go on with what others make, too: these come to be one.
void Unite(std::vector<OpenLoop>& loops, size_t last)
{
    for (size_t i = last; i-- > 0 && last - i <= MAX_BACK;) {
        if (loops[i].Takes(loops[last])) {
            loops[i].Add(std::move(loops[last]));
            loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(last));
            last = i;
        } else if (Conflict(loops[i].touches, loops[last].touches)) {
            return;
        }
    }
}

// Has the loop nothing to do with the others but for what they all read, if that fits the first cache beside a row?
bool IsAlone(const OpenLoop& loop, const std::vector<OpenLoop>& loops)
{
    constexpr int64_t MOST_SHARED = 16 * 1024;
    int64_t shared = 0;
    for (const Touch& mine : loop.touches) {
        bool overlaps = false;
        for (const OpenLoop& other : loops) {
            if (&other == &loop) {
                continue;
            }
            for (const Touch& theirs : other.touches) {
                if (mine.Conflicts(theirs)) {
                    return false;
                }
                overlaps = overlaps || SpanOf(*mine.operand).Overlaps(SpanOf(*theirs.operand));
            }
        }
        shared += overlaps ? mine.operand->end - mine.operand->base : 0;
    }
    return shared <= MOST_SHARED;
}

// Loops that read the same become one, which reads it once.
void UniteReaders(std::vector<OpenLoop>& loops)
{
    for (size_t last = 1; last < loops.size();) {
        size_t taker = last;
        for (size_t i = last; i-- > 0 && last - i <= MAX_BACK;) {
            if (loops[i].Shares(loops[last])) {
                taker = i;
                break;
            }
            if (Conflict(loops[i].touches, loops[last].touches)) {
                break;
            }
        }
        if (taker == last) {
            ++last;
            continue;
        }
        loops[taker].Add(std::move(loops[last]));
        loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(last));
    }
}

void AddToLoops(Member&& member, std::vector<OpenLoop>& loops)
{
    for (size_t i = loops.size(); !member.items.empty() && i-- > 0 && loops.size() - i <= MAX_BACK;) {
        if (loops[i].Takes(member)) {
            loops[i].Add(std::move(member));
            Unite(loops, i);
            return;
        }
        if (Conflict(loops[i].touches, member.touches)) {
            break;
        }
    }
    loops.emplace_back(std::move(member));
}

// What type the elements are that a copy brings in from global memory: that which the first of the steps behind it in
// the group takes them for, whole rows of them with what lies between; NONE: that does something else with them.
LinkAccess TypeOfUse(const Instruction& copy, const std::vector<Step>& list, uint32_t step, const Group& group,
                     const std::vector<Instruction>& instructions)
{
    // Where a row ends within a vector, the rest of that comes from memory, behind the store of the row's last
    // elements: the CPU waits for it, which in shorter rows takes longer than the copy by itself.
    constexpr uint32_t LEAST_BYTES = 256;
    const Operand& to = copy.operands[0];
    if (to.extent < LEAST_BYTES) {
        return LinkAccess::NONE;
    }
    for (uint32_t k = step + 1; k < list.size() && list[k].group == list[step].group; ++k) {
        if (list[k].parts.empty()) {
            continue;
        }
        const Member user = MemberOf(k, list[k], group, instructions, LinkAccess::NONE);
        for (const Touch& touch : user.touches) {
            if (SpanOf(*touch.operand).Overlaps(SpanOf(to))) {
                const bool same = user.compiles && touch.reads && touch.operand->base == to.base &&
                                  touch.stride == to.stride && touch.Bytes() == to.stride;
                return same ? touch.access : LinkAccess::NONE;
            }
        }
    }
    return LinkAccess::NONE;
}

// What type the elements are that a copy takes from where one of the loops has put them, or from global memory; NONE:
// that is not known, or no such copy.
LinkAccess TypeOfCopy(const std::vector<Step>& list, uint32_t step, const Group& group,
                      const std::vector<Instruction>& instructions, const std::vector<OpenLoop>& loops)
{
    const Instruction& instruction = instructions[list[step].parts[0]];
    if (instruction.run != g_vectorUnit->copy || (instruction.lanes == 1 && group.elements > 1)) {
        return LinkAccess::NONE;
    }
    const Operand& from = instruction.operands[1];
    if (from.origin != NO_ORIGIN) {
        return instruction.units == group.units ? TypeOfUse(instruction, list, step, group, instructions)
                                                : LinkAccess::NONE;
    }
    for (size_t i = loops.size(); i-- > 0;) {
        for (const Touch& touch : loops[i].touches) {
            const bool same = touch.writes && touch.operand->base == from.base && touch.stride == from.stride;
            if (same && touch.access != LinkAccess::LANES && touch.access != LinkAccess::NONE) {
                return touch.access;
            }
        }
    }
    return LinkAccess::NONE;
}

// Not for few elements; and what is one instruction has a loop of its own, but for sums, which that keeps in memory,
// and for what goes to global memory, which it cannot stream.
bool WorthCompiling(const OpenLoop& loop, const Steps& steps)
{
    constexpr uint32_t LEAST_ELEMENTS = 2 * LOOP_ELEMENTS;
    const bool collects = std::any_of(loop.items[0].begin(), loop.items[0].end(),
                                      [](const ChainItem& item) { return Collects(item.link); });
    const bool toGm = std::any_of(loop.touches.begin(), loop.touches.end(), [](const Touch& touch) {
        return touch.writes && touch.operand->origin != NO_ORIGIN;
    });
    const bool byElement = loop.rowElements == 0;
    return loop.compiles && loop.units * (byElement ? 1 : loop.rowElements) >= LEAST_ELEMENTS &&
           (loop.steps.size() > 1 || (byElement && (steps.List()[loop.steps[0]].mustChain || collects || toGm)));
}

}  // namespace

std::vector<Loop> FindLoops(const Steps& steps, const Groups& groups, const std::vector<Instruction>& instructions,
                            const Ranges& needed)
{
    const std::vector<Step>& list = steps.List();
    std::vector<OpenLoop> open;
    for (uint32_t begin = 0; begin < list.size();) {
        const uint32_t group = list[begin].group;
        std::vector<OpenLoop> loops;
        uint32_t end = begin;
        for (; end < list.size() && list[end].group == group; ++end) {
            if (!list[end].parts.empty()) {
                const Group& whole = groups.List()[group];
                const LinkAccess copied = TypeOfCopy(list, end, whole, instructions, loops);
                AddToLoops(MemberOf(end, list[end], whole, instructions, copied), loops);
            }
        }
        UniteReaders(loops);
        for (OpenLoop& loop : loops) {
            loop.alone = IsAlone(loop, loops);
        }
        std::move(loops.begin(), loops.end(), std::back_inserter(open));
        begin = end;
    }
    std::vector<Loop> found(open.size());
    Liveness liveness(steps, instructions, needed);
    for (size_t i = open.size(); i-- > 0;) {
        LoopForm form = WorthCompiling(open[i], steps) ? open[i].Form() : LoopForm{};
        found[i] = {std::move(open[i].steps), std::move(open[i].items), std::move(form), open[i].alone};
        liveness.Pass(found[i]);
    }
    return found;
}

}  // namespace host
}  // namespace AscendC
