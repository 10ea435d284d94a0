#include "checked/products.h"

#include <algorithm>

#include "checked/rules.h"

namespace AscendC {
namespace host {
namespace {

// Atlas A2 has so much for base blocks, of which it works on one while it loads the next.
constexpr uint32_t L0A_BYTES = 64 * 1024;
constexpr uint32_t L0B_BYTES = 64 * 1024;
constexpr uint32_t L0C_BYTES = 128 * 1024;
constexpr uint32_t L1_BYTES = 512 * 1024 - 256;
constexpr uint32_t BIAS_TABLE_BYTES = 1024;
constexpr uint32_t SIDE = 16;  // of a block that the cube multiplies
constexpr uint32_t FLOAT_BYTES = sizeof(float);

uint32_t RoundUp(uint32_t size, uint32_t multiple)
{
    return (size + multiple - 1) / multiple * multiple;
}

void CheckCapacity(const ProductEvent& event)
{
    const MatmulLimits& limits = event.matmul->limits;
    const uint32_t a = limits.baseM * limits.baseK * limits.form.elementBytes;
    const uint32_t b = limits.baseK * limits.baseN * limits.form.elementBytes;
    const uint32_t c = limits.baseM * limits.baseN * FLOAT_BYTES;
    const bool biasFits = !limits.biased || limits.baseN * FLOAT_BYTES <= BIAS_TABLE_BYTES;
    if (2 * a > L0A_BYTES || 2 * b > L0B_BYTES || c > L0C_BYTES || 2 * (a + b) > L1_BYTES || !biasFits) {
        Violation(Rule::MATMUL_CAPACITY, event, "base blocks of %u x %u x %u take %u, %u and %u bytes", limits.baseM,
                  limits.baseN, limits.baseK, a, b, c);
    }
}

// CANN's CPU debug run ends where a float product of one base block has an odd number of fractals of 8 along K.
void CheckBase(const ProductEvent& event)
{
    const MatmulLimits& limits = event.matmul->limits;
    const uint32_t bytes = limits.form.elementBytes;
    const uint32_t step = std::max(SIDE, ONE_BLK_SIZE / bytes);
    if (limits.baseM % SIDE != 0 || limits.baseN % SIDE != 0 || limits.baseK % step != 0 || limits.baseM == 0 ||
        limits.baseN == 0 || limits.baseK == 0) {
        Violation(Rule::MATMUL_BASE, event, "base blocks of %u x %u x %u, K in steps of %u", limits.baseM, limits.baseN,
                  limits.baseK, step);
    }
    if (bytes == FLOAT_BYTES && limits.singleK % SIDE != 0) {
        Violation(Rule::MATMUL_BASE, event, "singleCoreK of floats is %u", limits.singleK);
    }
}

// Holds a parameter of an instruction that CANN makes of a product.
struct Parameter {
    const char* instruction;
    const char* name;
    uint64_t value;
    uint64_t most;
};

void CheckRange(const ProductEvent& event, std::initializer_list<Parameter> parameters)
{
    for (const Parameter& parameter : parameters) {
        if (parameter.value > parameter.most) {
            Violation(Rule::CUBE_RANGE, event, "%s of %s is %lu, at most %lu", parameter.name, parameter.instruction,
                      static_cast<unsigned long>(parameter.value), static_cast<unsigned long>(parameter.most));
        }
    }
}

// Checks an operand on its way to L1 and on to L0A or L0B: it has `rows` x `cols` in memory, of which at most so much
// comes at once.
void CheckOperand(const ProductEvent& event, const char* copy, const Matrix& matrix, uint32_t rows, uint32_t cols)
{
    constexpr uint64_t mostStride = 65535;
    constexpr uint64_t mostDistance = 0x7fffffff;  // counted in 32 bits
    const MatmulForm& form = event.matmul->limits.form;
    const uint32_t fractal = ONE_BLK_SIZE / form.elementBytes;
    const uint32_t height = RoundUp(rows, std::max(SIDE, fractal));
    const auto stride = static_cast<uint64_t>(matrix.stride);
    if (form.rowByRow && stride >= mostStride) {
        CheckRange(event,
                   {{copy, "the way from its first row to its last", (std::max(rows, 1u) - 1) * stride, mostDistance}});
    } else {
        CheckRange(event, {{copy, "srcDValue", stride, mostStride}});
    }
    CheckRange(event, {{copy, "nValue", rows, 16384},
                       {copy, "dValue", cols, 65535},
                       {copy, "dstNzC0Stride", height, 16384},
                       {"LoadData", "l1W", height, 32767},
                       {"LoadData", "channelSize", RoundUp(cols, fractal), 65535}});
}

// `size` along M or N, `depth` along K: how much of an operand L1 takes at once. Several base blocks along M or N come
// only if all of K does.
void CheckOperand(const ProductEvent& event, const char* copy, const Matrix& matrix, uint32_t size, uint32_t depth,
                  uint32_t base, bool isA)
{
    const MatmulLimits& limits = event.matmul->limits;
    const uint32_t most = L1_BYTES / limits.form.elementBytes;
    const uint32_t along = limits.form.wholeLoads ? std::max(base, most / std::max(1u, depth)) : base;
    const uint32_t deep = limits.form.wholeLoads ? std::max(limits.baseK, most / std::max(1u, base)) : limits.baseK;
    const uint32_t sizeAtOnce = std::min(size, along);
    const uint32_t depthAtOnce = std::min(depth, deep);
    if (matrix.transposed == isA) {  // K is what rows in memory go along
        CheckOperand(event, copy, matrix, depthAtOnce, sizeAtOnce);
    } else {
        CheckOperand(event, copy, matrix, sizeAtOnce, depthAtOnce);
    }
}

// CANN's Matmul makes these instructions of a product: DataCopy to L1 (ND2NZ), LoadData, Mmad, Fixpipe (NZ2ND). The
// ranges are those of their pages.
void CheckInstructions(const ProductEvent& event)
{
    const MatmulLimits& limits = event.matmul->limits;
    const Product& product = event.product;
    CheckOperand(event, "the copy of A to L1", product.a, product.m, product.k, limits.baseM, true);
    CheckOperand(event, "the copy of B to L1", product.b, product.n, product.k, limits.baseN, false);
    const uint64_t rows = std::min(product.m, limits.baseM);
    const uint64_t cols = std::min(product.n, limits.baseN);
    CheckRange(event, {{"Mmad", "m", rows, 4095},
                       {"Mmad", "n", cols, 4095},
                       {"Mmad", "k", std::min(product.k, limits.baseK), 4095},
                       {"Fixpipe", "nSize", cols, 4095},
                       {"Fixpipe", "mSize", rows, 8192},
                       {"Fixpipe", "srcStride", RoundUp(limits.baseM, SIDE), 65535},
                       {"Fixpipe", "dstStride", static_cast<uint64_t>(product.c.stride), 0x7fffffff}});
}

void CheckShape(const ProductEvent& event)
{
    const MatmulState& matmul = *event.matmul;
    const MatmulLimits& limits = matmul.limits;
    const Product& product = event.product;
    if (product.m > limits.singleM || product.n > limits.singleN || product.k > limits.singleK) {
        Violation(Rule::MATMUL_SHAPE, event, "%u x %u x %u, the tiling has %u x %u x %u", product.m, product.n,
                  product.k, limits.singleM, limits.singleN, limits.singleK);
    }
    const auto fits = [](const Matrix& matrix, uint32_t rows, uint32_t cols) {
        return static_cast<int64_t>(matrix.transposed ? rows : cols) <= matrix.stride;
    };
    if (!fits(product.a, product.m, product.k) || !fits(product.b, product.k, product.n) ||
        !fits(product.c, product.m, product.n)) {
        Violation(Rule::MATMUL_STRIDE, event, "%u x %u x %u with rows of %ld, %ld and %ld elements", product.m,
                  product.n, product.k, static_cast<long>(product.a.stride), static_cast<long>(product.b.stride),
                  static_cast<long>(product.c.stride));
    }
    if (matmul.transposed) {
        Violation(Rule::MATMUL_TRANSPOSE, event, "ISTRANS of its MatmulType is false");
    }
    if (product.bias != nullptr && !limits.biased) {
        Violation(Rule::MATMUL_BIAS, event, "isBias of the tiling is 0");
    }
}

}  // namespace

void CheckProduct(const ProductEvent& event)
{
    const MatmulState& matmul = *event.matmul;
    if (!matmul.limits.initialised) {
        Violation(Rule::MATMUL_INIT, event, "the object has no tiling");
    }
    if (event.call == ProductCall::INIT) {
        CheckCapacity(event);
        CheckBase(event);
        return;
    }
    if (event.call == ProductCall::WAIT) {
        if (matmul.waits == 0) {
            Violation(Rule::MATMUL_WAIT, event, "no product of this object is to be waited for");
        }
        return;
    }
    if ((event.call == ProductCall::GET_TENSOR_C) != (matmul.blocks == 1)) {
        Violation(Rule::MATMUL_BLOCK, event,
                  matmul.blocks == 0 ? "Iterate has found none" : "the one of the last Iterate was not taken");
    }
    if (event.call == ProductCall::END) {
        return;
    }
    CheckShape(event);
    CheckInstructions(event);
}

}  // namespace host
}  // namespace AscendC
