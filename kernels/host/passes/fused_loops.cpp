#include "passes/fused_loops.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/types.h"
#include "ir/operation.h"
#include "passes/cost_model.h"
#include "passes/fused_sequences.h"
#include "passes/liveness.h"

namespace AscendC {
namespace host {

NodeAccess AccessOf(NodeKind node)
{
    switch (node) {
        case NodeKind::LOAD_FLOAT:
        case NodeKind::STORE_FLOAT:
        case NodeKind::AXPY:
            return NodeAccess::FLOAT;
        case NodeKind::LOAD_HALF:
        case NodeKind::STORE_HALF:
            return NodeAccess::HALF;
        case NodeKind::LOAD_BFLOAT16:
        case NodeKind::STORE_BFLOAT16:
        case NodeKind::CAST_BFLOAT16:
            return NodeAccess::BFLOAT16;
        case NodeKind::SUM:
        case NodeKind::LARGEST:
        case NodeKind::SMALLEST:
            return NodeAccess::LANES;
        default:
            break;
    }
    if (node < NodeKind::BINARY) {
        return NodeAccess::NONE;
    }
    switch (OtherOf(node)) {
        case Other::STREAM:
            return NodeAccess::FLOAT;
        case Other::STREAM_HALF:
            return NodeAccess::HALF;
        case Other::STREAM_BFLOAT16:
            return NodeAccess::BFLOAT16;
        case Other::BLOCK:
            return NodeAccess::BLOCK;
        default:
            return NodeAccess::NONE;
    }
}

uint32_t SizeOf(NodeAccess access)
{
    return access == NodeAccess::HALF || access == NodeAccess::BFLOAT16 ? sizeof(uint16_t) : sizeof(float);
}

ElementType TypeOf(NodeAccess access)
{
    return access == NodeAccess::HALF       ? ElementType::HALF
           : access == NodeAccess::BFLOAT16 ? ElementType::BFLOAT16
                                            : ElementType::FLOAT;
}

std::string LoopForm::Key() const
{
    const char kind = straightLine.empty() ? (byRow ? 'r' : 'e') : 's';
    std::string key = {kind, static_cast<char>('0' + variant.Number())};
    key.append(reinterpret_cast<const char*>(&inGm), sizeof(inGm));
    key.append(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(rows[0]));
    key.append(reinterpret_cast<const char*>(nodes.data()), nodes.size() * sizeof(nodes[0]));
    return key.append(reinterpret_cast<const char*>(straightLine.data()),
                      straightLine.size() * sizeof(straightLine[0]));
}

uint32_t LoopForm::Cost() const
{
    uint32_t cost = 0;
    for (const LoopNode& node : nodes) {
        cost += node.kind == NodeKind::END
                    ? 0
                    : (1 + CostOf(node.kind).Time(FAST_TIMINGS)) * std::max<uint32_t>(node.elements, 1);
    }
    return cost;
}

bool LoopForm::MayStoreNonTemporally(const LoopNode& store) const
{
    return store.needed == LoopNode::IN_GM && (!byRow || rows[store.operand].stride % NON_TEMPORAL_BYTES == 0);
}

uint32_t LoopForm::Inputs() const
{
    uint64_t read = 0;  // a bit for each operand
    for (const LoopNode& node : nodes) {
        read |= node.operand == LoopNode::NO_OPERAND || Stores(node.kind) ? 0 : inGm & 1ull << node.operand;
    }
    return static_cast<uint32_t>(__builtin_popcountll(read));
}

bool LoopForm::MayOverlap() const
{
    uint64_t read = 0;  // before it is stored; a bit for each operand
    uint64_t stored = 0;
    bool collects = false;
    for (const LoopNode& node : nodes) {
        const uint64_t bit = node.operand == LoopNode::NO_OPERAND ? 0 : 1ull << node.operand;
        read |= Stores(node.kind) ? 0 : bit & ~stored;
        stored |= Stores(node.kind) ? bit : 0;
        collects = collects || Collects(node.kind);
    }
    return !byRow && !collects && (read & stored) == 0;
}

namespace {

constexpr uint32_t MAX_LOOP_NODES = 160;
constexpr uint32_t MAX_LOOP_OPERANDS = 32;  // of several steps
// Of steps that have no more to do with one another than that they read the same: the registers are for fewer.
constexpr uint32_t MAX_SHARING_OPERANDS = 24;
static_assert(MAX_NODES <= 64, "LoopForm has a bit for each operand of a sequence");
// How far back a loop is looked for that a step may join.
constexpr uint32_t MAX_BACK = 64;
// Columns of a row are told apart by so many, whole vectors of any CPU.
constexpr uint32_t COLUMNS = 16;

// A step's accesses to memory. A unit is one of the group.
struct Touch {
    const Operand* operand;
    int64_t stride;     // bytes from a unit to the next
    uint32_t elements;  // of a unit that is a row; 0: it is an element
    NodeAccess access;
    bool reads;
    bool writes;

    bool SameMemory(const Touch& other) const { return IsAlike(other) && operand->base == other.operand->base; }
    bool Conflicts(const Touch& other) const { return (writes || other.writes) && Overlap(*operand, *other.operand); }
    bool IsApart(const Touch& other) const { return !Conflicts(other) || IsBeside(other); }
    // The code goes through all nodes for some elements, then for the next: of two that collect in the same lanes, the
    // second one would begin before the first one is done.
    bool MayFollow(const Touch& other) const
    {
        const bool collect = access == NodeAccess::LANES && other.access == NodeAccess::LANES;
        return IsApart(other) || (SameMemory(other) && !collect);
    }
    // Bytes of a row.
    int64_t Bytes() const
    {
        return access == NodeAccess::LANES   ? ONE_REPEAT_BYTE_SIZE
               : access == NodeAccess::BLOCK ? ONE_BLK_SIZE
                                             : elements * SizeOf(access);
    }
    // Columns of the same rows, which never meet?
    bool IsBeside(const Touch& other) const
    {
        if (elements == 0 || stride != other.stride || access == NodeAccess::NONE || other.access == NodeAccess::NONE) {
            return false;
        }
        return ColumnsAreApart(BytesTo(other), Bytes(), other.Bytes(), stride);
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
        return access == NodeAccess::FLOAT || access == NodeAccess::HALF || access == NodeAccess::BFLOAT16;
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
    std::vector<SequenceNode> items;
    Touches touches;
    bool compiles = false;
};

// The nodes of an instruction for a row of so many elements; empty: there are none.
std::vector<SequenceNode> RowItems(const Instruction& instruction, uint32_t elements)
{
    Instruction byElement = instruction;
    if (instruction.lanes > 1) {
        byElement.run = ElementRunOf(instruction.run);
    }
    const Operation operation = byElement.run == nullptr ? Operation{} : OperationOf(byElement);
    const Operand* const operands = instruction.operands;
    const bool byRow = instruction.lanes > 1;
    if (operation.layout == Layout::ACCUMULATE && operation.kind == Operation::BINARY) {
        const bool repeat = byRow && operands[0].base == operands[2].base && operands[0].stride == operands[2].stride &&
                            operands[0].stride >= static_cast<int64_t>(ONE_REPEAT_BYTE_SIZE);
        return repeat ? std::vector<SequenceNode>{{LoadNode(ElementType::FLOAT), 0.0f, &operands[1]},
                                                  {CollectNode(operation.opcode), 0.0f, &operands[0]}}
                      : std::vector<SequenceNode>{};
    }
    const bool blocks = operation.layout != Layout::CONTIGUOUS;
    if (blocks && (operation.kind != Operation::BINARY || !(byRow || BlocksFit(elements)))) {
        return {};
    }
    const SequenceNode store{StoreNode(operation.to), 0.0f, &operands[0]};
    switch (operation.kind) {
        case Operation::BINARY: {
            const bool swapped = operation.layout == Layout::BROADCAST0;
            const Operand& first = operands[swapped ? 2 : 1];
            const Operand& second = operands[swapped ? 1 : 2];
            const Other other = blocks ? Other::BLOCK : Other::STREAM;
            return {{LoadNode(operation.from), 0.0f, &first},
                    {BinaryNode(operation.opcode, other, swapped), 0.0f, &second},
                    store};
        }
        case Operation::SCALAR:
        case Operation::UNARY:
            return {{LoadNode(operation.from), 0.0f, &operands[1]},
                    {NodeOf(operation.opcode), instruction.scalar, nullptr},
                    store};
        case Operation::CAST:
            if (operation.to == ElementType::BFLOAT16) {
                return {{LoadNode(operation.from), 0.0f, &operands[1]}, {NodeKind::CAST_BFLOAT16, 0.0f, &operands[0]}};
            }
            return {{LoadNode(operation.from), 0.0f, &operands[1]}, store};  // which rounds to half
        default:
            return {};
    }
}

// Is all that the step touches the same memory or apart? Vectors are all that a loop can take from one node to another,
// and a step that shifts columns may see some of its own.
bool IsSound(const Touches& touches)
{
    return std::all_of(touches.begin(), touches.end(), [&touches](const Touch& a) {
        return std::all_of(touches.begin(), touches.end(), [&a](const Touch& b) { return &a == &b || a.MayFollow(b); });
    });
}

// Does every row that is written lie behind the one before?
bool RowsAreApart(const Touches& touches)
{
    return std::all_of(touches.begin(), touches.end(),
                       [](const Touch& touch) { return !touch.writes || touch.stride >= touch.Bytes(); });
}

// The nodes of a copy of elements of a type.
std::vector<SequenceNode> CopyItems(const Instruction& copy, NodeAccess access)
{
    const Operand* const operands = copy.operands;
    if (operands[0].extent != operands[1].extent || operands[0].extent % SizeOf(access) != 0) {
        return {};
    }
    const ElementType type = TypeOf(access);
    return {{LoadNode(type), 0.0f, &operands[1]}, {StoreNode(type), 0.0f, &operands[0]}};
}

// May a fused sequence go over rows of so many elements, each anew?
bool MayGoByRow(const std::vector<SequenceNode>& sequence, uint32_t elements)
{
    return elements <= MAX_ROW_ELEMENTS &&
           std::all_of(sequence.begin(), sequence.end(), [elements](const SequenceNode& item) {
               const NodeAccess access = AccessOf(item.kind);
               return access != NodeAccess::LANES && (access != NodeAccess::BLOCK || BlocksFit(elements));
           });
}

// `copied`: the type of elements that a copy is one of.
Member MemberOf(uint32_t index, const Step& step, const Group& group, const std::vector<Instruction>& instructions,
                NodeAccess copied)
{
    const Instruction& instruction = instructions[step.parts[0]];
    const uint32_t ratio = instruction.units / group.units;
    Member member{index, group.units, 0, step.items, {}, false};
    if (!step.items.empty() && ratio > 1 && MayGoByRow(step.items, ratio)) {
        member.rowElements = ratio;
    }
    if (step.items.empty()) {
        const bool copies = copied != NodeAccess::NONE;
        const uint32_t lanes = copies ? instruction.operands[0].extent / SizeOf(copied) : instruction.lanes;
        const bool byElement = copies ? group.elements == 1 : lanes == 1 && ratio == 1;
        member.rowElements = byElement ? 0 : (lanes > 1 ? lanes : ratio);
        const bool fits = member.rowElements <= MAX_ROW_ELEMENTS && (lanes == 1 || ratio == 1);
        member.items = !fits    ? std::vector<SequenceNode>{}
                       : copies ? CopyItems(instruction, copied)
                                : RowItems(instruction, member.rowElements);
    }
    for (const SequenceNode& item : member.items) {
        if (item.operand != nullptr) {
            const bool stores = Stores(item.kind);
            const bool writes = stores || Collects(item.kind);
            member.touches.push_back(
                {item.operand, item.operand->stride * ratio, member.rowElements, AccessOf(item.kind), !stores, writes});
        }
    }
    if (member.rowElements > 0 && !RowsAreApart(member.touches)) {
        member.items.clear();
    }
    if (member.items.empty()) {
        member.touches.clear();
        for (uint32_t i = 0; i < instruction.operandCount; ++i) {
            member.touches.push_back({&instruction.operands[i], 0, 0, NodeAccess::NONE, i > 0, i == 0});
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
    std::vector<std::vector<SequenceNode>> items;
    Touches touches;             // nothing twice
    std::vector<LoopRows> rows;  // of each of them
    uint32_t units = 0;
    uint32_t rowElements = 0;  // of the first step
    bool byRow = false;
    std::vector<LoopNode> nodes;
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
    // The same of a loop where both read half of the operands of one of them. Rows of three inputs that have but gamma
    // in common are better off alone.
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
        for (const SequenceNode& item : member.items) {
            const bool touches = item.operand != nullptr;
            const uint8_t operand = touches ? NumberOf(member.touches[next++]) : LoopNode::NO_OPERAND;
            AddNode({item.kind, operand, 0, static_cast<uint16_t>(member.rowElements), 0, item.scalar});
        }
        AddNode({NodeKind::END, LoopNode::NO_OPERAND, 0, 0, 0, 0.0f});
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
        for (LoopNode node : other.nodes) {
            node.operand = node.operand == LoopNode::NO_OPERAND ? node.operand : NumberOf(other.touches[node.operand]);
            AddNode(node);
        }
    }
    LoopForm Form() const
    {
        LoopForm form{rowElements > 0, {}, 0, rowElements > 0 ? rows : std::vector<LoopRows>{}, nodes, {}};
        for (size_t i = 0; i < touches.size(); ++i) {
            form.inGm |= touches[i].operand->origin == NO_ORIGIN ? 0 : 1ull << i;
        }
        return form;
    }

private:
    bool TakesAll(const OpenLoop& other) const
    {
        return other.compiles && other.byRow == byRow &&
               Takes(other.touches, other.nodes.size(), other.shifts_, other.ragged_);
    }
    // Columns that are shifted are whole vectors.
    bool Takes(const Touches& others, size_t moreNodes, bool shifts, bool ragged) const
    {
        return compiles && Fits(others) && !((shifts_ || shifts || Shift(touches, others)) && (ragged_ || ragged)) &&
               nodes.size() + moreNodes <= MAX_LOOP_NODES && touches.size() + others.size() <= MAX_LOOP_OPERANDS;
    }
    void AddNode(LoopNode node)
    {
        node.index = static_cast<uint16_t>(nodes.size());
        nodes.push_back(node);
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
    // Do they read results of the loop?
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
    bool shifts_ = false;  // nodes work on different columns of the same rows
    bool ragged_ = false;  // a row is no whole number of COLUMNS
};

// Loop `last` has a new step that may use results of other loops, too: these are merged.
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

// Does the loop share nothing with the others but inputs, and do these fit the L1 data cache beside a row?
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
                overlaps = overlaps || Overlap(*mine.operand, *theirs.operand);
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

// The type of the elements that a copy brings in from global memory: as the first step behind it in the group reads
// them, whole rows with the padding between; NONE: it does something else with them.
NodeAccess TypeOfUse(const Instruction& copy, const std::vector<Step>& list, uint32_t step, const Group& group,
                     const std::vector<Instruction>& instructions)
{
    // Where a row ends within a vector, the rest of that comes from memory, behind the store of the row's last
    // elements: the CPU waits for it, which in shorter rows takes longer than the copy by itself.
    constexpr uint32_t LEAST_BYTES = 256;
    const Operand& to = copy.operands[0];
    if (to.extent < LEAST_BYTES) {
        return NodeAccess::NONE;
    }
    for (uint32_t k = step + 1; k < list.size() && list[k].group == list[step].group; ++k) {
        if (list[k].parts.empty()) {
            continue;
        }
        const Member user = MemberOf(k, list[k], group, instructions, NodeAccess::NONE);
        for (const Touch& touch : user.touches) {
            if (Overlap(*touch.operand, to)) {
                const bool same = user.compiles && touch.reads && touch.operand->base == to.base &&
                                  touch.stride == to.stride && touch.Bytes() == to.stride;
                return same ? touch.access : NodeAccess::NONE;
            }
        }
    }
    return NodeAccess::NONE;
}

// The type of the elements that a copy takes from the result of a loop, or from global memory; NONE:
// that is not known, or no such copy.
NodeAccess TypeOfCopy(const std::vector<Step>& list, uint32_t step, const Group& group,
                      const std::vector<Instruction>& instructions, const std::vector<OpenLoop>& loops)
{
    const Instruction& instruction = instructions[list[step].parts[0]];
    if (instruction.run != g_vectorUnit->copy || (instruction.lanes == 1 && group.elements > 1)) {
        return NodeAccess::NONE;
    }
    const Operand& from = instruction.operands[1];
    if (from.origin != NO_ORIGIN) {
        return instruction.units == group.units ? TypeOfUse(instruction, list, step, group, instructions)
                                                : NodeAccess::NONE;
    }
    for (size_t i = loops.size(); i-- > 0;) {
        for (const Touch& touch : loops[i].touches) {
            const bool same = touch.writes && touch.operand->base == from.base && touch.stride == from.stride;
            if (same && touch.access != NodeAccess::LANES && touch.access != NodeAccess::NONE) {
                return touch.access;
            }
        }
    }
    return NodeAccess::NONE;
}

// Not for few elements; and a single instruction has a loop of its own in the library, but for sums, which that keeps
// in memory, and for stores to global memory, which it cannot make non-temporal.
bool WorthCompiling(const OpenLoop& loop, const Steps& steps)
{
    constexpr uint32_t LEAST_ELEMENTS = 2 * LOOP_ELEMENTS;
    const bool collects = std::any_of(loop.items[0].begin(), loop.items[0].end(),
                                      [](const SequenceNode& item) { return Collects(item.kind); });
    const bool toGm = std::any_of(loop.touches.begin(), loop.touches.end(), [](const Touch& touch) {
        return touch.writes && touch.operand->origin != NO_ORIGIN;
    });
    const bool byElement = loop.rowElements == 0;
    return loop.compiles && loop.units * (byElement ? 1 : loop.rowElements) >= LEAST_ELEMENTS &&
           (loop.steps.size() > 1 || (byElement && (steps.List()[loop.steps[0]].mustFuse || collects || toGm)));
}

}  // namespace

std::vector<FusedLoop> FindFusedLoops(const Steps& steps, const Groups& groups,
                                      const std::vector<Instruction>& instructions, const Ranges& needed)
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
                const NodeAccess copied = TypeOfCopy(list, end, whole, instructions, loops);
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
    std::vector<FusedLoop> found(open.size());
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
