#include "jit/loop_ir.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "jit/ir_arithmetic.h"
#include "jit/straight_line_ir.h"
#include "passes/lookups.h"
#include "runtime/prefetch.h"

namespace AscendC {
namespace host {

namespace {

constexpr uint32_t OPERANDS = LoopNode::NO_OPERAND;
constexpr uint32_t LANES_OF_128_BITS = 4;

static_assert(static_cast<uint32_t>(NodeKind::BINARY) == 23, "Emit and AccessOf must know every node");

// Does one node take from some columns of a row what another one has put into other columns? Then all of the row must
// be in registers at once.
bool ShiftsColumns(const LoopForm& form)
{
    for (uint32_t i = 0; i < form.rows.size(); ++i) {
        if (form.rows[i].whole != i) {
            return true;
        }
    }
    return false;
}

// Do two vectors hold the even and the odd ones of twice as many elements? bfloat16 comes apart into these, and
// together again, by half the instructions. Floats in memory need some for it.
bool Pairs(const LoopForm& form, uint32_t lanes)
{
    int32_t gain = 0;
    std::vector<uint8_t> known;  // operands that need not be read
    for (const LoopNode& node : form.nodes) {
        const NodeAccess access = AccessOf(node.kind);
        const bool reads = !Stores(node.kind) && std::find(known.begin(), known.end(), node.operand) == known.end();
        if (access == NodeAccess::HALF) {
            return false;
        }
        if (access == NodeAccess::BFLOAT16) {
            gain += reads ? 2 : (node.needed != LoopNode::NOT_NEEDED ? 1 : 0);
        } else if (access == NodeAccess::FLOAT && (reads || node.needed != LoopNode::NOT_NEEDED)) {
            gain -= 2;
        }
        known.push_back(node.operand);
    }
    return !form.byRow && lanes > LANES_OF_128_BITS && gain > 0;
}

class LoopWriter {
public:
    LoopWriter(const LoopForm& form, const VectorUnit& unit)
        : form_(form),
          lanes_(unit.lanes),
          convertsBFloat16_(unit.convertsBFloat16),
          roundsByConverting_(unit.roundsByConverting),
          byRow_(form.byRow),
          shifts_(ShiftsColumns(form)),
          tables_(TablesFor(form)),
          // Looking up two vectors alternately takes more registers than there are.
          paired_(Pairs(form, unit.lanes) && !(byElement_ && tables_.Any())),
          ir_(unit.lanes)
    {
        const auto nonTemporal = [&form](const LoopNode& node) {
            return Stores(node.kind) && form.MayStoreNonTemporally(node);
        };
        const auto store = std::find_if(form.nodes.begin(), form.nodes.end(), nonTemporal);
        aligned_ = form.variant.nonTemporal && form.MayOverlap() && store != form.nodes.end() ? &*store : nullptr;
    }

    std::string Write(const std::string& name)
    {
        Prepare();
        if (aligned_ != nullptr) {
            PrepareAligned();
        }
        EmitPrefetches();
        if (shifts_) {
            EmitAll();
        } else if (byRow_) {
            EmitRow();
        } else {
            EmitBatches(AtOnce() / lanes_);
        }
        if (byRow_) {
            StoreLanes(ir_);
        }
        if (form_.variant.prefetches > 0) {
            PrepareTilePrefetches();
            prefetched_ = EmitTilePrefetches();
        }
        return Module(name);
    }

private:
    // None, where one of them is not to be had.
    static Lookups TablesFor(const LoopForm& form)
    {
        Lookups tables(form, form.variant.usesLookups);
        return tables.Fetch() ? tables : Lookups(form, false);
    }
    static std::string Name(const char* what, uint8_t operand)
    {
        return std::string("%") + what + std::to_string(operand);
    }
    static std::string Lane(uint8_t operand, uint32_t k, const char* when)
    {
        return Name("lanes", operand) + "_" + std::to_string(k) + when;
    }

    void EmitBatches(uint32_t vectors)
    {
        for (first_ = 0; first_ < vectors; first_ += count_) {
            count_ = std::min(vectors - first_, VectorsAtOnce());
            EmitAll();
        }
    }
    // The rows of some nodes may be shorter than those of others: of the memory between two rows these have a
    // part.
    void EmitRow()
    {
        uint32_t shortest = UINT32_MAX;
        uint32_t longest = 0;
        for (const LoopNode& node : form_.nodes) {
            shortest = node.elements > 0 ? std::min<uint32_t>(shortest, node.elements) : shortest;
            longest = std::max<uint32_t>(longest, node.elements);
        }
        EmitBatches(shortest / lanes_);
        for (count_ = 1; first_ * lanes_ < longest; ++first_) {
            EmitAll();
        }
    }

    // ---- before the loop: addresses; and before it, or before each row, DataBlocks and lanes that collect

    void Prepare()
    {
        for (const LoopNode& node : form_.nodes) {
            if (node.operand == LoopNode::NO_OPERAND || access_[node.operand] != NodeAccess::NONE) {
                continue;
            }
            access_[node.operand] = AccessOf(node.kind);
            const std::string base = Name("base", node.operand);
            const std::string place = Name("place", node.operand);
            const std::string first = byRow_ ? Name("first", node.operand) : base;
            const size_t offset = node.index * sizeof(BoundNode) + offsetof(BoundNode, base);
            entry_.Define(place, "getelementptr i8, ptr %nodes, i64 " + std::to_string(offset));
            entry_.Define(first, "load ptr, ptr " + place);
            if (byRow_) {
                const std::string down = ir_.Let("mul i64 %i, " + std::to_string(form_.rows[node.operand].stride));
                ir_.Define(base, "getelementptr i8, ptr " + first + ", i64 " + down);
            }
            IrBuilder& before = byRow_ ? ir_ : entry_;
            if (access_[node.operand] == NodeAccess::BLOCK) {
                PrepareBlock(node.operand, before);
            } else if (access_[node.operand] == NodeAccess::LANES) {
                PrepareLanes(node.operand, before);
            }
        }
    }
    // A DataBlock is read once: nothing in the loop writes to it.
    void PrepareBlock(uint8_t operand, IrBuilder& before)
    {
        constexpr uint32_t LENGTH = 8;
        const std::string type = IrBuilder::Vector(LENGTH, "float");
        const std::string block = Name("block", operand);
        before.Define(block, "load " + type + ", ptr " + Name("base", operand) + ", align 4");
        for (uint32_t part = 0; part < BlockParts(); ++part) {
            before.Define(block + "_" + std::to_string(part),
                          IrBuilder::Shuffle(type, block, "poison", lanes_, [&](uint32_t i) {
                              return (paired_ ? 2 * i + part : part * lanes_ + i) % LENGTH;
                          }));
        }
    }
    // Different vectors that a DataBlock makes when it is repeated.
    uint32_t BlockParts() const { return paired_ ? 2 : (lanes_ < 8 ? 8 / lanes_ : 1); }

    void PrepareLanes(uint8_t operand, IrBuilder& before)
    {
        for (uint32_t k = 0; k < REPEAT_FLOATS / lanes_; ++k) {
            const std::string at = Lane(operand, k, ".at");
            before.Define(at,
                          "getelementptr float, ptr " + Name("base", operand) + ", i64 " + std::to_string(k * lanes_));
            before.Define(Lane(operand, k, paired_ ? ".there" : ".first"),
                          "load " + ir_.VectorOf("float") + ", ptr " + at + ", align 4");
            sums_[operand][k] = Lane(operand, k, byRow_ ? ".first" : "");
            collected_.push_back({operand, k});
        }
        for (uint32_t k = 0; k < REPEAT_FLOATS / lanes_ && paired_; ++k) {
            before.Define(Lane(operand, k, ".first"),
                          Apart(Lane(operand, k & ~1u, ".there"), Lane(operand, k | 1u, ".there"), k % 2));
        }
    }
    void StoreLanes(IrBuilder& behind) const
    {
        for (const auto& [operand, k] : collected_) {
            std::string sum = sums_[operand][k];
            if (paired_) {
                sum = Lane(operand, k, ".last");
                behind.Define(sum, Together(sums_[operand][k & ~1u], sums_[operand][k | 1u], k % 2));
            }
            behind.Line("store " + ir_.VectorOf("float") + " " + sum + ", ptr " + Lane(operand, k, ".at") +
                        ", align 4");
        }
    }

    // The even elements of two vectors, or the odd ones.
    std::string Apart(const std::string& a, const std::string& b, uint32_t odd) const
    {
        return IrBuilder::Shuffle(ir_.VectorOf("float"), a, b, lanes_, [odd](uint32_t i) { return 2 * i + odd; });
    }
    // The first vector, or the second, of what Apart has taken apart.
    std::string Together(const std::string& even, const std::string& odd, uint32_t second) const
    {
        return IrBuilder::Shuffle(ir_.VectorOf("float"), even, odd, lanes_,
                                  [this, second](uint32_t i) { return second * lanes_ / 2 + i / 2 + i % 2 * lanes_; });
    }

    // ---- memory

    // Prefetches the lines that later iterations of the loop read from global memory, and those that they write there,
    // which the CPU loads, too: by itself it looks ahead only as far as the end of a page. Not for outputs of 16 bits:
    // half as many lines for the same arithmetic come in time.
    void EmitPrefetches()
    {
        uint64_t done = 0;  // a bit for each operand
        for (const LoopNode& node : form_.nodes) {
            const uint64_t bit = node.operand == LoopNode::NO_OPERAND ? 0 : 1ull << node.operand;
            const NodeAccess access = AccessOf(node.kind);
            const bool wide = access == NodeAccess::FLOAT;
            const bool elements = wide || access == NodeAccess::HALF || access == NodeAccess::BFLOAT16;
            const bool writes = Stores(node.kind);
            if ((form_.inGm & bit & ~done) != 0 && elements && (!writes || (wide && !form_.variant.nonTemporal))) {
                EmitPrefetches(node, wide ? sizeof(float) : sizeof(uint16_t), writes);
            }
            done |= bit;
        }
    }
    // As many lines of an operand as an iteration goes over.
    void EmitPrefetches(const LoopNode& node, uint32_t size, bool writes)
    {
        constexpr int64_t READ_AHEAD = 256;  // elements
        constexpr int64_t WRITE_AHEAD = 512;
        int64_t ahead = size * (writes ? WRITE_AHEAD : READ_AHEAD);
        int64_t bytes = size * AtOnce();
        std::string here = Name("base", node.operand);
        if (byRow_) {
            const int64_t stride = form_.rows[node.operand].stride;
            if (stride <= 0) {
                return;
            }
            ahead = (ahead + stride - 1) / stride * stride;
            bytes = size * node.elements;
        } else {
            const std::string done = ir_.Let("mul i64 %i, " + std::to_string(size));
            here = ir_.Let("getelementptr i8, ptr " + here + ", i64 " + done);
        }
        for (int64_t k = 0; k < bytes; k += LINE_BYTES) {
            const std::string line = ir_.Let("getelementptr i8, ptr " + here + ", i64 " + std::to_string(ahead + k));
            ir_.Prefetch(line, writes, IrBuilder::Cache::FIRST);
        }
    }

    // ---- the next tile (prefetch.h)

    void PrepareTilePrefetches()
    {
        const auto field = [this](const std::string& name, const char* type, size_t offset) {
            entry_.Define(name + ".at", "getelementptr i8, ptr %ahead, i64 " + std::to_string(offset));
            entry_.Define(name, std::string("load ") + type + ", ptr " + name + ".at");
        };
        field("%prefetched.first", "i64", offsetof(LoopAhead, done));
        field("%prefetched.bytes", "i64", offsetof(LoopAhead, bytes));
        field("%rate", "i64", offsetof(LoopAhead, rate));
        for (uint32_t k = 0; k < form_.variant.prefetches; ++k) {
            field(Name("stretch", k), "ptr", offsetof(LoopAhead, stretches) + k * sizeof(const char*));
        }
        const uint32_t cost = CostOf(form_) * (byRow_ ? 1 : AtOnce());
        entry_.Define("%paid", "mul i64 %rate, " + std::to_string(cost));
        entry_.Define("%whole", "add i64 %paid, " + std::to_string((1 << LoopAhead::RATE_BITS) - 1));
        entry_.Define("%pace", "lshr i64 %whole, " + std::to_string(LoopAhead::RATE_BITS));
    }
    // The lines that begin in the bytes that an iteration advances by. Returns how far it got.
    std::string EmitTilePrefetches()
    {
        ir_.Define("%prefetched.next", "add i64 %prefetched, %pace");
        const std::string then = ir_.UpTo("%prefetched.next", "%prefetched.bytes");
        const std::string behind = ir_.Let("add i64 %prefetched, " + std::to_string(LINE_BYTES - 1));
        const std::string line = ir_.Let("and i64 " + behind + ", -" + std::to_string(LINE_BYTES));
        ir_.For(line, then, LINE_BYTES, [this](const std::string& at) {
            for (uint32_t k = 0; k < form_.variant.prefetches; ++k) {
                const std::string address = ir_.Let("getelementptr i8, ptr " + Name("stretch", k) + ", i64 " + at);
                ir_.Prefetch(address, false, IrBuilder::Cache::SECOND);
            }
        });
        return then;
    }

    std::string Address(const LoopNode& node, uint32_t k, const char* type)
    {
        const std::string element = std::string("getelementptr ") + type + ", ptr ";
        const std::string base = Name("base", node.operand);
        const std::string begin = byRow_ ? base : ir_.Let(element + base + ", i64 %i");
        return ir_.Let(element + begin + ", i64 " + std::to_string((first_ + k) * lanes_));
    }
    // Of floats, too: two elements of 16 bits may be the bits of one (And, Or). And of two that are numbers of entries.
    static constexpr const char* ALIGNED = ", align 2";
    // The lanes behind the last valid one are zeros.
    std::string Load(const LoopNode& node, uint32_t k, const char* type)
    {
        const std::string part = IrBuilder::Vector(valid_, type);
        const std::string some = ir_.Let("load " + part + ", ptr " + Address(node, k, type) + ALIGNED);
        if (valid_ == lanes_) {
            return some;
        }
        return ir_.Let(IrBuilder::Shuffle(part, some, "zeroinitializer", lanes_,
                                          [this](uint32_t i) { return std::min(i, valid_); }));
    }
    void Store(const LoopNode& node, uint32_t k, const char* type, const std::string& value)
    {
        std::string some = value;
        if (valid_ < lanes_) {
            some =
                ir_.Let(IrBuilder::Shuffle(ir_.VectorOf(type), value, "poison", valid_, [](uint32_t i) { return i; }));
        }
        Write(node, k, type, some, valid_);
    }
    void Write(const LoopNode& node, uint32_t k, const char* type, const std::string& value, uint32_t elements)
    {
        const uint32_t piece = NON_TEMPORAL_BYTES / (type[0] == 'f' ? sizeof(float) : sizeof(uint16_t));
        const std::string address = Address(node, k, type);
        if (!form_.variant.nonTemporal || !form_.MayStoreNonTemporally(node) || elements % piece != 0) {
            ir_.Line("store " + IrBuilder::Vector(elements, type) + " " + value + ", ptr " + address + ALIGNED);
            return;
        }
        const uint32_t whole = elements * NON_TEMPORAL_BYTES / piece;  // bytes
        if (aligned_ == nullptr || whole == NON_TEMPORAL_BYTES) {
            WritePieces(type, value, address, elements, piece);
            return;
        }
        const std::string number = ir_.Let("ptrtoint ptr " + address + " to i64");
        const std::string past = ir_.Let("and i64 " + number + ", " + std::to_string(whole - 1));
        ir_.If(
            ir_.Let("icmp eq i64 " + past + ", 0"), [&] { WritePieces(type, value, address, elements, elements); },
            [&] { WritePieces(type, value, address, elements, piece); });
    }
    // Past the caches, so many elements at a time.
    void WritePieces(const char* type, const std::string& value, const std::string& address, uint32_t elements,
                     uint32_t piece)
    {
        const size_t bytes = piece * (type[0] == 'f' ? sizeof(float) : sizeof(uint16_t));
        for (uint32_t first = 0; first < elements; first += piece) {
            const std::string part = ir_.Let(IrBuilder::Shuffle(IrBuilder::Vector(elements, type), value, "poison",
                                                                piece, [first](uint32_t i) { return first + i; }));
            const std::string at =
                ir_.Let(std::string("getelementptr ") + type + ", ptr " + address + ", i64 " + std::to_string(first));
            ir_.Line("store " + IrBuilder::Vector(piece, type) + " " + part + ", ptr " + at + ", align " +
                     std::to_string(bytes) + ", !nontemporal !1");
        }
    }

    // The lanes of a vector that are in a register, from the first one on.
    struct Lanes {
        std::string value;
        uint32_t count = 0;
    };
    // The bounds of vector k of an operand.
    Lanes& Known(const LoopNode& node, uint32_t k)
    {
        if (!byRow_) {
            return known_[{node.operand, k}];
        }
        const LoopRows& rows = form_.rows[node.operand];
        return known_[{rows.whole, rows.column / static_cast<int32_t>(lanes_) + static_cast<int32_t>(first_ + k)}];
    }
    void Keep(const LoopNode& node, const Vectors& values)
    {
        for (uint32_t k = 0; k < count_; ++k) {
            Lanes& known = Known(node, k);
            if (known.count > valid_) {
                known.value = ir_.Select(FirstLanes(valid_), values[k], known.value);
            } else {
                known = {values[k], valid_};
            }
        }
    }
    // The elements of an operand as floats; those that the loop knows are not read.
    Vectors Read(const LoopNode& node)
    {
        Vectors values;
        const NodeAccess access = access_[node.operand];
        for (uint32_t k = 0; k < count_; ++k) {
            const Lanes known = Known(node, k);
            values.push_back(known.value);
            if (known.count >= valid_) {
                continue;
            }
            values[k] = access == NodeAccess::FLOAT ? Load(node, k, "float")
                        : paired_                   ? ReadOfPair(node, k)
                                                    : ReadNarrow(node, k, access == NodeAccess::HALF);
            if (paired_ && access == NodeAccess::FLOAT && k % 2 == 1) {
                const std::string even = ir_.Let(Apart(values[k - 1], values[k], 0));
                values[k] = ir_.Let(Apart(values[k - 1], values[k], 1));
                values[k - 1] = even;
            }
            if (known.count > 0) {  // which may not be in memory
                values[k] = ir_.Select(FirstLanes(known.count), known.value, values[k]);
            }
        }
        Keep(node, values);
        return values;
    }
    std::string ReadNarrow(const LoopNode& node, uint32_t k, bool half)
    {
        const std::string bits = Load(node, k, "i16");
        if (!byElement_ && tables_.IsIndex(node.operand)) {
            indices_[{node.operand, k}] = ir_.Widened(bits);
        }
        return half ? ir_.FromHalf(bits) : ir_.FromBFloat16(bits);
    }
    std::string ReadOfPair(const LoopNode& node, uint32_t k)
    {
        const std::string type = IrBuilder::Vector(2 * lanes_, "i16");
        const std::string pair = ir_.Let("load " + type + ", ptr " + Address(node, k & ~1u, "i16") + ", align 2");
        if (!byElement_ && tables_.IsIndex(node.operand)) {
            indices_[{node.operand, k}] = ir_.WidenedOfPacked(pair, k % 2);
        }
        return ir_.FromPacked(pair, k % 2, true);
    }

    void KeepFloat(const LoopNode& node)
    {
        for (uint32_t k = 0; k < count_ && node.needed != LoopNode::NOT_NEEDED; ++k) {
            const std::string value = paired_ ? ir_.Let(Together(value_[k & ~1u], value_[k | 1u], k % 2)) : value_[k];
            Store(node, k, "float", value);
        }
        Keep(node, value_);
    }
    void KeepHalf(const LoopNode& node)
    {
        Vectors rounded;
        for (uint32_t k = 0; k < count_; ++k) {
            const std::string bits = ir_.ToHalf(value_[k]);
            if (node.needed != LoopNode::NOT_NEEDED) {
                Store(node, k, "i16", bits);
            }
            rounded.push_back(ir_.FromHalf(bits));
        }
        Keep(node, rounded);
    }
    // Rounds the value.
    void CastToBFloat16(const LoopNode& node)
    {
        if (count_ % 2 != 0) {
            value_ = ir_.RoundToBFloat16(value_, false);
            return KeepBFloat16(node);
        }
        const Vectors packed = ir_.PackAsBFloat16(value_, paired_, convertsBFloat16_);
        KeepPacked(node, packed);
    }
    // The upper halves of the value, which it is rounded to.
    void KeepBFloat16(const LoopNode& node)
    {
        if (count_ % 2 == 0) {
            return KeepPacked(node, ir_.PackRounded(value_, paired_));
        }
        for (uint32_t k = 0; k < count_; ++k) {
            if (node.needed != LoopNode::NOT_NEEDED) {
                Store(node, k, "i16", ir_.UpperHalves(value_[k]));
            }
            value_[k] = ir_.Cleared(ir_.AsInt(value_[k]), true);
        }
        Keep(node, value_);
    }
    void KeepPacked(const LoopNode& node, const Vectors& packed)
    {
        for (uint32_t k = 0; k < count_; ++k) {
            if (node.needed != LoopNode::NOT_NEEDED && k % 2 == 0) {
                Write(node, k, "i16", packed[k / 2], 2 * lanes_);
            }
            value_[k] = ir_.FromPacked(packed[k / 2], k % 2, paired_);
        }
        Keep(node, value_);
    }

    // ---- nodes

    void Collect(const LoopNode& node, Opcode opcode)
    {
        const uint32_t repeat = REPEAT_FLOATS / lanes_;
        Vectors after;
        for (uint32_t k = 0; k < std::min(count_, repeat); ++k) {
            after.push_back(sums_[node.operand][(first_ + k) % repeat]);
        }
        for (uint32_t k = 0; k < count_; ++k) {
            std::string& sum = after[k % repeat];
            const std::string more = ir_.Binary(opcode, value_[k], sum);
            sum = valid_ < lanes_ ? ir_.Select(FirstLanes(valid_), more, sum) : more;
        }
        for (uint32_t k = 0; k < after.size(); ++k) {
            sums_[node.operand][(first_ + k) % repeat] = after[k];
        }
    }
    std::string FirstLanes(uint32_t count) const
    {
        std::string lanes;
        for (uint32_t i = 0; i < lanes_; ++i) {
            lanes += std::string(i > 0 ? ", i1 " : "i1 ") + (i < count ? "true" : "false");
        }
        return "<" + lanes + ">";
    }
    Vectors SecondOf(const LoopNode& node)
    {
        if (OtherOf(node.kind) == Other::SELF) {
            return value_;
        }
        if (OtherOf(node.kind) != Other::BLOCK) {
            return Read(node);
        }
        Vectors block;
        for (uint32_t k = 0; k < count_; ++k) {
            block.push_back(Name("block", node.operand) + "_" + std::to_string((first_ + k) % BlockParts()));
        }
        return block;
    }
    template <class F>
    void Each(F&& function)
    {
        for (uint32_t k = 0; k < count_; ++k) {
            value_[k] = function(value_[k], k);
        }
    }
    void EmitAll()
    {
        known_.clear();
        indices_.clear();
        found_.clear();
        value_.clear();
        for (const LoopNode& node : form_.nodes) {
            count_ = shifts_ && node.elements > 0 ? node.elements / lanes_ : count_;
            valid_ = lanes_;
            if (byRow_ && node.elements > 0) {
                const uint32_t begin = first_ * lanes_;
                valid_ = node.elements <= begin ? 0 : std::min(lanes_, node.elements - begin);
            }
            if (valid_ == 0) {
                continue;
            }
            switch (tables_.Of(node)) {
                case Lookups::Fate::CALCULATE:
                    Emit(node);
                    break;
                case Lookups::Fate::LOOKUP:
                    Lookup(node);
                    break;
                case Lookups::Fate::DEAD:
                    if (Stores(node.kind)) {
                        Keep(node, Vectors(count_, "poison"));
                    } else {
                        value_.assign(count_, "poison");
                    }
            }
        }
    }
    // Entries for the elements of so many vectors from number `k` on.
    std::string Entries(const LoopNode& node, uint32_t k, uint32_t vectors)
    {
        const LookupTable& table = tables_.TableOf(node);
        const char* const type = table.type == ElementType::FLOAT ? "float" : "i16";
        const std::string begin =
            ir_.Let("getelementptr i16, ptr " + Name("base", tables_.OperandOf(node)) + ", i64 %i");
        std::vector<std::string> entries;
        for (uint32_t e = 0; e < vectors * lanes_; e += 2) {  // two by one load: there are as many for the entries
            const std::string number = std::to_string((first_ + k) * lanes_ + e);
            const std::string at = ir_.Let("getelementptr i16, ptr " + begin + ", i64 " + number);
            const std::string two = ir_.Let("load i32, ptr " + at + ALIGNED);
            entries.push_back(ir_.Entry(table.entries, type, ir_.Let("and i32 " + two + ", 65535")));
            entries.push_back(ir_.Entry(table.entries, type, ir_.Let("lshr i32 " + two + ", 16")));
        }
        return ir_.Assembled(entries, type);
    }
    // The result of a node for vector k.
    std::string Found(const LoopNode& node, uint32_t k)
    {
        const LookupTable& table = tables_.TableOf(node);
        if (!byElement_) {
            return ir_.FromTable(table, indices_[{tables_.OperandOf(node), k}]);
        }
        const std::string entries = Entries(node, k, 1);
        return table.type == ElementType::FLOAT  ? entries
               : table.type == ElementType::HALF ? ir_.FromHalf(entries)
                                                 : ir_.FromBFloat16(entries);
    }
    // The value becomes the entry of a table.
    void Lookup(const LoopNode& node)
    {
        Vectors& found = found_[tables_.TermOf(node)];
        if (byElement_ && node.kind == NodeKind::CAST_BFLOAT16 && count_ % 2 == 0 && found.empty()) {
            Vectors packed;
            for (uint32_t k = 0; k < count_; k += 2) {
                packed.push_back(Entries(node, k, 2));
            }
            KeepPacked(node, packed);
            found = value_;
            return;
        }
        for (uint32_t k = 0; k < count_ && found.size() < count_; ++k) {
            found.push_back(Found(node, k));
        }
        const Vectors value = value_;
        value_ = found;
        if (node.kind == NodeKind::STORE_HALF) {
            KeepHalf(node);
            value_ = value;  // the stored value was rounded; the value itself stays unrounded
        } else if (node.kind == NodeKind::CAST_BFLOAT16) {
            KeepBFloat16(node);
        }
    }
    void Emit(const LoopNode& node)
    {
        const auto scalar = [&](Opcode opcode) {
            Each([&](const std::string& v, uint32_t) { return ir_.Scalar(opcode, v, node.scalar); });
        };
        const auto unary = [&](Opcode opcode) {
            Each([&](const std::string& v, uint32_t) { return ir_.Unary(opcode, v); });
        };
        switch (node.kind) {
            case NodeKind::LOAD_FLOAT:
            case NodeKind::LOAD_HALF:
            case NodeKind::LOAD_BFLOAT16:
                value_ = Read(node);
                break;
            case NodeKind::STORE_FLOAT:
                KeepFloat(node);
                break;
            case NodeKind::STORE_HALF:
                KeepHalf(node);
                break;
            case NodeKind::CAST_BFLOAT16:
                CastToBFloat16(node);
                break;
            case NodeKind::STORE_BFLOAT16:
                KeepBFloat16(node);
                break;
            case NodeKind::ROUND_HALF:
                Each([&](const std::string& v, uint32_t) { return ir_.FromHalf(ir_.ToHalf(v)); });
                break;
            case NodeKind::ROUND_BFLOAT16:
                value_ = roundsByConverting_ && count_ % 2 == 0 ? ir_.RoundByConverting(value_)
                                                                : ir_.RoundToBFloat16(value_, true);
                break;
            case NodeKind::ADDS:
                return scalar(Opcode::ADDS);
            case NodeKind::MULS:
                return scalar(Opcode::MULS);
            case NodeKind::MAXS:
                return scalar(Opcode::MAXS);
            case NodeKind::MINS:
                return scalar(Opcode::MINS);
            case NodeKind::EXP:
                value_ = ir_.Exp(value_);
                break;
            case NodeKind::LN:
                return unary(Opcode::LN);
            case NodeKind::SQRT:
                return unary(Opcode::SQRT);
            case NodeKind::ABS:
                return unary(Opcode::ABS);
            case NodeKind::RELU:
                return unary(Opcode::RELU);
            case NodeKind::AXPY: {
                const Vectors other = Read(node);
                Each([&](const std::string& v, uint32_t k) { return ir_.Axpy(other[k], node.scalar, v); });
                break;
            }
            case NodeKind::SUM:
                return Collect(node, Opcode::ADD);
            case NodeKind::LARGEST:
                return Collect(node, Opcode::MAX);
            case NodeKind::SMALLEST:
                return Collect(node, Opcode::MIN);
            case NodeKind::END:
                value_.clear();
                break;
            default:
                const Vectors others = SecondOf(node);
                Each([&](const std::string& v, uint32_t k) {
                    const Opcode opcode = OpcodeOf(node.kind);
                    return IsSwapped(node.kind) ? ir_.Binary(opcode, others[k], v) : ir_.Binary(opcode, v, others[k]);
                });
        }
    }

    // ---- the module

    // How many vectors go through all nodes together: they hide each other's latency as long as registers last.
    uint32_t VectorsAtOnce() const
    {
        constexpr size_t MANY_NODES = 32;
        if (lanes_ == IrBuilder::AVX512_LANES) {
            return tables_.Calculated() <= MANY_NODES ? 8 : 4;
        }
        return 2;
    }
    // Elements in one iteration of the loop; LOOP_ELEMENTS is a multiple, and it is one of a repeat.
    uint32_t AtOnce() const { return lanes_ == IrBuilder::AVX512_LANES ? LOOP_ELEMENTS : REPEAT_FLOATS; }

    std::string Module(const std::string& name) const
    {
        const std::string floats = ir_.VectorOf("float");
        std::string text = ir_.Opening(name) + entry_.Body() +
                           "  br label %loop\nloop:\n  %i = phi i64 [ %begin, %entry ], [ %next, %" + ir_.Block() +
                           " ]\n";
        IrBuilder done(lanes_);
        if (form_.variant.prefetches > 0) {
            text += "  %prefetched = phi i64 [ %prefetched.first, %entry ], [ " + prefetched_ + ", %" + ir_.Block() +
                    " ]\n";
            done.Line("store i64 " + prefetched_ + ", ptr %prefetched.first.at");
        }
        if (!byRow_) {
            for (const auto& [operand, k] : collected_) {
                text += "  " + Lane(operand, k, "") + " = phi " + floats + " [ " + Lane(operand, k, ".first") +
                        ", %entry ], [ " + sums_[operand][k] + ", %" + ir_.Block() + " ]\n";
            }
            StoreLanes(done);
        }
        return text + ir_.Body() + (aligned_ == nullptr ? NextBeside() : NextAligned()) +
               "  br i1 %more, label %loop, label %done\ndone:\n" + done.Body() + IrBuilder::Closing();
    }
    std::string NextBeside() const
    {
        return "  %next = add i64 %i, " + std::to_string(byRow_ ? 1 : AtOnce()) +
               "\n  %more = icmp ult i64 %next, %end\n";
    }

    // The second iteration of a long loop begins where a line of the output does, and goes over some elements again;
    // and so does the last one, which ends where the loop does. Whole lines go by non-temporal stores faster than
    // pieces of them.
    void PrepareAligned()
    {
        constexpr uint32_t LEAST = 1536;  // elements: one iteration more takes longer than it saves
        const uint32_t size = SizeOf(AccessOf(aligned_->kind));
        entry_.Define("%last", "sub i64 %end, " + std::to_string(AtOnce()));
        entry_.Define("%address", "ptrtoint ptr " + Name("base", aligned_->operand) + " to i64");
        entry_.Define("%place", "udiv i64 %address, " + std::to_string(size));
        entry_.Define("%count", "sub i64 %end, %begin");
        entry_.Define("%long", "icmp uge i64 %count, " + std::to_string(LEAST));
        // DataBlocks begin anew with every eighth element: where there are some, so do iterations.
        constexpr uint32_t BLOCK = ONE_BLK_SIZE / sizeof(float);
        const bool blocks = std::find(access_.begin(), access_.end(), NodeAccess::BLOCK) != access_.end();
        const uint32_t line = (LINE_BYTES / size - 1) & ~(blocks ? BLOCK - 1 : 0);
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
    const bool convertsBFloat16_;
    const bool roundsByConverting_;
    const bool byRow_;
    const bool shifts_;
    const Lookups tables_;
    const bool byElement_ = tables_.Method() == LookupMethod::BY_ELEMENT;
    const bool paired_;
    std::string prefetched_;             // how far the iteration prefetches the next tile
    const LoopNode* aligned_ = nullptr;  // the store that iterations are aligned to, if they are
    IrBuilder entry_{lanes_};
    IrArithmetic ir_;     // the body of the loop
    uint32_t first_ = 0;  // the vectors at hand, of those in an iteration
    uint32_t count_ = 0;
    uint32_t valid_ = 0;  // lanes of them that the node at hand is about
    Vectors value_;
    std::map<std::pair<uint32_t, int32_t>, Lanes> known_;           // by operand and vector: values in registers
    std::map<std::pair<uint32_t, uint32_t>, std::string> indices_;  // by operand and vector: bits of elements
    std::map<int32_t, Vectors> found_;                              // by term: results of lookups
    std::array<NodeAccess, OPERANDS> access_{};
    std::array<std::array<std::string, REPEAT_FLOATS / LANES_OF_128_BITS>, OPERANDS> sums_;  // the lanes that collect
    std::vector<std::pair<uint8_t, uint32_t>> collected_;  // vectors of such lanes: operand and number
};

}  // namespace

bool WritesLoops(const VectorUnit& unit)
{
    return unit.convertsHalf;
}

std::string WriteLoop(const LoopForm& form, const VectorUnit& unit, const std::string& name)
{
    return form.straightLine.empty() ? LoopWriter(form, unit).Write(name)
                                     : WriteStraightLine(form.straightLine, unit, name);
}

}  // namespace host
}  // namespace AscendC
