/*!
 * Declares the arguments and the result of a tiling function. It is plain C++: no CANN header and no host-layer header,
 * so that the same tiling runs in the host library, in CANN's op_host and in a test.
 */
#ifndef MS_ASCEND_OPS_INTERFACE_LAUNCH_CONFIG_H
#define MS_ASCEND_OPS_INTERFACE_LAUNCH_CONFIG_H

#include <cstdint>

namespace ms_ascend_ops {

enum class DataType : int32_t { FLOAT16, BFLOAT16, FLOAT32, INT32, INT64, INT8 };

constexpr uint32_t SizeOf(DataType dtype)
{
    switch (dtype) {
        case DataType::FLOAT16:
        case DataType::BFLOAT16:
            return 2;
        case DataType::FLOAT32:
        case DataType::INT32:
            return 4;
        case DataType::INT64:
            return 8;
        case DataType::INT8:
            return 1;
    }
    return 0;
}

constexpr int32_t MAX_TENSORS = 16;  // inputs and outputs of one kernel
constexpr int32_t MAX_RANK = 8;

struct TensorDesc {
    DataType dtype = DataType::FLOAT32;
    int32_t rank = 0;  // negative: an optional input that is absent, whose GM_ADDR is null
    int64_t dims[MAX_RANK] = {};

    bool IsGiven() const { return rank >= 0; }

    // Product of dims[begin, end).
    int64_t Product(int32_t begin, int32_t end) const
    {
        int64_t product = 1;
        for (int32_t i = begin; i < end; ++i) {
            product *= dims[i];
        }
        return product;
    }
    int64_t Size() const { return IsGiven() ? Product(0, rank) : 0; }
    int64_t LastDim() const { return dims[rank - 1]; }
};

// Returns how many positions a window has that moves by `stride` over `padded` elements. `length`: from its first
// element to its last, (size - 1) * dilation + 1.
constexpr int64_t WindowCount(int64_t padded, int64_t length, int64_t stride)
{
    return (padded - length) / stride + 1;
}

// The tensors of a launch begin and end here.
struct LaunchMemory {
    struct Tensor {
        const char* begin;
        const char* end;
    };
    Tensor tensors[MAX_TENSORS];
    int32_t tensorCount = 0;
    uint64_t outputBytes = 0;   // of all outputs
    char* workspace = nullptr;  // the caller's, as large as the launch needs; null: the host layer's
};

// A kernel will run on this machine.
struct Platform {
    uint32_t coreNum = 1;             // vector cores (NPU) or worker threads (host)
    uint32_t ubBytes = 0;             // Unified Buffer one core may use
    uint32_t minBytesPerCore = 4096;  // below this much data a further core costs more than it brings
    // Rows of so many elements at most share an instruction with the padding between them; longer ones are better off
    // alone. No limit on a chip, where beginning an instruction costs more.
    uint32_t maxPaddedRow = UINT32_MAX;
    // A tile of rows should take so much of the Unified Buffer if a row takes no more: data in a cache is read faster.
    // It is 0 on a chip.
    uint32_t tileBytes = 0;
    // A row that moves so many bytes may be shared by cores, which gain more by that than a barrier takes; a piece of
    // it moves so many at least.
    uint32_t minSharedRowBytes = 96 * 1024;
    uint32_t minPieceBytes = 4096;
};

struct LaunchConfig {
    uint32_t blockDim = 1;
    uint64_t workspaceBytes = 0;
    bool coresMeet = true;  // at barriers: they are to run at once. A tiling need not say
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_INTERFACE_LAUNCH_CONFIG_H
