/*!
 * Holds the value graph of a loop: the values that its instructions calculate, in static single assignment form.
 *
 * A value is a vector of elements, as long as the loop goes or as a row of it. It is calculated once; what an
 * instruction stores and another one of the loop reads is the value itself, and memory is not asked. Values that are
 * alike are one. They stand in an order in which they can be calculated; what has an effect, a store or a sum, has its
 * place among them.
 */
#ifndef ASCENDC_HOST_IR_VALUE_GRAPH_H
#define ASCENDC_HOST_IR_VALUE_GRAPH_H

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "ir/instruction.h"

namespace AscendC {
namespace host {

enum class ValueKind : uint8_t {
    LOAD,     // the elements of an operand, as floats
    BLOCK,    // an operand that is one DataBlock, repeated
    COMPUTE,  // `opcode` of one or two values
    ROUND,    // a value rounded to `type`, as a float
    COLUMNS,  // row `first` (or any elements) with columns [at, at + count) from those of row `second`, [from, ...)
    STORE,    // writes `first` to an operand
    COLLECT,  // `opcode` adds the elements of `first` to the 64 lanes of an operand
};

// The bytes of a store are read by no instruction, by one behind the loop, or by the owner of the tensor.
enum class Need : uint8_t { NONE, IN_UB, IN_GM };

// No padding: graphs are compared as bytes.
struct Value {
    static constexpr int16_t NO_VALUE = -1;
    static constexpr uint8_t NO_OPERAND = 255;

    ValueKind kind = ValueKind::LOAD;
    Opcode opcode = Opcode::NONE;
    ElementType type = ElementType::FLOAT;  // of the operand's elements; of ROUND
    uint8_t operand = NO_OPERAND;
    int16_t first = NO_VALUE;
    int16_t second = NO_VALUE;
    uint16_t elements = 0;  // of each row, in a loop over rows
    uint16_t at = 0;
    uint16_t from = 0;
    uint16_t count = 0;
    float scalar = 0.0f;
    Need need = Need::NONE;
    uint8_t unused[3] = {0, 0, 0};

    bool HasEffect() const { return kind == ValueKind::STORE || kind == ValueKind::COLLECT; }
    bool IsSame(const Value& other) const;
};

// Returns the bytes of an element of a type that a loop knows.
constexpr uint32_t SizeOf(ElementType type)
{
    return type == ElementType::FLOAT ? sizeof(float) : sizeof(uint16_t);
}

// Columns of rows are told apart by so many, whole vectors of any CPU.
constexpr uint32_t COLUMNS = 16;

// An operand of a loop over rows has these.
struct LoopRows {
    int64_t stride;  // bytes from a row to the next
    uint32_t whole;  // the operand whose rows it has columns of; it may be that itself
    int32_t column;  // of that, where it begins
};

// An instruction of a loop has its operation by element, and the numbers of its operands among those of the loop.
struct LoopInstruction {
    Operation operation;
    float scalar;
    uint16_t elements;  // of each row
    uint8_t operands[CALLED_OPERANDS];
};

// Makes the graph of instructions, one after the other.
class ValueGraph {
public:
    // `rows`: of each operand, in a loop over rows; else there are none.
    explicit ValueGraph(const std::vector<LoopRows>& rows) : rows_(rows) {}
    void Add(const LoopInstruction& instruction);
    std::vector<Value>& Values() { return values_; }

private:
    // These are COLUMNS of a row, or all elements of a loop that has no rows: the first `count` of a part of a value.
    struct Part {
        int16_t value = Value::NO_VALUE;
        uint16_t from = 0;
        uint16_t count = 0;
    };
    using Place = std::pair<uint32_t, int32_t>;  // a whole row, and the number of COLUMNS in it

    int16_t Append(const Value& value);
    int16_t Read(uint8_t operand, ElementType type, uint16_t elements);
    int16_t Assembled(uint8_t operand, ElementType type, uint16_t elements);
    int16_t Block(uint8_t operand, uint16_t elements);
    void Store(uint8_t operand, ElementType type, uint16_t elements, int16_t value);
    Place PlaceOf(uint8_t operand, uint32_t part) const;

    const std::vector<LoopRows>& rows_;
    std::vector<Value> values_;
    std::map<Place, Part> memory_;  // the values that are known to be there
};

// Leaves out what no store that is needed and no sum depends on, and brings the others into the order in which these
// need them, whatever order the instructions had.
void OrderByNeed(std::vector<Value>& values, const std::vector<LoopRows>& rows);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_IR_VALUE_GRAPH_H
