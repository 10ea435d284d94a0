/*!
 * Declares the C API of oneDNN 3, as far as it is used, and finds the library that has it. Of oneDNN 2, which MindSpore
 * 2.7 and 2.8 bring, only the functions for matrices are used: its primitives are made in another way. Convolutions
 * need a library that is built for thread pools of others, as MindSpore's is.
 */
#ifndef ASCENDC_HOST_CUBE_ONEDNN_LIBRARY_H
#define ASCENDC_HOST_CUBE_ONEDNN_LIBRARY_H

#include <cstddef>
#include <cstdint>
#include <functional>
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
using PostOps = struct PostOpsHandle*;

constexpr int MAX_NDIMS = 12;
using Dims = int64_t[MAX_NDIMS];

constexpr int ENGINE_CPU = 1;
constexpr unsigned STREAM_DEFAULT = 1;
enum DataTypeCode : int { BF16 = 2, F32 = 3 };
enum ArgumentCode : int { ARGUMENT_SRC = 1, ARGUMENT_DST = 17, ARGUMENT_WEIGHTS = 33, ARGUMENT_BIAS = 41 };
constexpr int ARGUMENT_SCALES = 4096;  // added to an argument
constexpr int ARGUMENT_DIFF = 128;     // of the gradient with respect to an argument, added to it
enum FormatTag : int { TAG_ANY = 1, TAG_BLOCKS_OF_16 = 78, TAG_BLOCKS_OF_8 = 102 };  // any, aBcd16b, aBcd8b
enum Query : int { QUERY_IMPLEMENTATION = 8, QUERY_SRC = 129, QUERY_WEIGHTS = 131, QUERY_DST = 133 };
constexpr int QUERY_DIFF = 1;  // added to one of the last three
constexpr int FORWARD_INFERENCE = 96;
constexpr int CONVOLUTION_DIRECT = 1;
enum EltwiseCode : int { RELU = 0x20, GELU_TANH = 0x2b, SWISH = 0x2c, CLIP = 0x2e, GELU_ERF = 0x31, HARD_SWISH = 0x34 };

// The library calls this to run `task(i, count)` for every i below `count`: a class of its C++ interface
// (dnnl_threadpool_iface.hpp), so the order of these functions counts.
class ThreadPool {
public:
    virtual int ThreadNum() const = 0;
    virtual bool IsInTask() const = 0;
    virtual void ParallelFor(int count, const std::function<void(int, int)>& task) = 0;
    virtual uint64_t Flags() const { return 0; }  // it returns when all has run
    virtual void Wait() {}
    virtual ~ThreadPool() = default;
};

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
    // This is null with oneDNN 2, as are those that follow.
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
    // These are for convolutions; the last one is null where the library lacks any.
    Status (*memoryDescCreateWithTag)(MemoryDesc*, int, const Dims, int, int);
    int (*memoryDescEqual)(MemoryDesc, MemoryDesc);
    size_t (*memoryDescSize)(MemoryDesc);
    MemoryDesc (*primitiveDescQueryMemory)(PrimitiveDesc, int, int);
    Status (*primitiveDescQuery)(PrimitiveDesc, int, int, void*);
    Status (*attributesCreate)(Attributes*);
    Status (*attributesDestroy)(Attributes);
    Status (*attributesSetPostOps)(Attributes, PostOps);
    Status (*attributesSetScalesMask)(Attributes, int, int);
    Status (*postOpsCreate)(PostOps*);
    Status (*postOpsDestroy)(PostOps);
    Status (*postOpsAppendEltwise)(PostOps, int, float, float);
    Status (*reorderCreate)(PrimitiveDesc*, MemoryDesc, Engine, MemoryDesc, Engine, Attributes);
    Status (*convolutionCreate)(PrimitiveDesc*, Engine, int, int, MemoryDesc, MemoryDesc, MemoryDesc, MemoryDesc,
                                const Dims, const Dims, const Dims, const Dims, Attributes);
    Status (*convolutionBackwardDataCreate)(PrimitiveDesc*, Engine, int, MemoryDesc, MemoryDesc, MemoryDesc, const Dims,
                                            const Dims, const Dims, const Dims, PrimitiveDesc, Attributes);
    Status (*convolutionBackwardWeightsCreate)(PrimitiveDesc*, Engine, int, MemoryDesc, MemoryDesc, MemoryDesc,
                                               MemoryDesc, const Dims, const Dims, const Dims, const Dims,
                                               PrimitiveDesc, Attributes);
    Status (*maxConcurrency)(int*);
    Status (*setMaxConcurrency)(int);
    Status (*streamCreateOnPool)(ExecutionStream*, Engine, ThreadPool*);
};

constexpr const char* LIBRARIES[] = {"libdnnl.so.3", "libdnnl.so.2"};

// Finds the functions of the library that MindSpore brings, or that MS_ASCEND_OPS_ONEDNN names. False: there is none;
// `problem` says why.
bool FindFunctions(Functions& functions, std::string& problem);

}  // namespace onednn
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CUBE_ONEDNN_LIBRARY_H
