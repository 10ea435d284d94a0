#include "ir/value_graph.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ir/operation.h"

namespace AscendC {
namespace host {

static_assert(sizeof(Value) == 24, "graphs are compared as bytes: no padding");

namespace {

// These commute but for the payload of NaN.
bool Commutes(Opcode opcode)
{
    return opcode == Opcode::ADD || opcode == Opcode::MUL || opcode == Opcode::AND || opcode == Opcode::OR;
}

// Returns how many COLUMNS a row has, the last ones perhaps not whole.
uint32_t PartsOf(uint16_t elements)
{
    return elements == 0 ? 1 : (elements + COLUMNS - 1) / COLUMNS;
}

uint16_t InPart(uint16_t elements, uint32_t part)
{
    return static_cast<uint16_t>(std::min<uint32_t>(elements - std::min<uint32_t>(elements, part * COLUMNS), COLUMNS));
}

}  // namespace

bool Value::IsSame(const Value& other) const
{
    return memcmp(this, &other, sizeof(Value)) == 0;
}

void ValueGraph::Add(const LoopInstruction& instruction)
{
    const Operation& operation = instruction.operation;
    const uint8_t* const operands = instruction.operands;
    const uint16_t elements = instruction.elements;
    Value value;
    value.kind = ValueKind::COMPUTE;
    value.opcode = operation.opcode;
    value.elements = elements;
    if (operation.layout == Layout::ACCUMULATE) {
        value.kind = ValueKind::COLLECT;
        value.operand = operands[0];
        value.first = Read(operands[1], ElementType::FLOAT, elements);
        values_.push_back(value);
        return;
    }
    if (operation.opcode == Opcode::CAST || operation.opcode == Opcode::COPY) {
        int16_t result = Read(operands[1], operation.from, elements);
        if (operation.to != operation.from && operation.to != ElementType::FLOAT) {
            value.kind = ValueKind::ROUND;
            value.opcode = Opcode::NONE;
            value.type = operation.to;
            value.first = result;
            result = Append(value);
        }
        return Store(operands[0], operation.to, elements, result);
    }
    switch (KindOf(operation.opcode)) {
        case OperationKind::BINARY:
            value.first = operation.layout == Layout::BROADCAST0 ? Block(operands[1], elements)
                                                                 : Read(operands[1], ElementType::FLOAT, elements);
            value.second = operation.layout == Layout::BROADCAST1 ? Block(operands[2], elements)
                                                                  : Read(operands[2], ElementType::FLOAT, elements);
            break;
        case OperationKind::AXPY:
            value.second = Read(operands[2], ElementType::FLOAT, elements);
            [[fallthrough]];
        case OperationKind::SCALAR:
            value.scalar = instruction.scalar;
            [[fallthrough]];
        default:
            value.first = Read(operands[1], ElementType::FLOAT, elements);
    }
    if (Commutes(operation.opcode) && value.first > value.second) {
        std::swap(value.first, value.second);
    }
    Store(operands[0], ElementType::FLOAT, elements, Append(value));
}

// Returns a value like that which is known already, or a new one.
int16_t ValueGraph::Append(const Value& value)
{
    const auto known = std::find_if(values_.begin(), values_.end(), [&](const Value& v) { return v.IsSame(value); });
    if (known != values_.end()) {
        return static_cast<int16_t>(known - values_.begin());
    }
    values_.push_back(value);
    return static_cast<int16_t>(values_.size() - 1);
}

int16_t ValueGraph::Block(uint8_t operand, uint16_t elements)
{
    Value block;
    block.kind = ValueKind::BLOCK;
    block.operand = operand;
    block.elements = elements;
    return Append(block);
}

ValueGraph::Place ValueGraph::PlaceOf(uint8_t operand, uint32_t part) const
{
    if (rows_.empty()) {
        return {operand, 0};
    }
    const LoopRows& rows = rows_[operand];
    return {rows.whole, rows.column / static_cast<int32_t>(COLUMNS) + static_cast<int32_t>(part)};
}

// Returns the elements of an operand: a value that is known to be there, or one that is loaded.
int16_t ValueGraph::Read(uint8_t operand, ElementType type, uint16_t elements)
{
    const Part first = memory_[PlaceOf(operand, 0)];
    bool known = first.value != Value::NO_VALUE && first.from == 0;
    for (uint32_t k = 0; k < PartsOf(elements); ++k) {
        const Part& part = memory_[PlaceOf(operand, k)];
        known = known && part.value == first.value && part.from == k * COLUMNS && part.count >= InPart(elements, k);
    }
    return known ? first.value : Assembled(operand, type, elements);
}

// Loads elements that are not known, and puts the others in their places.
int16_t ValueGraph::Assembled(uint8_t operand, ElementType type, uint16_t elements)
{
    const uint32_t parts = PartsOf(elements);
    int16_t result = Value::NO_VALUE;
    for (uint32_t k = 0; k < parts && result == Value::NO_VALUE; ++k) {
        const Part& part = memory_[PlaceOf(operand, k)];
        if (part.value == Value::NO_VALUE || part.count < InPart(elements, k)) {
            Value load;
            load.type = type;
            load.operand = operand;
            load.elements = elements;
            result = static_cast<int16_t>(values_.size());  // memory may have changed since another load
            values_.push_back(load);
        }
    }
    for (uint32_t k = 0; k < parts;) {
        const Part part = memory_[PlaceOf(operand, k)];
        uint32_t end = k + 1;
        uint16_t count = std::min(part.count, InPart(elements, k));
        const auto goesOn = [&] {
            const Part& next = memory_[PlaceOf(operand, end)];
            return count == (end - k) * COLUMNS && next.value == part.value && next.from == part.from + count;
        };
        while (part.value != Value::NO_VALUE && end < parts && goesOn()) {
            count += std::min(memory_[PlaceOf(operand, end)].count, InPart(elements, end));
            ++end;
        }
        if (part.value != Value::NO_VALUE) {
            Value columns;
            columns.kind = ValueKind::COLUMNS;
            columns.elements = elements;
            columns.first = result;
            columns.second = part.value;
            columns.at = static_cast<uint16_t>(k * COLUMNS);
            columns.from = part.from;
            columns.count = count;
            result = Append(columns);
        }
        k = end;
    }
    for (uint32_t k = 0; k < parts; ++k) {
        Part& part = memory_[PlaceOf(operand, k)];
        if (part.value == Value::NO_VALUE || part.count <= InPart(elements, k)) {
            part = {result, static_cast<uint16_t>(k * COLUMNS), InPart(elements, k)};
        }
    }
    return result;
}

void ValueGraph::Store(uint8_t operand, ElementType type, uint16_t elements, int16_t value)
{
    Value store;
    store.kind = ValueKind::STORE;
    store.type = type;
    store.operand = operand;
    store.first = value;
    store.elements = elements;
    values_.push_back(store);
    for (uint32_t k = 0; k < PartsOf(elements); ++k) {
        Part& part = memory_[PlaceOf(operand, k)];
        const uint16_t count = InPart(elements, k);
        if (part.value == Value::NO_VALUE || part.count <= count) {
            part = {value, static_cast<uint16_t>(k * COLUMNS), count};
            continue;
        }
        // The last columns of longer rows stay.
        Value columns;
        columns.kind = ValueKind::COLUMNS;
        columns.elements = values_[part.value].elements;
        columns.first = part.value;
        columns.second = value;
        columns.at = part.from;
        columns.from = static_cast<uint16_t>(k * COLUMNS);
        columns.count = count;
        part.value = Append(columns);
    }
}

namespace {

class Order {
public:
    Order(const std::vector<Value>& values, const std::vector<LoopRows>& rows)
        : values_(values), rows_(rows), number_(values.size(), Value::NO_VALUE), used_(values.size(), false)
    {
        for (size_t i = values.size(); i-- > 0;) {  // a value is behind those that it is of
            used_[i] = used_[i] || Acts(values[i]);
            for (const int16_t part : {values[i].first, values[i].second}) {
                if (used_[i] && part != Value::NO_VALUE) {
                    used_[part] = true;
                }
            }
        }
    }

    std::vector<Value> Make()
    {
        for (size_t i = 0; i < values_.size(); ++i) {
            const Value& value = values_[i];
            if (Acts(value)) {
                Visit(value.first);
                LoadBefore(static_cast<int16_t>(i));
                Append(static_cast<int16_t>(i));
            }
        }
        return std::move(ordered_);
    }

private:
    // Is it a sum, or a store that is needed?
    static bool Acts(const Value& value)
    {
        return value.kind == ValueKind::COLLECT || (value.kind == ValueKind::STORE && value.need != Need::NONE);
    }
    // Values in front of a store read what it overwrites before: those that anything needs.
    void LoadBefore(int16_t store)
    {
        const auto isOver = [this, store](const Value& load) {
            return load.kind == ValueKind::LOAD && WholeOf(load.operand) == WholeOf(values_[store].operand);
        };
        for (int16_t i = 0; i < store && values_[store].kind == ValueKind::STORE; ++i) {
            if (isOver(values_[i]) && used_[i]) {
                Visit(i);
            }
        }
    }
    uint32_t WholeOf(uint8_t operand) const { return rows_.empty() ? operand : rows_[operand].whole; }
    void Visit(int16_t value)
    {
        if (value == Value::NO_VALUE || number_[value] != Value::NO_VALUE) {
            return;
        }
        Visit(values_[value].first);
        Visit(values_[value].second);
        Append(value);
    }
    void Append(int16_t value)
    {
        number_[value] = static_cast<int16_t>(ordered_.size());
        ordered_.push_back(values_[value]);
        for (int16_t* const part : {&ordered_.back().first, &ordered_.back().second}) {
            *part = *part == Value::NO_VALUE ? *part : number_[*part];
        }
    }

    const std::vector<Value>& values_;
    const std::vector<LoopRows>& rows_;
    std::vector<int16_t> number_;  // of each value, in the order
    std::vector<bool> used_;       // for something that acts
    std::vector<Value> ordered_;
};

}  // namespace

void OrderByNeed(std::vector<Value>& values, const std::vector<LoopRows>& rows)
{
    values = Order(values, rows).Make();
}

}  // namespace host
}  // namespace AscendC
