#include "operators/packed_product.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "operators/element_type.h"
#include "operators/task_pool.h"
#include "runtime/default_arithmetic.h"
#include "runtime/executor.h"
#include "simd/convert.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace packed {
namespace {

constexpr uint32_t COLUMNS_OF_TASK = 16;        // at least, and a multiple of these
constexpr uint64_t PRODUCTS_OF_TASK = 1 << 17;  // some microseconds
constexpr uint32_t ROWS_OF_CALLER = 8;          // rows that the calling thread rounds
constexpr uint32_t TASKS_OF_THREAD = 4;         // of many rows, so that threads end together

// The calling thread keeps this memory from call to call.
struct Memory {
    std::vector<int8_t> integers;
    std::vector<float> scale;
    std::vector<float> sums;
    std::vector<int32_t> shifts;
    std::vector<float> x;
    std::vector<float> y;
};

bool Fits(const PackedOperator& op, PackedProduct& product)
{
    const int64_t m = op.x.Product(0, op.x.rank - 1);
    const int64_t k = op.x.LastDim();
    const int64_t n = op.weight.dims[0] / op.parts;
    const int64_t groups = op.scale.dims[1];
    if (TheExecutor().Platform().tileBytes == 0 || m == 0 || n == 0 ||
        k / groups % RoundedRows::NUMBERS_OF_CHUNK != 0 || (!op.isRounded && m > RoundedRows::MOST_FLOAT_ROWS)) {
        return false;
    }
    const auto group = static_cast<uint32_t>(k / groups);
    const bool isAlone = m == 1 && (group == 16 || group == 32 || group == 64);
    product.x.m = static_cast<uint32_t>(m);
    product.x.k = static_cast<uint32_t>(k);
    product.x.group = group;
    product.x.groups = static_cast<uint32_t>(groups);
    product.x.perByte = static_cast<uint32_t>(k / op.weight.dims[1]);
    product.x.inBlocks = op.isRounded && g_vectorUnit->takesBlocks && !isAlone;
    product.n = static_cast<uint32_t>(n);
    product.parts = op.parts;
    return true;
}

float Activated(uint32_t activation, float z)
{
    constexpr float SQRT_HALF = 0.70710678f;
    constexpr float TWICE_SQRT_2_OVER_PI = 1.5957691f;
    switch (activation) {
        case 1:
            return z < 0.0f ? 0.0f : z;
        case 2:
            return 0.5f * z * std::erfc(-z * SQRT_HALF);
        case 3:
            return z / (1.0f + std::exp(-TWICE_SQRT_2_OVER_PI * (z + 0.044715f * z * z * z)));
        default:
            return z / (1.0f + std::exp(-z));
    }
}

// Calls `task(begin, end)` for parts of `count` of `step` each, but the last, on `tasks` cores.
template <typename TASK>
void InParallel(uint32_t count, uint32_t step, uint64_t tasks, TASK&& task)
{
    const uint64_t steps = (count + step - 1) / step;
    const uint64_t parts = std::min(tasks, steps);
    RunTasks(static_cast<int>(parts), [&](int index) {
        const auto part = static_cast<uint64_t>(index);
        const auto begin = static_cast<uint32_t>(steps * part / parts * step);
        const auto end = static_cast<uint32_t>(std::min<uint64_t>(count, steps * (part + 1) / parts * step));
        task(begin, end);
    });
}

}  // namespace
}  // namespace packed

bool MultiplyPacked(const PackedOperator& op, void* const* tensors)
{
    using namespace packed;
    PackedProduct product{};
    if (!Fits(op, product)) {
        return false;
    }
    const DefaultArithmetic arithmetic;
    static thread_local Memory memory;
    RoundedRows& x = product.x;
    const uint64_t rows = uint64_t{x.m + x.BlockRows() - 1} / x.BlockRows() * x.BlockRows();
    const auto place = [](auto& values, uint64_t count) {
        values.resize(std::max<size_t>(values.size(), count));
        return values.data();
    };
    if (op.isRounded) {
        x.integers = place(memory.integers, rows * x.k);
        x.scale = place(memory.scale, rows * x.groups);
        x.shifts = place(memory.shifts, rows * x.groups);
    }
    x.sums = place(memory.sums, rows * x.groups);
    product.weight = static_cast<const int8_t*>(tensors[1]);
    product.scale = tensors[2];
    product.offset = op.hasOffset ? tensors[3] : nullptr;
    product.bias = op.hasBias ? static_cast<const float*>(tensors[4]) : nullptr;
    const ElementType type = ElementOf(op.x.dtype);
    const bool isFloat = type == ElementType::FLOAT;
    auto* const floats = isFloat ? static_cast<float*>(tensors[0]) : place(memory.x, uint64_t{x.m} * x.k);
    product.y = isFloat ? static_cast<float*>(tensors[5]) : place(memory.y, uint64_t{x.m} * product.n);
    product.floats = op.isRounded ? nullptr : floats;

    const uint64_t threads = TheExecutor().ThreadNum();
    const uint64_t all = uint64_t{x.m} * product.parts * product.n * x.k;
    const uint64_t worthwhile = std::max<uint64_t>(1, all / PRODUCTS_OF_TASK);
    const bool isMany = x.m > ROWS_OF_CALLER;
    InParallel(x.m, RoundedRows::ROWS_OF_BLOCK, isMany ? std::min(threads, worthwhile) : 1,
               [&](uint32_t begin, uint32_t end) {
                   if (!isFloat) {
                       Convert(reinterpret_cast<char*>(floats + uint64_t{begin} * x.k), ElementType::FLOAT, x.k,
                               static_cast<const char*>(tensors[0]) + uint64_t{begin} * x.k * BytesOf(type), type, x.k,
                               end - begin, x.k);
                   }
                   g_vectorUnit->roundRows(x, floats, begin, end);
               });
    const uint64_t tasks = isMany && threads > 1 ? TASKS_OF_THREAD * threads : threads;
    const auto multiply = g_vectorUnit->multiplyPacked[static_cast<uint32_t>(ElementOf(op.scale.dtype))];
    InParallel(product.n, COLUMNS_OF_TASK, std::min(tasks, worthwhile), [&](uint32_t begin, uint32_t end) {
        multiply(product, begin, end);
        for (uint32_t row = 0; row < x.m && op.activation != 0; ++row) {
            float* const y = product.y + uint64_t{row} * product.n;
            std::transform(y + begin, y + end, y + begin, [&](float z) { return Activated(op.activation, z); });
        }
        if (!isFloat) {
            Convert(static_cast<char*>(tensors[5]) + begin * BytesOf(type), type, product.n,
                    reinterpret_cast<char*>(product.y + begin), ElementType::FLOAT, product.n, x.m, end - begin);
        }
    });
    return true;
}

std::string PackedImplementation(const PackedOperator& op)
{
    PackedProduct product{};
    return packed::Fits(op, product) ? (op.isRounded ? "integers of " : "floats of ") + std::string(g_vectorUnit->name)
                                     : "";
}

}  // namespace host
}  // namespace AscendC
