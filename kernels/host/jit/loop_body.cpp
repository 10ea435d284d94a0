#include "jit/loop_body.h"

#include <algorithm>

#include "ir/operation.h"

namespace AscendC {
namespace host {

void LoopBody::Emit(uint32_t first, uint32_t count)
{
    first_ = first;
    count_ = count;
    packed_.clear();
    halves_.clear();
    indices_.clear();
    values_.assign(form_.values.size(), {});
    for (size_t i = 0; i < form_.values.size(); ++i) {
        Emit(static_cast<int16_t>(i));
    }
}

void LoopBody::Emit(int16_t number)
{
    const Value& value = form_.values[number];
    const Lookups::Fate fate = lookups_.Of(static_cast<size_t>(number));
    if (fate == Lookups::Fate::DEAD || VectorsOf(value) == 0) {
        return;
    }
    if (fate == Lookups::Fate::LOOKUP) {
        values_[number] = Lookup(number);
        return;
    }
    switch (value.kind) {
        case ValueKind::LOAD:
            values_[number] = Load(number);
            break;
        case ValueKind::BLOCK:
            values_[number] = Block(value);
            break;
        case ValueKind::COMPUTE:
            values_[number] = Compute(value);
            break;
        case ValueKind::ROUND:
            values_[number] = Round(number);
            break;
        case ValueKind::COLUMNS:
            values_[number] = Columns(value);
            break;
        case ValueKind::STORE:
            Store(value);
            break;
        case ValueKind::COLLECT:
            style_.tail ? CollectInMemory(value) : Collect(value);
            break;
    }
}

// Returns how many of the vectors at hand it has.
uint32_t LoopBody::VectorsOf(const Value& value) const
{
    if (!form_.byRow) {
        return count_;
    }
    const uint32_t all = (value.elements + lanes_ - 1) / lanes_;
    return style_.shifts ? all : std::min(count_, all - std::min(all, first_));
}

// May two vectors of it go together?
bool LoopBody::IsPairwise(const Value& value) const
{
    const uint32_t vectors = VectorsOf(value);
    return vectors % 2 == 0 && LanesOf(value, vectors - 1) == lanes_;
}

// Returns as many vectors of a value as another one has.
Vectors LoopBody::Of(int16_t value, const Value& user) const
{
    const Vectors& all = values_[value];
    return {all.begin(), all.begin() + VectorsOf(user)};
}

std::string LoopBody::FirstLanes(uint32_t count) const
{
    std::string lanes;
    for (uint32_t i = 0; i < lanes_; ++i) {
        lanes += std::string(i > 0 ? ", i1 " : "i1 ") + (i < count ? "true" : "false");
    }
    return "<" + lanes + ">";
}

std::string LoopBody::Apart(const std::string& a, const std::string& b, uint32_t odd) const
{
    return IrBuilder::Shuffle(ir_.VectorOf("float"), a, b, lanes_, [odd](uint32_t i) { return 2 * i + odd; });
}

std::string LoopBody::Together(const std::string& even, const std::string& odd, uint32_t second) const
{
    return IrBuilder::Shuffle(ir_.VectorOf("float"), even, odd, lanes_,
                              [this, second](uint32_t i) { return second * lanes_ / 2 + i / 2 + i % 2 * lanes_; });
}

// ---- values

Vectors LoopBody::Load(int16_t number)
{
    const Value& load = form_.values[number];
    Vectors vectors;
    for (uint32_t k = 0; k < VectorsOf(load); ++k) {
        vectors.push_back(load.type == ElementType::FLOAT ? Read(load, k, "float") : LoadNarrow(number, k));
        if (style_.paired && load.type == ElementType::FLOAT && k % 2 == 1) {
            const std::string even = ir_.Let(Apart(vectors[k - 1], vectors[k], 0));
            vectors[k] = ir_.Let(Apart(vectors[k - 1], vectors[k], 1));
            vectors[k - 1] = even;
        }
    }
    return vectors;
}

std::string LoopBody::LoadNarrow(int16_t number, uint32_t k)
{
    const Value& load = form_.values[number];
    const bool isIndex = lookups_.Method() != LookupMethod::BY_ELEMENT && lookups_.IsIndex(number);
    if (style_.paired) {
        const std::string type = IrBuilder::Vector(2 * lanes_, "i16");
        const std::string pair =
            ir_.Let("load " + type + ", ptr " + Address(load.operand, k & ~1u, "i16") + LOOP_ALIGNMENT);
        if (isIndex) {
            indices_[{number, k}] = ir_.WidenedOfPacked(pair, k % 2);
        }
        return ir_.FromPacked(pair, k % 2, true);
    }
    const std::string bits = Read(load, k, "i16");
    if (isIndex) {
        indices_[{number, k}] = ir_.Widened(bits);
    }
    return load.type == ElementType::HALF ? ir_.FromHalf(bits) : ir_.FromBFloat16(bits);
}

Vectors LoopBody::Block(const Value& block)
{
    constexpr uint32_t LENGTH = ONE_BLK_SIZE / sizeof(float);
    if (style_.tail && lanes_ < LENGTH) {
        const std::string phase = ir_.Let("and i64 " + index_ + ", " + std::to_string(LENGTH - 1));
        const std::string at = ir_.Let("getelementptr float, ptr " + NameOf("base", block.operand) + ", i64 " + phase);
        return {ir_.Let("load " + ir_.VectorOf("float") + ", ptr " + at + ", align 4")};
    }
    if (style_.tail) {
        return {ir_.Let(IrBuilder::Shuffle(IrBuilder::Vector(LENGTH, "float"), NameOf("block", block.operand), "poison",
                                           lanes_, [](uint32_t i) { return i % LENGTH; }))};
    }
    Vectors vectors;
    for (uint32_t k = 0; k < VectorsOf(block); ++k) {
        vectors.push_back(NameOf("block", block.operand) + "_" + std::to_string((first_ + k) % BlockParts()));
    }
    return vectors;
}

Vectors LoopBody::Compute(const Value& value)
{
    const Vectors a = Of(value.first, value);
    const Vectors b = value.second == Value::NO_VALUE ? Vectors{} : Of(value.second, value);
    if (value.opcode == Opcode::EXP) {
        return ir_.Exp(a);
    }
    Vectors results;
    for (size_t k = 0; k < a.size(); ++k) {
        switch (KindOf(value.opcode)) {
            case OperationKind::BINARY:
                results.push_back(ir_.Binary(value.opcode, a[k], b[k]));
                break;
            case OperationKind::AXPY:
                results.push_back(ir_.Axpy(a[k], value.scalar, b[k]));
                break;
            case OperationKind::SCALAR:
                results.push_back(ir_.Scalar(value.opcode, a[k], value.scalar));
                break;
            default:
                results.push_back(ir_.Unary(value.opcode, a[k]));
        }
    }
    return results;
}

// Does a store take it as it was rounded?
bool LoopBody::IsStored(int16_t number) const
{
    return std::any_of(form_.values.begin(), form_.values.end(), [number](const Value& value) {
        return value.kind == ValueKind::STORE && value.first == number;
    });
}

Vectors LoopBody::Round(int16_t number)
{
    const Value& value = form_.values[number];
    const Vectors from = Of(value.first, value);
    Vectors rounded;
    if (value.type == ElementType::HALF) {
        for (const std::string& vector : from) {
            halves_[number].push_back(ir_.ToHalf(vector));
            rounded.push_back(ir_.FromHalf(halves_[number].back()));
        }
        return rounded;
    }
    if (!IsPairwise(value) || !IsStored(number)) {
        return style_.roundsByConverting && from.size() % 2 == 0 ? ir_.RoundByConverting(from)
                                                                 : ir_.RoundToBFloat16(from, true);
    }
    packed_[number] = ir_.PackAsBFloat16(from, style_.paired, style_.convertsBFloat16);
    for (uint32_t k = 0; k < from.size(); ++k) {
        rounded.push_back(ir_.FromPacked(packed_[number][k / 2], k % 2, style_.paired));
    }
    return rounded;
}

Vectors LoopBody::Columns(const Value& value) const
{
    Vectors vectors;
    for (uint32_t k = 0; k < VectorsOf(value); ++k) {
        const uint32_t column = (first_ + k) * lanes_;
        const bool inside = column >= value.at && column < value.at + value.count;
        const std::string outer = value.first == Value::NO_VALUE ? "poison" : values_[value.first][k];
        if (!inside) {
            vectors.push_back(outer);
            continue;
        }
        const std::string& inner = values_[value.second][(column - value.at + value.from) / lanes_ - first_];
        const uint32_t lanes = value.at + value.count - column;
        vectors.push_back(lanes >= std::min<uint32_t>(lanes_, value.elements - column)
                              ? inner
                              : ir_.Select(FirstLanes(lanes), inner, outer));
    }
    return vectors;
}

// ---- lookups

// Looks up the entries for the elements of so many vectors from number `k` on.
std::string LoopBody::Entries(int16_t number, uint32_t k, uint32_t vectors)
{
    const LookupTable& table = lookups_.TableOf(number);
    const char* const type = table.type == ElementType::FLOAT ? "float" : "i16";
    const uint8_t operand = form_.values[lookups_.IndexOf(number)].operand;
    const std::string begin = Address(operand, k, "i16");
    std::vector<std::string> entries;
    for (uint32_t e = 0; e < vectors * lanes_; e += 2) {  // two by one load: there are as many for the entries
        const std::string at = ir_.Let("getelementptr i16, ptr " + begin + ", i64 " + std::to_string(e));
        const std::string two = ir_.Let("load i32, ptr " + at + LOOP_ALIGNMENT);
        entries.push_back(ir_.Entry(table.entries, type, ir_.Let("and i32 " + two + ", 65535")));
        entries.push_back(ir_.Entry(table.entries, type, ir_.Let("lshr i32 " + two + ", 16")));
    }
    return ir_.Assembled(entries, type);
}

Vectors LoopBody::Lookup(int16_t number)
{
    const LookupTable& table = lookups_.TableOf(number);
    const bool byElement = lookups_.Method() == LookupMethod::BY_ELEMENT;
    Vectors found;
    if (byElement && table.type == ElementType::BFLOAT16 && count_ % 2 == 0 && IsStored(number)) {
        for (uint32_t k = 0; k < count_; ++k) {
            if (k % 2 == 0) {
                packed_[number].push_back(Entries(number, k, 2));
            }
            found.push_back(ir_.FromPacked(packed_[number][k / 2], k % 2, false));
        }
        return found;
    }
    for (uint32_t k = 0; k < count_; ++k) {
        if (!byElement) {
            found.push_back(ir_.FromTable(table, indices_[{lookups_.IndexOf(number), k}]));
            continue;
        }
        const std::string entries = Entries(number, k, 1);
        found.push_back(table.type == ElementType::FLOAT  ? entries
                        : table.type == ElementType::HALF ? ir_.FromHalf(entries)
                                                          : ir_.FromBFloat16(entries));
        if (table.type == ElementType::HALF) {
            halves_[number].push_back(entries);
        }
    }
    return found;
}

// ---- effects

void LoopBody::Store(const Value& store)
{
    const Vectors value = Of(store.first, store);
    const bool pairwise = store.type == ElementType::BFLOAT16 && !style_.tail && IsPairwise(store);
    const auto packed = packed_.find(store.first);
    const Vectors pairs = !pairwise                 ? Vectors{}
                          : packed != packed_.end() ? packed->second
                                                    : ir_.PackRounded(value, style_.paired);
    const auto halves = halves_.find(store.first);
    for (uint32_t k = 0; k < value.size(); ++k) {
        if (store.type == ElementType::HALF) {
            Write(store, k, "i16", halves == halves_.end() ? ir_.ToHalf(value[k]) : halves->second[k]);
        } else if (store.type == ElementType::FLOAT) {
            Write(store, k, "float",
                  style_.paired ? ir_.Let(Together(value[k & ~1u], value[k | 1u], k % 2)) : value[k]);
        } else if (!pairwise) {
            Write(store, k, "i16", ir_.UpperHalves(value[k]));
        } else if (k % 2 == 0) {
            Write(store, k, "i16", pairs[k / 2], 2 * lanes_);
        }
    }
}

void LoopBody::Collect(const Value& value)
{
    const uint32_t repeat = REPEAT_FLOATS / lanes_;
    const Vectors more = Of(value.first, value);
    std::array<std::string, REPEAT_FLOATS / LANES_OF_128_BITS>& sums = sums_[value.operand];
    for (uint32_t k = 0; k < more.size(); ++k) {
        std::string& sum = sums[(first_ + k) % repeat];
        const std::string all = ir_.Binary(value.opcode, more[k], sum);
        sum = LanesOf(value, k) < lanes_ ? ir_.Select(FirstLanes(LanesOf(value, k)), all, sum) : all;
    }
}

void LoopBody::CollectInMemory(const Value& value)
{
    const std::string lane = ir_.Let("and i64 " + index_ + ", " + std::to_string(REPEAT_FLOATS - 1));
    const std::string at = ir_.Let("getelementptr float, ptr " + NameOf("base", value.operand) + ", i64 " + lane);
    const std::string sum = ir_.Let("load " + ir_.VectorOf("float") + ", ptr " + at + ", align 4");
    const std::string all = ir_.Binary(value.opcode, values_[value.first][0], sum);
    ir_.Line("store " + ir_.VectorOf("float") + " " + ir_.Select("%mask", all, sum) + ", ptr " + at + ", align 4");
}

}  // namespace host
}  // namespace AscendC
