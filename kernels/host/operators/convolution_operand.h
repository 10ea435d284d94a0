/*!
 * A primitive reads and writes these: the caller's tensor, converted to floats and reordered where that is needed.
 */
#ifndef ASCENDC_HOST_OPERATORS_CONVOLUTION_OPERAND_H
#define ASCENDC_HOST_OPERATORS_CONVOLUTION_OPERAND_H

#include <cstddef>
#include <cstdint>

#include "operators/convolution_layout.h"
#include "operators/task_pool.h"

namespace AscendC {
namespace host {
namespace convolutions {

using ms_ascend_ops::SizeOf;

constexpr size_t LINE_BYTES = 64;

constexpr size_t Lines(size_t bytes)
{
    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

struct State {
    TaskPool pool;
    ExecutionStream stream = nullptr;
    char* memory = nullptr;
    size_t bytes = 0;

    State();

    char* Memory(size_t needed);
};

// Returns so many elements as floats, in `buffer` if they are others.
const float* AsFloats(const char* from, DataType type, int64_t count, float* buffer);

// Holds a tensor of the caller's. Where a primitive computes with floats, they are made of other elements first.
class Elements {
public:
    void Create(int64_t size, DataType type, int primitiveType, bool isResult, size_t& bytes);
    // Returns where they are.
    char* Begin(State& state, void* data);
    void End(State& state) const;
    char* Plain() const { return plain_; }

private:
    void Convert(State& state) const;

    int64_t size_ = 0;
    DataType type_ = DataType::FLOAT32;
    bool isResult_ = false;
    bool converts_ = false;
    size_t floats_ = 0;  // where they are in the state's memory
    char* data_ = nullptr;
    char* plain_ = nullptr;
};

// Brings the same elements into the order in which a primitive wants them.
class Ordered {
public:
    Ordered() = default;
    Ordered(const Ordered&) = delete;
    ~Ordered();

    // Takes memory behind `bytes` where they move. `scaledDims`: bits of the dims that factors are for, by which floats
    // are multiplied on the way.
    bool Create(MemoryDesc given, MemoryDesc wanted, bool isResult, size_t& bytes, int scaledDims = 0);
    // Called before the primitive runs, and after it.
    bool Begin(State& state, char* plain, Memory factors = nullptr) const;
    bool End(State& state) const;

    bool Moves() const { return reorder_ != nullptr; }
    Memory Inner() const { return inner_; }

private:
    bool Reorder(State& state, Memory from, Memory to, Memory factors = nullptr) const;

    bool isResult_ = false;
    size_t moved_ = 0;  // where they are in the state's memory
    Memory given_ = nullptr;
    Memory inner_ = nullptr;
    PrimitiveHandle reorder_ = nullptr;
};

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OPERATORS_CONVOLUTION_OPERAND_H
