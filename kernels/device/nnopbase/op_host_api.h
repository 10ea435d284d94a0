/*!
 * Declares the C interface of an op_host library of the emulated device (libcust_opmaster_rt2.0.so): CANN reads the
 * registry of operators through it, and calls tiling, shape and dtype inference.
 */
#ifndef MS_ASCEND_OPS_DEVICE_NNOPBASE_OP_HOST_API_H
#define MS_ASCEND_OPS_DEVICE_NNOPBASE_OP_HOST_API_H

#include <cstddef>
#include <cstdint>

extern "C" {

struct MsAscendHostTensor {
    int32_t dtype;  // ge::DataType
    int32_t rank;   // negative: an optional input that is absent
    const int64_t* shape;
};

struct MsAscendHostAttribute {
    int64_t integer;  // of an int or bool
    double real;
};

struct MsAscendHostCall {
    const char* type;
    const MsAscendHostTensor* inputs;
    size_t inputCount;
    const MsAscendHostAttribute* attributes;
    size_t attributeCount;
};

struct MsAscendHostChip {
    uint32_t vectorCores;
    uint64_t ubBytes;
};

struct MsAscendHostTiling {
    uint32_t blockDim;
    uint32_t scheduleMode;  // 1: all cores start together
    uint64_t tilingKey;
    uint64_t workspaceBytes;
    uint64_t dataBytes;
    uint8_t data[4096];
};

struct MsAscendHostShape {
    int32_t rank;
    int64_t sizes[8];
};

// Each returns a ge::graphStatus; MsAscendHostReason says why it is not 0. Outputs are those of the registration.
uint32_t MsAscendHostTile(const MsAscendHostCall* call, const MsAscendHostChip* chip, MsAscendHostTiling* tiling);
uint32_t MsAscendHostInferShape(const MsAscendHostCall* call, MsAscendHostShape* shapes);
uint32_t MsAscendHostInferDataType(const MsAscendHostCall* call, int32_t* dtypes);
// Returns the reason why the last call of this thread was refused.
const char* MsAscendHostReason();

// Describes an operator's registration as JSON; null: there is no such operator.
const char* MsAscendHostDescribe(const char* type);

}  // extern "C"

#endif  // MS_ASCEND_OPS_DEVICE_NNOPBASE_OP_HOST_API_H
