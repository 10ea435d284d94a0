#include "jit/loop_ir.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/types.h"
#include "jit/ir_arithmetic.h"
#include "jit/loop_ahead.h"
#include "jit/loop_body.h"
#include "jit/loop_prefetches.h"
#include "passes/lookups.h"

namespace AscendC {
namespace host {

namespace {

// Does one value take from some columns of a row what another one has put into other columns?
bool ShiftsColumns(const LoopForm& form)
{
    for (uint32_t i = 0; i < form.rows.size(); ++i) {
        if (form.rows[i].whole != i) {
            return true;
        }
    }
    return std::any_of(form.values.begin(), form.values.end(),
                       [](const Value& value) { return value.kind == ValueKind::COLUMNS && value.at != value.from; });
}

// Do two vectors hold the even and the odd ones of twice as many elements? bfloat16 comes apart into these, and
// together again, by half the instructions. Floats in memory need some for it.
bool Pairs(const LoopForm& form, uint32_t lanes)
{
    int32_t gain = 0;
    for (const Value& value : form.values) {
        const bool loads = value.kind == ValueKind::LOAD;
        if (!loads && value.kind != ValueKind::STORE) {
            continue;
        }
        if (value.type == ElementType::HALF) {
            return false;
        }
        gain += value.type == ElementType::FLOAT ? -2 : (loads ? 2 : 1);
    }
    return !form.byRow && lanes > LANES_OF_128_BITS && gain > 0;
}

// Returns no lookups where one of the tables is not to be had.
Lookups LookupsFor(const LoopForm& form)
{
    Lookups lookups(form, form.variant.usesLookups);
    return lookups.Fetch() ? lookups : Lookups(form, false);
}

LoopStyle StyleOf(const LoopForm& form, const VectorUnit& unit, const Lookups& lookups)
{
    LoopStyle style{};
    style.lanes = unit.lanes;
    style.convertsBFloat16 = unit.convertsBFloat16;
    style.roundsByConverting = unit.roundsByConverting;
    style.shifts = ShiftsColumns(form);
    // Looking up two vectors alternately takes more registers than there are.
    style.paired = Pairs(form, unit.lanes) && !(lookups.Method() == LookupMethod::BY_ELEMENT && lookups.Any());
    style.aligned = form.variant.nonTemporal && form.MayOverlap() &&
                    std::any_of(form.values.begin(), form.values.end(),
                                [&form](const Value& value) { return form.MayStoreNonTemporally(value); });
    return style;
}

LoopStyle TailOf(LoopStyle style)
{
    style.paired = false;
    style.tail = true;
    return style;
}

class LoopWriter {
public:
    LoopWriter(const LoopForm& form, const VectorUnit& unit)
        : form_(form),
          lanes_(unit.lanes),
          lookups_(LookupsFor(form)),
          style_(StyleOf(form, unit, lookups_)),
          body_(form, style_, lookups_, "%i", ir_)
    {}

    std::string Write(const std::string& name)
    {
        PrepareOperands();
        LoopPrefetches prefetches(form_, AtOnce(), entry_, ir_);
        prefetches.Emit();
        if (style_.shifts) {
            body_.Emit(0, 0);
        } else if (form_.byRow) {
            EmitRow();
        } else {
            EmitBatches(AtOnce() / lanes_);
        }
        if (form_.byRow) {
            StoreLanes(ir_);
        }
        if (form_.variant.prefetches > 0) {
            prefetched_ = prefetches.EmitNextTile();
        }
        return ir_.Opening(name) + (form_.byRow ? RowModule() : ElementModule()) + IrBuilder::Closing();
    }

private:
    static std::string Lane(uint8_t operand, uint32_t k, const char* when)
    {
        return NameOf("lanes", operand) + "_" + std::to_string(k) + when;
    }

    void EmitBatches(uint32_t vectors)
    {
        for (; batched_ < vectors; batched_ += VectorsAtOnce()) {
            body_.Emit(batched_, std::min(vectors - batched_, VectorsAtOnce()));
        }
        batched_ = vectors;
    }
    // The rows of some values may be shorter than those of others: of the memory between two rows these have a part.
    void EmitRow()
    {
        uint32_t shortest = UINT32_MAX;
        uint32_t longest = 0;
        for (const Value& value : form_.values) {
            shortest = std::min<uint32_t>(shortest, value.elements);
            longest = std::max<uint32_t>(longest, value.elements);
        }
        EmitBatches(shortest / lanes_);
        for (; batched_ * lanes_ < longest; ++batched_) {
            body_.Emit(batched_, 1);
        }
    }

    // ---- before the loop: addresses; and before it, or before each row, DataBlocks and lanes that collect

    void PrepareOperands()
    {
        uint64_t done = 0;  // a bit for each operand
        for (const Value& value : form_.values) {
            const uint8_t operand = value.operand;
            if (operand == Value::NO_OPERAND || (done >> operand & 1) != 0) {
                continue;
            }
            done |= 1ull << operand;
            const std::string base = NameOf("base", operand);
            const std::string place = NameOf("place", operand);
            const std::string first = form_.byRow ? NameOf("first", operand) : base;
            entry_.Define(place, "getelementptr ptr, ptr %bases, i64 " + std::to_string(operand));
            entry_.Define(first, "load ptr, ptr " + place);
            if (form_.byRow) {
                const std::string down = ir_.Let("mul i64 %i, " + std::to_string(form_.rows[operand].stride));
                ir_.Define(base, "getelementptr i8, ptr " + first + ", i64 " + down);
            }
            IrBuilder& before = form_.byRow ? static_cast<IrBuilder&>(ir_) : entry_;
            if (value.kind == ValueKind::BLOCK) {
                PrepareBlock(operand, before);
            } else if (value.kind == ValueKind::COLLECT) {
                PrepareLanes(operand, before);
            }
        }
    }
    // A DataBlock is read once: nothing in the loop writes to it.
    void PrepareBlock(uint8_t operand, IrBuilder& before)
    {
        constexpr uint32_t LENGTH = 8;
        const std::string type = IrBuilder::Vector(LENGTH, "float");
        const std::string block = NameOf("block", operand);
        blocks_ = true;
        before.Define(block, "load " + type + ", ptr " + NameOf("base", operand) + ", align 4");
        for (uint32_t part = 0; part < body_.BlockParts(); ++part) {
            before.Define(block + "_" + std::to_string(part),
                          IrBuilder::Shuffle(type, block, "poison", lanes_, [&](uint32_t i) {
                              return (style_.paired ? 2 * i + part : part * lanes_ + i) % LENGTH;
                          }));
        }
    }
    void PrepareLanes(uint8_t operand, IrBuilder& before)
    {
        for (uint32_t k = 0; k < REPEAT_FLOATS / lanes_; ++k) {
            const std::string at = Lane(operand, k, ".at");
            before.Define(
                at, "getelementptr float, ptr " + NameOf("base", operand) + ", i64 " + std::to_string(k * lanes_));
            before.Define(Lane(operand, k, style_.paired ? ".there" : ".first"),
                          "load " + ir_.VectorOf("float") + ", ptr " + at + ", align 4");
            body_.Sum(operand, k) = Lane(operand, k, form_.byRow ? ".first" : "");
            collected_.push_back({operand, k});
        }
        for (uint32_t k = 0; k < REPEAT_FLOATS / lanes_ && style_.paired; ++k) {
            before.Define(Lane(operand, k, ".first"),
                          body_.Apart(Lane(operand, k & ~1u, ".there"), Lane(operand, k | 1u, ".there"), k % 2));
        }
    }
    void StoreLanes(IrBuilder& behind)
    {
        for (const auto& [operand, k] : collected_) {
            std::string sum = body_.Sum(operand, k);
            if (style_.paired) {
                sum = Lane(operand, k, ".last");
                behind.Define(sum, body_.Together(body_.Sum(operand, k & ~1u), body_.Sum(operand, k | 1u), k % 2));
            }
            behind.Line("store " + ir_.VectorOf("float") + " " + sum + ", ptr " + Lane(operand, k, ".at") +
                        ", align 4");
        }
    }

    // ---- the function

    // Returns how many vectors go through all values together: they hide each other's latency as long as registers
    // last.
    uint32_t VectorsAtOnce() const
    {
        constexpr size_t MANY_VALUES = 16;
        if (lanes_ == IrBuilder::AVX512_LANES) {
            return lookups_.Calculated() <= MANY_VALUES ? 8 : 4;
        }
        return 2;
    }
    // Returns the elements in one iteration of the loop, a multiple of a repeat.
    uint32_t AtOnce() const { return lanes_ == IrBuilder::AVX512_LANES ? 2 * REPEAT_FLOATS : REPEAT_FLOATS; }

    // `from` is the block before the loop.
    std::string Loop(const std::string& from, const std::string& next)
    {
        const std::string block = ", %" + ir_.Block() + " ]\n";
        std::string text = "loop:\n  %i = phi i64 [ %begin, %" + from + " ], [ %next" + block;
        if (form_.variant.prefetches > 0) {
            text += "  %prefetched = phi i64 [ %prefetched.first, %" + from + " ], [ " + prefetched_ + block;
        }
        for (const auto& [operand, k] : collected_) {
            if (!form_.byRow) {
                text += "  " + Lane(operand, k, "") + " = phi " + ir_.VectorOf("float") + " [ " +
                        Lane(operand, k, ".first") + ", %" + from + " ], [ " + body_.Sum(operand, k) + block;
            }
        }
        text += ir_.Body() + next + "  br i1 %more, label %loop, label %done\ndone:\n";
        if (form_.variant.prefetches > 0) {
            text += "  store i64 " + prefetched_ + ", ptr %prefetched.first.at\n";
        }
        return text;
    }
    std::string RowModule()
    {
        return entry_.Body() + "  br label %loop\n" +
               Loop("entry", "  %next = add i64 %i, 1\n  %more = icmp ult i64 %next, %end\n");
    }
    // A loop of single vectors does what is less than an iteration.
    std::string ElementModule()
    {
        entry_.Define("%count", "sub i64 %end, %begin");
        entry_.Define("%remainder", form_.hasTail ? "and i64 %count, " + std::to_string(AtOnce() - 1) : "add i64 0, 0");
        entry_.Define("%most", "sub i64 %end, %remainder");
        entry_.Define("%some", "icmp ult i64 %begin, %most");
        if (style_.aligned) {
            PrepareAligned();
        }
        std::string text = entry_.Body() + "  br i1 %some, label %loop, label %check\n";
        text += Loop("entry", style_.aligned ? NextAligned() : NextBeside());
        IrBuilder done(lanes_, "done", "d");
        StoreLanes(done);
        return text + done.Body() + "  br label %check\ncheck:\n" + (form_.hasTail ? Tail() : "");
    }
    std::string NextBeside() const
    {
        return "  %next = add i64 %i, " + std::to_string(AtOnce()) + "\n  %more = icmp ult i64 %next, %most\n";
    }
    std::string Tail()
    {
        IrArithmetic ir(lanes_, "tail", "t");
        const std::string lanes = IrBuilder::Vector(lanes_, "i64");
        std::string numbers;
        for (uint32_t i = 0; i < lanes_; ++i) {
            numbers += (i > 0 ? ", i64 " : "i64 ") + std::to_string(i);
        }
        const std::string left = ir.Let("sub i64 %end, %t");
        const std::string one = ir.Let("insertelement " + lanes + " poison, i64 " + left + ", i32 0");
        const std::string all = ir.Let(IrBuilder::Shuffle(lanes, one, "poison", lanes_, [](uint32_t) { return 0; }));
        ir.Define("%mask", "icmp ult " + lanes + " <" + numbers + ">, " + all);
        const Lookups calculated(form_, false);
        LoopBody body(form_, TailOf(style_), calculated, "%t", ir);
        body.Emit(0, 1);
        return "  %left = icmp ult i64 %most, %end\n  br i1 %left, label %tail, label %exit\n"
               "tail:\n  %t = phi i64 [ %most, %check ], [ %t.next, %" +
               ir.Block() + " ]\n" + ir.Body() + "  %t.next = add i64 %t, " + std::to_string(lanes_) +
               "\n  %t.more = icmp ult i64 %t.next, %end\n  br i1 %t.more, label %tail, label %exit\nexit:\n";
    }

    // The second iteration of a long loop begins where a line of the output does, and goes over some elements again;
    // and so does the last one. Whole lines go by non-temporal stores faster than
    // pieces of them.
    void PrepareAligned()
    {
        constexpr uint32_t LEAST = 1536;  // elements: one iteration more takes longer than it saves
        const auto store = std::find_if(form_.values.begin(), form_.values.end(),
                                        [this](const Value& value) { return form_.MayStoreNonTemporally(value); });
        const uint32_t size = SizeOf(store->type);
        entry_.Define("%last", "sub i64 %most, " + std::to_string(AtOnce()));
        entry_.Define("%address", "ptrtoint ptr " + NameOf("base", store->operand) + " to i64");
        entry_.Define("%place", "udiv i64 %address, " + std::to_string(size));
        entry_.Define("%long", "icmp uge i64 %count, " + std::to_string(LEAST));
        // DataBlocks begin anew with every eighth element: where there are some, so do iterations.
        constexpr uint32_t BLOCK = ONE_BLK_SIZE / sizeof(float);
        const uint32_t line = (LINE_BYTES / size - 1) & ~(blocks_ ? BLOCK - 1 : 0);
        entry_.Define("%line", "select i1 %long, i64 " + std::to_string(line) + ", i64 0");
    }
    std::string NextAligned() const
    {
        return "  %here = add i64 %place, %i\n  %past = and i64 %here, %line\n  %behind = add i64 %i, " +
               std::to_string(AtOnce()) +
               "\n  %begins = sub i64 %behind, %past\n  %fits = icmp ult i64 %begins, %last\n"
               "  %next = select i1 %fits, i64 %begins, i64 %last\n  %more = icmp ult i64 %i, %last\n";
    }

    const LoopForm& form_;
    const uint32_t lanes_;
    const Lookups lookups_;
    const LoopStyle style_;
    IrBuilder entry_{lanes_, "entry", "e"};
    IrArithmetic ir_{lanes_};
    LoopBody body_;
    uint32_t batched_ = 0;    // vectors of a row, or of an iteration, that have been written
    bool blocks_ = false;     // there are DataBlocks
    std::string prefetched_;  // how far the iteration prefetches the next tile
    std::vector<std::pair<uint8_t, uint32_t>> collected_;  // vectors of lanes that collect: operand and number
};

}  // namespace

bool WritesLoops(const VectorUnit& unit)
{
    return unit.convertsHalf;
}

std::string WriteLoop(const LoopForm& form, const VectorUnit& unit, const std::string& name)
{
    return LoopWriter(form, unit).Write(name);
}

}  // namespace host
}  // namespace AscendC
