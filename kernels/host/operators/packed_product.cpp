#include "operators/packed_product.h"

#include <algorithm>
#include <vector>

#include "operators/task_pool.h"
#include "runtime/default_arithmetic.h"
#include "runtime/executor.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace packed {
namespace {

using ms_ascend_ops::DataType;

constexpr uint32_t COLUMNS_OF_TASK = 16;        // at least, and a multiple of these
constexpr uint64_t PRODUCTS_OF_TASK = 1 << 17;  // some microseconds
constexpr uint32_t ROWS_OF_CALLER = 8;          // that the calling thread rounds
constexpr uint32_t TASKS_OF_THREAD = 4;         // of many rows, so that threads end together

// The calling thread keeps this memory from call to call.
struct Memory {
    std::vector<int8_t> integers;
    std::vector<float> scale;
    std::vector<float> sums;
    std::vector<int32_t> shifts;
};

bool Fits(const PackedOperator& op, PackedProduct& product)
{
    const int64_t m = op.x.Product(0, op.x.rank - 1);
    const int64_t k = op.x.LastDim();
    const int64_t n = op.weight.dims[0] / op.parts;
    const int64_t groups = op.scale.dims[1];
    const int64_t perByte = k / op.weight.dims[1];
    const bool half = op.scale.dtype == DataType::FLOAT16;
    if (g_vectorUnit->multiplyPacked == nullptr || TheExecutor().Platform().tileBytes == 0 || m == 0 || n == 0 ||
        op.x.dtype != DataType::FLOAT32 || (!half && op.scale.dtype != DataType::FLOAT32) ||
        k / groups % RoundedRows::NUMBERS_OF_UNIT != 0 || (perByte == 1 && !g_vectorUnit->multipliesPackedBytes)) {
        return false;
    }
    const auto group = static_cast<uint32_t>(k / groups);
    const bool isAlone = m == 1 && (group == 16 || group == 32 || group == 64);
    product.x = {static_cast<uint32_t>(m),
                 static_cast<uint32_t>(k),
                 group,
                 static_cast<uint32_t>(groups),
                 static_cast<uint32_t>(perByte),
                 !isAlone,
                 nullptr,
                 nullptr,
                 nullptr,
                 nullptr};
    product.n = static_cast<uint32_t>(n);
    product.parts = op.parts;
    product.halfFactors = half;
    return true;
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

bool MultiplyRounded(const PackedOperator& op, void* const* tensors)
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
    x.integers = place(memory.integers, rows * x.k);
    x.scale = place(memory.scale, rows * x.groups);
    x.sums = place(memory.sums, rows * x.groups);
    x.shifts = place(memory.shifts, rows * x.groups);
    product.weight = static_cast<const int8_t*>(tensors[1]);
    product.scale = tensors[2];
    product.offset = op.hasOffset ? tensors[3] : nullptr;
    product.bias = op.hasBias ? static_cast<const float*>(tensors[4]) : nullptr;
    product.y = static_cast<float*>(tensors[5]);

    const uint64_t threads = TheExecutor().ThreadNum();
    const uint64_t all = uint64_t{x.m} * product.parts * product.n * x.k;
    const uint64_t worthwhile = std::max<uint64_t>(1, all / PRODUCTS_OF_TASK);
    const bool isMany = x.m > ROWS_OF_CALLER;
    const auto* const floats = static_cast<const float*>(tensors[0]);
    InParallel(x.m, RoundedRows::ROWS_OF_BLOCK, isMany ? std::min(threads, worthwhile) : 1,
               [&](uint32_t begin, uint32_t end) { g_vectorUnit->roundRows(x, floats, begin, end); });
    const uint64_t tasks = isMany && threads > 1 ? TASKS_OF_THREAD * threads : threads;
    InParallel(product.n, COLUMNS_OF_TASK, std::min(tasks, worthwhile),
               [&](uint32_t begin, uint32_t end) { g_vectorUnit->multiplyPacked(product, begin, end); });
    return true;
}

std::string PackedImplementation(const PackedOperator& op)
{
    PackedProduct product{};
    return packed::Fits(op, product) ? std::string("integers of ") + g_vectorUnit->name : "";
}

}  // namespace host
}  // namespace AscendC
