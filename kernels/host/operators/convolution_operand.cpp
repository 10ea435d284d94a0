#include "operators/convolution_operand.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "operators/element_type.h"
#include "simd/convert.h"

namespace AscendC {
namespace host {
namespace convolutions {

State::State()
{
    OneDnn::Functions().streamCreateOnPool(&stream, OneDnn::Engine(), &pool);
}

char* State::Memory(size_t needed)
{
    if (bytes < needed) {
        std::free(memory);
        bytes = 0;
        memory = static_cast<char*>(std::aligned_alloc(LINE_BYTES, needed));
        if (memory == nullptr) {
            throw std::bad_alloc();
        }
        bytes = needed;
    }
    return memory;
}

const float* AsFloats(const char* from, DataType type, int64_t count, float* buffer)
{
    if (type == DataType::FLOAT32) {
        return reinterpret_cast<const float*>(from);
    }
    const auto length = static_cast<uint32_t>(count);
    Convert(reinterpret_cast<char*>(buffer), ElementType::FLOAT, length, from, ElementOf(type), length, 1, length);
    return buffer;
}

void Elements::Create(int64_t size, DataType type, int primitiveType, bool isResult, size_t& bytes)
{
    size_ = size;
    type_ = type;
    isResult_ = isResult;
    converts_ = primitiveType == F32 && type != DataType::FLOAT32;
    if (converts_) {
        floats_ = bytes;
        bytes += Lines(static_cast<size_t>(size) * sizeof(float));
    }
}

char* Elements::Begin(State& state, void* data)
{
    data_ = static_cast<char*>(data);
    plain_ = converts_ ? state.memory + floats_ : data_;
    if (converts_ && !isResult_) {
        Convert(state);
    }
    return plain_;
}

void Elements::End(State& state) const
{
    if (converts_ && isResult_) {
        Convert(state);
    }
}

void Elements::Convert(State& state) const
{
    constexpr int64_t PIECE = 16384;
    const ElementType type = ElementOf(type_);
    state.pool.ParallelFor(static_cast<int>(std::min<int64_t>((size_ + PIECE - 1) / PIECE, state.pool.ThreadNum())),
                           [&](int index, int count) {
                               const int64_t pieces = (size_ + PIECE - 1) / PIECE;
                               const int64_t begin = pieces * index / count * PIECE;
                               const auto length =
                                   static_cast<uint32_t>(std::min(size_, pieces * (index + 1) / count * PIECE) - begin);
                               char* const floats = plain_ + begin * static_cast<int64_t>(sizeof(float));
                               char* const halves = data_ + begin * SizeOf(type_);
                               if (isResult_) {
                                   host::Convert(halves, type, length, floats, ElementType::FLOAT, length, 1, length);
                               } else {
                                   host::Convert(floats, ElementType::FLOAT, length, halves, type, length, 1, length);
                               }
                           });
}

Ordered::~Ordered()
{
    for (const Memory memory : {given_, inner_}) {
        if (memory != nullptr) {
            OneDnn::Functions().memoryDestroy(memory);
        }
    }
    if (reorder_ != nullptr) {
        OneDnn::Functions().primitiveDestroy(reorder_);
    }
}

bool Ordered::Create(MemoryDesc given, MemoryDesc wanted, bool isResult, size_t& bytes, int scaledDims)
{
    const auto& f = OneDnn::Functions();
    isResult_ = isResult;
    if (given == nullptr || f.memoryCreate(&inner_, wanted, OneDnn::Engine(), nullptr) != 0) {
        return false;
    }
    if (scaledDims == 0 && f.memoryDescEqual(given, wanted) != 0) {
        return true;
    }
    moved_ = bytes;
    bytes += Lines(f.memoryDescSize(wanted));
    Attributes attributes = nullptr;
    if (scaledDims != 0) {
        f.attributesCreate(&attributes);
        f.attributesSetScalesMask(attributes, ARGUMENT_SRC, scaledDims);
    }
    PrimitiveDesc desc = nullptr;
    const bool described = f.memoryCreate(&given_, given, OneDnn::Engine(), nullptr) == 0 &&
                           f.reorderCreate(&desc, isResult ? wanted : given, OneDnn::Engine(),
                                           isResult ? given : wanted, OneDnn::Engine(), attributes) == 0;
    if (attributes != nullptr) {
        f.attributesDestroy(attributes);
    }
    if (!described) {
        return false;
    }
    const bool made = f.primitiveCreate(&reorder_, desc) == 0;
    f.primitiveDescDestroy(desc);
    return made;
}

bool Ordered::Begin(State& state, char* plain, Memory factors) const
{
    const auto& f = OneDnn::Functions();
    if (f.memorySetHandle(inner_, reorder_ == nullptr ? plain : state.memory + moved_) != 0) {
        return false;
    }
    return reorder_ == nullptr ||
           (f.memorySetHandle(given_, plain) == 0 && (isResult_ || Reorder(state, given_, inner_, factors)));
}

bool Ordered::End(State& state) const
{
    return reorder_ == nullptr || !isResult_ || Reorder(state, inner_, given_);
}

bool Ordered::Reorder(State& state, Memory from, Memory to, Memory factors) const
{
    const ExecArgument arguments[] = {
        {ARGUMENT_SRC, from}, {ARGUMENT_DST, to}, {ARGUMENT_SCALES | ARGUMENT_SRC, factors}};
    return OneDnn::Functions().primitiveExecute(reorder_, state.stream, factors == nullptr ? 2 : 3, arguments) == 0;
}

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC
