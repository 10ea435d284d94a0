/*!
 * Declares the vector unit of one instruction set: a table from operations to the functions that carry them out, and
 * the loops of products and sums that are no instructions.
 */
#ifndef ASCENDC_HOST_SIMD_VECTOR_UNIT_H
#define ASCENDC_HOST_SIMD_VECTOR_UNIT_H

#include "ir/instruction.h"

namespace AscendC {
namespace host {

// Describes a product c = a b of matrices, where a has few rows: b is read once, as it lies in memory.
struct FewRowsProduct {
    uint32_t m;
    uint32_t n;
    uint32_t k;
    bool transposed;  // b: n rows of k elements, or k of n
    bool accumulate;  // adds to c
    const char* a;    // m rows of k floats, or bfloat16
    const char* b;
    float* c;
    int64_t aStride;  // elements from a row to the next, as it lies in memory
    int64_t bStride;
    int64_t cStride;
    uint32_t groups;  // cube/product.h
};

// Describes rows [begin, end) of a product of a sparse matrix by rows with some columns of a dense one, in float.
struct SparseRowsWork {
    const int32_t* rowEnds;
    const int32_t* indices;
    const float* values;
    const char* dense;    // its first column of those
    int64_t denseStride;  // elements from a row to the next
    bool isPacked;        // the dense rows are whole vectors of floats, whatever the type of y
    char* y;              // the first column of the result of all rows
    int64_t yStride;
    uint32_t cols;  // at most MOST_SPARSE_VECTORS vectors of the CPU
    uint64_t begin;
    uint64_t end;
    uint32_t inner;  // not 0: indices are checked to be below it
};
constexpr uint32_t MOST_SPARSE_VECTORS = 4;

// The gradient of the values of those rows is made of products of rows of dy and of the dense matrix, all of one type.
struct SparseGradWork {
    const int32_t* rowEnds;
    const int32_t* indices;
    const char* dy;
    const char* dense;
    char* dvalues;
    int64_t cols;
    uint64_t begin;
    uint64_t end;
    uint32_t inner;  // indices are checked to be below it
};

// Sums of products of dy with x for each of `count` kernel elements: `rows` rows of `vectors` vectors and a tail are
// added up. A sum is a vector, or a float if it `folds`.
struct DepthwiseSums {
    const float* x;
    const float* dy;
    int64_t xRow;  // floats from a row to the next
    int64_t dyRow;
    int64_t xStep;  // from a vector to the next
    uint32_t rows;
    uint32_t vectors;
    uint32_t tail;  // elements behind the vectors of a row
    uint32_t count;
    const int64_t* offsets;  // of x, for each kernel element
    float* sums;
    bool folds;
};

// Describes a part of a matrix, `lines` of `length` elements as they lie in memory, that becomes floats: line by line,
// or transposed.
struct Panel {
    const char* src;
    float* dst;
    int64_t srcStride;  // elements from a line to the next
    int64_t dstStride;
    uint32_t lines;
    uint32_t length;
    bool transposes;
};

// A product of 8-bit integers is c = a b^T, or c += a b^T, exact in 32 bits.
struct IntegerProduct {
    uint32_t m;
    uint32_t n;
    uint32_t k;
    bool accumulate;
    const int16_t* a;  // m rows of k, widened
    const int8_t* b;   // n rows of k
    int32_t* c;
    int16_t* scratch;  // 4 k numbers
    int64_t aStride;   // elements from a row to the next
    int64_t bStride;
    int64_t cStride;
};

// Holds rows of x as integers of 8 bits, x = integers * scale by groups. A row lies as it is, or rows in blocks of
// eight: the first 16 integers of all rows of a block come first, those at even places of eight first if bytes of the
// weight hold two numbers.
struct RoundedRows {
    static constexpr uint32_t ROWS_OF_BLOCK = 8;
    static constexpr uint32_t NUMBERS_OF_CHUNK = 16;
    static constexpr uint32_t MOST_FLOAT_ROWS = 4;  // that stay floats

    uint32_t m;
    uint32_t k;
    uint32_t group;
    uint32_t groups;   // of a row
    uint32_t perByte;  // numbers of the weight: 1 or 2
    bool inBlocks;
    int8_t* integers;  // or null: x stays in floats
    float* scale;
    float* sums;      // of a group's integers, times its scale; or of its floats
    int32_t* shifts;  // sums of products with the weight's numbers begin with this

    uint32_t BlockRows() const { return inBlocks ? ROWS_OF_BLOCK : 1; }
    int8_t* Integers(uint32_t row, uint32_t chunk) const
    {
        const uint64_t block = row / BlockRows();
        return integers +
               ((block * (k / NUMBERS_OF_CHUNK) + chunk) * BlockRows() + row % BlockRows()) * NUMBERS_OF_CHUNK;
    }
    template <typename T>
    T* Factor(T* factors, uint32_t row, uint32_t g) const
    {
        return factors + (uint64_t{row / BlockRows()} * groups + g) * BlockRows() + row % BlockRows();
    }
};

// Computes y = x w^T + bias, w = (weight + offset) * scale by groups; of two parts silu(y of the first) * (y of the
// second).
struct PackedProduct {
    RoundedRows x;
    uint32_t n;
    uint32_t parts;
    const float* floats;  // x, if it is not rounded
    const int8_t* weight;
    const void* scale;
    const void* offset;  // or null
    const float* bias;   // or null
    float* y;
};

// Says how a CPU looks results up in tables (lookups.h), if that is worth it: a vector of them by one instruction, or
// one after the other, the numbers of their entries from memory.
enum class LookupMethod : uint8_t { NONE, GATHERED, BY_ELEMENT };

// Runs the iterations [begin, end) of an instruction.
using RunFn = void (*)(const Instruction& self, uint32_t begin, uint32_t end);

// Describes the vector unit of one instruction set; entries are null where Ascend C has no such instruction.
struct VectorUnit {
    const char* name;
    uint32_t lanes;         // floats in a vector of the CPU
    bool convertsHalf;      // with an instruction of the CPU
    bool convertsBFloat16;  // the same; but only compiled loops use it
    // Uses that instruction to round floats that are not stored, too, rather than integer arithmetic: the same bits.
    bool roundsByConverting;
    LookupMethod lookupMethod;            // only compiled loops use them
    RunFn runs[OPCODES][TYPES][LAYOUTS];  // by the type of sources; but casts
    RunFn casts[TYPES][TYPES][2];         // [from][to][0: contiguous, 1: repeat]
    RunFn RunOf(const Operation& operation) const
    {
        const uint32_t from = static_cast<uint32_t>(operation.from);
        const uint32_t layout = static_cast<uint32_t>(operation.layout);
        return operation.opcode != Opcode::CAST ? runs[static_cast<uint32_t>(operation.opcode)][from][layout]
               : layout < 2                     ? casts[from][static_cast<uint32_t>(operation.to)][layout]
                                                : nullptr;
    }
    void (*multiplyFewRows[TYPES])(const FewRowsProduct& product);  // a of floats, by the type of b
    void (*multiplyBFloat16Rows)(const FewRowsProduct& product);    // both of bfloat16; or null
    void (*multiplyIntegers)(const IntegerProduct& product);
    // Rounds rows [begin, end) of x, and makes such columns of y, by the type of scale and offset.
    void (*roundRows)(const RoundedRows& rounded, const float* x, uint32_t begin, uint32_t end);
    bool takesBlocks;  // of rounded rows
    void (*multiplyPacked[TYPES])(const PackedProduct& product, uint32_t begin, uint32_t end);
    void (*packPanel[TYPES])(const Panel& panel);  // by the type of what it is made of
    // The index is the type of the result, and of all that is not packed. They return false if an index is too large,
    // and read nothing.
    bool (*sumSparseRows[TYPES])(const SparseRowsWork& work);
    bool (*multiplySparseRows[TYPES])(const SparseGradWork& work);
    void (*sumDepthwise)(const DepthwiseSums& work);
};

// Returns the best vector unit of this library for this CPU.
const VectorUnit& SelectVectorUnit();
extern const VectorUnit* const g_vectorUnit;

// Names the one that runs: "native", or in a portable build "x86-64-v2", "-v3" or "-v4".
const char* VectorUnitName();

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_VECTOR_UNIT_H
