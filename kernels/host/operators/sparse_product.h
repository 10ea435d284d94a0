/*!
 * Multiplies a sparse matrix by rows (CSR) with a dense one, as a whole operator: by loops over its rows instead of the
 * instructions of the kernel, which loads each row that a value names by itself. The kernel is the reference.
 */
#ifndef ASCENDC_HOST_OPERATORS_SPARSE_PRODUCT_H
#define ASCENDC_HOST_OPERATORS_SPARSE_PRODUCT_H

#include <cstdint>
#include <string>

#include "interface/launch_config.h"

namespace AscendC {
namespace host {

struct SparsePattern {
    ms_ascend_ops::DataType type;  // of values, dense and y
    int64_t rows;
    int64_t inner;  // rows of the dense matrix
    int64_t cols;
    int64_t entries;
    const int32_t* rowEnds;
    const int32_t* indices;
};

struct SparseProduct {
    SparsePattern pattern;
    const char* values;
    const char* dense;
    char* y;
};

// Computes the gradient of the values: dy has the shape of y.
struct SparseGradient {
    SparsePattern pattern;
    const char* dy;
    const char* dense;
    char* dvalues;
};

// Runs it. False: the kernel is to answer, as it has the tiles of a chip, or says what is wrong with the pattern.
bool MultiplySparse(const SparseProduct& product);
bool MultiplySampled(const SparseGradient& gradient);
// Returns for example "rows, native", with the name of the vector unit; or nothing where the kernel answers.
std::string SparseImplementation();

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OPERATORS_SPARSE_PRODUCT_H
