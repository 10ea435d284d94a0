#include "operators/sparse_product.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "operators/element_type.h"
#include "operators/task_pool.h"
#include "runtime/executor.h"
#include "simd/convert.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace {

// A task has at least so many vectors to multiply, or elements to pack.
constexpr int64_t LEAST_VECTORS = 131072;
constexpr int64_t LEAST_MOVED = 16384;
// A stretch of the dense matrix is packed so if it fits: the L2 cache of many CPUs. Rows lie far apart, where each
// would take a page and a way of the same few sets of a cache.
constexpr int64_t PACKED_BYTES = int64_t{512} << 10;
// With so many values to a row of the dense matrix packing it pays: rows that no value names are packed, too.
constexpr int64_t PACKED_REUSE = 2;
constexpr size_t LINE_FLOATS = 16;

// A thread keeps this memory.
float* Aligned(std::vector<float>& memory, int64_t count)
{
    memory.resize(std::max(memory.size(), static_cast<size_t>(count) + LINE_FLOATS));
    const size_t behind = reinterpret_cast<uintptr_t>(memory.data()) / sizeof(float) % LINE_FLOATS;
    return memory.data() + (LINE_FLOATS - behind) % LINE_FLOATS;
}

int TasksFor(int64_t work, int64_t least)
{
    constexpr int64_t TASKS_PER_THREAD = 4;  // so that threads end at about the same time
    const int64_t threads = TheExecutor().ThreadNum();
    return static_cast<int>(std::clamp<int64_t>(work / least, 1, threads == 1 ? 1 : TASKS_PER_THREAD * threads));
}

// Counts tasks of sums or products of so many values with rows of so many columns.
int TasksForValues(int64_t entries, int64_t cols)
{
    const int64_t lanes = g_vectorUnit->lanes;
    return TasksFor(entries * ((cols + lanes - 1) / lanes), LEAST_VECTORS);
}

// Packs `rows` rows as floats, by all threads.
void Pack(const char* src, ElementType type, int64_t srcStride, int64_t rows, int64_t cols, float* dst,
          int64_t dstStride)
{
    const int tasks = TasksFor(rows * cols, LEAST_MOVED);
    RunTasks(tasks, [&](int task) {
        const int64_t begin = rows * task / tasks;
        const auto lines = static_cast<uint32_t>(rows * (task + 1) / tasks - begin);
        g_vectorUnit->packPanel[static_cast<uint32_t>(type)]({src + begin * srcStride * BytesOf(type),
                                                              dst + begin * dstStride, srcStride, dstStride, lines,
                                                              static_cast<uint32_t>(cols), false});
    });
}

// Makes floats of values, by all threads.
void ConvertValues(const char* src, ElementType type, int64_t count, float* dst)
{
    const int tasks = TasksFor(count, LEAST_MOVED);
    RunTasks(tasks, [&](int task) {
        const int64_t begin = count * task / tasks;
        const auto length = static_cast<uint32_t>(count * (task + 1) / tasks - begin);
        Convert(reinterpret_cast<char*>(dst + begin), ElementType::FLOAT, length, src + begin * BytesOf(type), type,
                length, 1, length);
    });
}

// Returns whether the host answers at all. With the tiles of a chip the order of sums is a chip's; the kernel reports
// errors in the ends of rows.
bool Answers(const SparsePattern& p)
{
    return p.rows != 0 && p.inner != 0 && p.cols != 0 && p.entries != 0 && TheExecutor().Platform().tileBytes != 0 &&
           p.rowEnds[p.rows - 1] == p.entries && p.rowEnds[0] >= 0 && std::is_sorted(p.rowEnds, p.rowEnds + p.rows);
}

// Shares rows out with their values, of which each row counts as one more: `run(begin, end)` gets those of a task.
// Returns false if one of those did.
bool ByRows(const SparsePattern& p, int tasks, const std::function<bool(int64_t, int64_t)>& run)
{
    const auto first = [&](int task) {
        const int64_t steps = (p.rows + p.entries) * task / tasks;
        int64_t least = 0;
        for (int64_t most = p.rows; least < most;) {
            const int64_t row = (least + most) / 2;
            if (p.rowEnds[row] + row < steps) {
                least = row + 1;
            } else {
                most = row;
            }
        }
        return task == tasks ? p.rows : least;
    };
    std::atomic<bool> all{true};
    RunTasks(tasks, [&](int task) {
        if (!run(first(task), first(task + 1))) {
            all = false;
        }
    });
    return all;
}

// Returns false if there is a column that is not a row of the dense matrix, with which nothing is read.
bool Multiply(const SparseProduct& product, const float* values)
{
    const SparsePattern& p = product.pattern;
    static thread_local std::vector<float> packed;
    const int64_t lanes = g_vectorUnit->lanes;
    const ElementType type = ElementOf(p.type);
    const bool packs = p.entries >= PACKED_REUSE * p.inner && !(p.cols == 1 && type == ElementType::FLOAT);
    int64_t vectors = MOST_SPARSE_VECTORS;
    while (packs && vectors > 1 && p.inner * vectors * lanes * int64_t{sizeof(float)} > PACKED_BYTES) {
        vectors /= 2;
    }
    SparseRowsWork work{};
    work.rowEnds = p.rowEnds;
    work.indices = p.indices;
    work.values = values;
    work.yStride = p.cols;
    work.isPacked = packs;
    for (int64_t col = 0; col < p.cols; col += vectors * lanes) {
        const int64_t cols = std::min(vectors * lanes, p.cols - col);
        work.dense = product.dense + col * BytesOf(type);
        work.denseStride = p.cols;
        if (packs) {
            work.denseStride = cols == 1 ? 1 : (cols + lanes - 1) / lanes * lanes;
            float* const floats = Aligned(packed, p.inner * work.denseStride);
            Pack(work.dense, type, p.cols, p.inner, cols, floats, work.denseStride);
            work.dense = reinterpret_cast<const char*>(floats);
        }
        work.inner = col == 0 ? static_cast<uint32_t>(p.inner) : 0;  // checked once
        work.y = product.y + col * BytesOf(type);
        work.cols = static_cast<uint32_t>(cols);
        const bool fits = ByRows(p, TasksForValues(p.entries, cols), [&](int64_t begin, int64_t end) {
            SparseRowsWork part = work;
            part.begin = static_cast<uint64_t>(begin);
            part.end = static_cast<uint64_t>(end);
            return g_vectorUnit->sumSparseRows[static_cast<uint32_t>(type)](part);
        });
        if (!fits) {
            return false;
        }
    }
    return true;
}

}  // namespace

bool MultiplySparse(const SparseProduct& product)
{
    if (!Answers(product.pattern)) {
        return false;
    }
    const auto* values = reinterpret_cast<const float*>(product.values);
    const ElementType type = ElementOf(product.pattern.type);
    if (type != ElementType::FLOAT) {
        static thread_local std::vector<float> floats;
        float* const converted = Aligned(floats, product.pattern.entries);
        ConvertValues(product.values, type, product.pattern.entries, converted);
        values = converted;
    }
    return Multiply(product, values);
}

bool MultiplySampled(const SparseGradient& g)
{
    const SparsePattern& p = g.pattern;
    return Answers(p) && ByRows(p, TasksForValues(p.entries, p.cols), [&](int64_t begin, int64_t end) {
               return g_vectorUnit->multiplySparseRows[static_cast<uint32_t>(ElementOf(p.type))](
                   {p.rowEnds, p.indices, g.dy, g.dense, g.dvalues, p.cols, static_cast<uint64_t>(begin),
                    static_cast<uint64_t>(end), static_cast<uint32_t>(p.inner)});
           });
}

std::string SparseImplementation()
{
    return std::string("rows, ") + VectorUnitName();
}

}  // namespace host
}  // namespace AscendC
