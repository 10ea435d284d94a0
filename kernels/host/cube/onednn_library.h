/*!
 * The C API of oneDNN 3, as far as it is used, and the library that has it. Of oneDNN 2, which MindSpore 2.7 and 2.8
 * bring, only the functions for matrices are used: its primitives are made in another way.
 */
#ifndef ASCENDC_HOST_CUBE_ONEDNN_LIBRARY_H
#define ASCENDC_HOST_CUBE_ONEDNN_LIBRARY_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace AscendC {
namespace host {
namespace onednn {

using Status = int;  // 0: success
using Engine = struct EngineHandle*;
using ExecutionStream = struct StreamHandle*;
using MemoryDesc = struct MemoryDescHandle*;
using Memory = struct MemoryHandle*;
using Attributes = struct AttributesHandle*;
using PrimitiveDesc = struct PrimitiveDescHandle*;
using PrimitiveHandle = struct PrimitiveObject*;

constexpr int MAX_NDIMS = 12;
using Dims = int64_t[MAX_NDIMS];

constexpr int ENGINE_CPU = 1;
constexpr unsigned STREAM_DEFAULT = 1;
enum DataTypeCode : int { BF16 = 2, F32 = 3 };
enum ArgumentCode : int { ARGUMENT_SRC = 1, ARGUMENT_DST = 17, ARGUMENT_WEIGHTS = 33, ARGUMENT_BIAS = 41 };

struct ExecArgument {
    int argument;
    Memory memory;
};

struct Version {
    int major;
    int minor;
    int patch;
};

struct Functions {
    const Version* (*version)();
    int (*effectiveCpuIsa)();
    Status (*sgemm)(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*, int64_t, float,
                    float*, int64_t);
    Status (*bf16Gemm)(char, char, int64_t, int64_t, int64_t, float, const uint16_t*, int64_t, const uint16_t*, int64_t,
                       float, float*, int64_t);
    Status (*integerGemm)(char, char, char, int64_t, int64_t, int64_t, float, const int8_t*, int64_t, int8_t,
                          const int8_t*, int64_t, int8_t, float, int32_t*, int64_t, const int32_t*);
    // Null with oneDNN 2, as are those that follow.
    Status (*engineCreate)(Engine*, int, size_t);
    Status (*streamCreate)(ExecutionStream*, Engine, unsigned);
    Status (*memoryDescCreate)(MemoryDesc*, int, const Dims, int, const Dims);
    Status (*memoryDescDestroy)(MemoryDesc);
    Status (*memoryCreate)(Memory*, MemoryDesc, Engine, void*);
    Status (*memoryDestroy)(Memory);
    Status (*memorySetHandle)(Memory, void*);
    Status (*matmulCreate)(PrimitiveDesc*, Engine, MemoryDesc, MemoryDesc, MemoryDesc, MemoryDesc, Attributes);
    Status (*primitiveCreate)(PrimitiveHandle*, PrimitiveDesc);
    Status (*primitiveDescDestroy)(PrimitiveDesc);
    Status (*primitiveDestroy)(PrimitiveHandle);
    Status (*primitiveExecute)(PrimitiveHandle, ExecutionStream, int, const ExecArgument*);
};

constexpr const char* LIBRARIES[] = {"libdnnl.so.3", "libdnnl.so.2"};

// The functions of the library that MindSpore brings, or that MS_ASCEND_OPS_ONEDNN names. False: there is none;
// `problem` says why.
bool FindFunctions(Functions& functions, std::string& problem);

}  // namespace onednn
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CUBE_ONEDNN_LIBRARY_H
