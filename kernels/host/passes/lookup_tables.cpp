#include "passes/lookup_tables.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/types.h"
#include "ir/operation.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {

namespace {

constexpr uint32_t ENTRIES = 1u << 16;
// They have 256 KiB each at most, 16 MiB together.
constexpr size_t MAX_TABLES = 64;
constexpr size_t ALIGNMENT = 4096;  // a page

// The key of a value's table is made of its parts, the value itself the last.
std::string KeyOf(const std::vector<Value>& values, const std::vector<int16_t>& parts)
{
    std::vector<int16_t> place(values.size(), Value::NO_VALUE);
    std::string key;
    for (size_t i = 0; i < parts.size(); ++i) {
        Value value = values[parts[i]];
        place[parts[i]] = static_cast<int16_t>(i);
        value.operand = Value::NO_OPERAND;  // wherever the element is
        value.first = value.first == Value::NO_VALUE ? value.first : place[value.first];
        value.second = value.second == Value::NO_VALUE ? value.second : place[value.second];
        key.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    return key;
}

// Holds some elements, and the values that are made of them.
class Sample {
public:
    static constexpr uint32_t SIZE = 2048;

    Sample(const std::vector<Value>& values, const std::vector<int16_t>& parts)
        : values_(values), parts_(parts), elements_(SIZE), rounded_(SIZE), results_(values.size())
    {
        for (const int16_t part : parts) {
            results_[part].assign(SIZE, 1.0f);  // DataBlocks are ones
        }
    }
    // Writes the results of the last part for the elements with these bits and those that follow.
    void Write(uint32_t bits, ElementType type, char* to)
    {
        for (uint32_t i = 0; i < SIZE; ++i) {
            elements_[i] = static_cast<uint16_t>(bits + i);
        }
        for (const int16_t part : parts_) {
            Make(part);
        }
        if (type == ElementType::FLOAT) {
            memcpy(to, At(parts_.back()), SIZE * sizeof(float));
        } else {
            Run(CastOf(ElementType::FLOAT, type), to, {At(parts_.back())});
        }
    }

private:
    char* At(int16_t part) { return reinterpret_cast<char*>(results_[part].data()); }
    void Make(int16_t part)
    {
        const Value& value = values_[part];
        if (value.kind == ValueKind::LOAD) {
            Run(CastOf(value.type, ElementType::FLOAT), At(part), {reinterpret_cast<char*>(elements_.data())});
        } else if (value.kind == ValueKind::ROUND) {
            char* const rounded = reinterpret_cast<char*>(rounded_.data());
            Run(CastOf(ElementType::FLOAT, value.type), rounded, {At(value.first)});
            Run(CastOf(value.type, ElementType::FLOAT), At(part), {rounded});
        } else if (value.kind == ValueKind::COMPUTE && value.opcode == Opcode::AXPY) {
            results_[part] = results_[value.second];
            Run(OperationOn(ElementType::FLOAT, value.opcode), At(part), {At(value.first), At(part)}, value.scalar);
        } else if (value.kind == ValueKind::COMPUTE) {
            std::vector<char*> sources{At(value.first)};
            if (value.second != Value::NO_VALUE) {
                sources.push_back(At(value.second));
            }
            Run(OperationOn(ElementType::FLOAT, value.opcode), At(part), sources, value.scalar);
        }
    }
    static void Run(const Operation& operation, char* to, const std::vector<char*>& sources, float scalar = 0.0f)
    {
        Instruction instruction;
        instruction.operation = operation;
        instruction.iterations = SIZE;
        instruction.scalar = scalar;
        instruction.option = static_cast<uint32_t>(operation.to == operation.from || operation.to == ElementType::FLOAT
                                                       ? RoundMode::CAST_NONE
                                                       : RoundMode::CAST_RINT);
        instruction.operands[0] = {to, SizeOf(operation.to), SizeOf(operation.to)};
        for (char* const source : sources) {
            instruction.operands[++instruction.operandCount] = {source, SizeOf(operation.from), SizeOf(operation.from)};
        }
        instruction.operandCount += 1;
        g_vectorUnit->RunOf(operation)(instruction, 0, SIZE);
    }

    const std::vector<Value>& values_;
    const std::vector<int16_t>& parts_;
    std::vector<uint16_t> elements_;
    std::vector<uint16_t> rounded_;
    std::vector<std::vector<float>> results_;  // by value
};

class TableStore {
public:
    // Never destroyed: threads may still run when the process ends.
    static TableStore& Get()
    {
        static TableStore& store = *new TableStore;
        return store;
    }
    LookupTable Find(const std::vector<Value>& values, const std::vector<int16_t>& parts)
    {
        const std::string key = KeyOf(values, parts);
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto known = tables_.find(key);
        if (known != tables_.end()) {
            return known->second;
        }
        if (tables_.size() == MAX_TABLES) {
            return {};
        }
        LookupTable table;
        table.type = EntryTypeOf(values[parts.back()]);
        const size_t size = SizeOf(table.type);
        char* const entries = static_cast<char*>(std::aligned_alloc(ALIGNMENT, ENTRIES * size + ALIGNMENT));
        Sample sample(values, parts);
        for (uint32_t bits = 0; bits < ENTRIES && entries != nullptr; bits += Sample::SIZE) {
            sample.Write(bits, table.type, entries + bits * size);
        }
        table.entries = entries;
        tables_.emplace(key, table);
        return table;
    }

private:
    std::mutex mutex_;
    std::unordered_map<std::string, LookupTable> tables_;
};

}  // namespace

ElementType EntryTypeOf(const Value& value)
{
    return value.kind == ValueKind::ROUND ? value.type : ElementType::FLOAT;
}

std::vector<int16_t> PartsOf(int16_t value, const std::vector<Value>& values)
{
    std::vector<bool> wanted(values.size(), false);
    wanted[value] = true;
    std::vector<int16_t> parts;
    for (int16_t i = value; i >= 0; --i) {  // a value is behind those that it is of
        for (const int16_t part : {values[i].first, values[i].second}) {
            if (wanted[i] && part != Value::NO_VALUE) {
                wanted[part] = true;
            }
        }
    }
    for (int16_t i = 0; i <= value; ++i) {
        if (wanted[i]) {
            parts.push_back(i);
        }
    }
    return parts;
}

LookupTable TableOf(int16_t value, const std::vector<Value>& values)
{
    return TableStore::Get().Find(values, PartsOf(value, values));
}

}  // namespace host
}  // namespace AscendC
