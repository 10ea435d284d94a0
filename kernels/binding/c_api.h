/*!
 * Declares the library's plain C interface, which ms_ascend_ops._C calls. It is C because the library and the Python
 * module are built with different std::string ABIs (see aot_extra.h).
 *
 * Functions that can fail return an MsAscendStatus and write a message of at most errorBytes.
 */
#ifndef MS_ASCEND_OPS_BINDING_C_API_H
#define MS_ASCEND_OPS_BINDING_C_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    MS_ASCEND_OK = 0,
    MS_ASCEND_TYPE_ERROR = 1,
    MS_ASCEND_VALUE_ERROR = 2,
    MS_ASCEND_ERROR = 3
} MsAscendStatus;

typedef struct {
    void* data;         // may be null where only shapes and dtypes are inferred
    const char* dtype;  // null: an optional input that is absent
    const int64_t* shape;
    int32_t rank;
} MsAscendTensor;

typedef struct {
    const char* name;
    int32_t kind;  // AttributeKind of op.h
    int64_t integer;
    double real;
    const char* text;
} MsAscendAttribute;

// Attributes that are not given have their default.
typedef struct {
    const char* op;
    const MsAscendTensor* tensors;
    int32_t tensorCount;
    const MsAscendAttribute* attributes;
    int32_t attributeCount;
    char* error;
    size_t errorBytes;
} MsAscendCall;

const char* MsAscendOpsVersion(void);
const char* MsAscendOpsPath(void);
// Says which copy of the vector unit runs: "native", or the level that a portable build chose.
const char* MsAscendOpsVectorUnit(void);
// Names the library that multiplies matrices, "oneDNN 3.10.1" or "plain loops", and its path, or says why there is
// none.
const char* MsAscendOpsProductLibrary(void);
const char* MsAscendOpsProductLibraryPath(void);
// Returns the signatures of all operators as a JSON list.
const char* MsAscendOpsSignatures(void);
uint32_t MsAscendOpsGetThreadNum(void);
void MsAscendOpsSetThreadNum(uint32_t threads);
// Sets the threads of runs in the calling thread; 0: as for all others.
void MsAscendOpsSetThreadNumOfCaller(uint32_t threads);
// Calls, for runs in the calling thread, `task(data, i)` for every i below `count`, on threads of its own, in place of
// the library's. Null: none does. Kernels whose cores wait for each other do not take it.
typedef void (*MsAscendParallelFor)(void* context, void (*task)(void* data, size_t index), void* data, size_t count);
void MsAscendOpsSetParallelForOfCaller(MsAscendParallelFor parallelFor, void* context);
// Returns and sets how many bytes of a core's Unified Buffer tilings may use. Setting 0: all.
uint32_t MsAscendOpsGetUbBytes(void);
void MsAscendOpsSetUbBytes(uint32_t bytes);

// Serves the compiler of loops (host/jit/loop_code.h). `visit` gets the next one: its number, the function's name and
// the IR. With `wait` it returns when there is one. 0: there is none, or MsAscendOpsStopLoops was called.
typedef void (*MsAscendLoopVisitor)(void* context, uint32_t number, const char* name, const char* text);
int32_t MsAscendOpsNextLoop(int32_t wait, MsAscendLoopVisitor visit, void* context);
void MsAscendOpsSetLoop(uint32_t number, void* function);
uint32_t MsAscendOpsPendingLoops(void);
void MsAscendOpsStopLoops(void);
// Sets how much must have been done before a loop is requested, in strips of an instruction.
void MsAscendOpsSetLoopThreshold(uint64_t strips);

// Launches by operator and shape bucket (launch_counts.h), from when counting is switched on. `calls` has one entry for
// each bound of the histogram, and one for longer launches.
typedef void (*MsAscendCountVisitor)(void* context, const char* op, const char* bucket, const uint64_t* calls,
                                     uint64_t nanoseconds, uint64_t bytes, uint64_t failures);
void MsAscendOpsSetCounting(int32_t on);
int32_t MsAscendOpsCountBounds(const uint64_t** nanoseconds);  // returns how many there are
void MsAscendOpsVisitCounts(MsAscendCountVisitor visit, void* context);

// Returns 1 if the kernel of an operator changes this one of its inputs in place, else 0, also where there is no such
// operator.
int32_t MsAscendOpsWrites(const char* op, int32_t input);

// Tensors are inputs, then outputs. Everything is checked before the launch.
MsAscendStatus MsAscendOpsLaunch(const MsAscendCall* call);

// Prepares a kernel with its attributes, for inputs of certain shapes and dtypes: it is checked once, for many runs.
// Tensors are inputs. For every output, in order, `visit` gets its dtype and shape; MsAscendOpsFreePrepared frees it.
typedef struct MsAscendPrepared MsAscendPrepared;
typedef void (*MsAscendOutputVisitor)(void* context, const char* dtype, const int64_t* shape, int32_t rank);
MsAscendStatus MsAscendOpsPrepare(const MsAscendCall* call, MsAscendOutputVisitor visit, void* context,
                                  MsAscendPrepared** prepared);
// Prepares a launch whose outputs are there already. Tensors are inputs, then outputs, all of which are checked. It
// takes the operator "super_kernel", too, whose attribute `kernels` is a list of kernels (super_kernel.h).
MsAscendStatus MsAscendOpsPrepareAll(const MsAscendCall* call, MsAscendPrepared** prepared);
// `data` is that of the inputs, then of the outputs.
MsAscendStatus MsAscendOpsRun(const MsAscendPrepared* prepared, void* const* data, char* error, size_t errorBytes);
void MsAscendOpsFreePrepared(MsAscendPrepared* prepared);

// Tensors are inputs. `visit` gets every field of the tiling, then block_dim and workspace_bytes. A core number is
// that of a chip; it and the UB size are the host's where they are 0.
typedef void (*MsAscendFieldVisitor)(void* context, const char* name, int32_t isReal, int64_t integer, double real);
MsAscendStatus MsAscendOpsTiling(const MsAscendCall* call, uint32_t coreNum, uint32_t ubBytes, uint32_t minBytesPerCore,
                                 MsAscendFieldVisitor visit, void* context);

// Names the library that answers in the place of the kernel on this host; empty: none does. Tensors are inputs.
typedef void (*MsAscendNameVisitor)(void* context, const char* name);
MsAscendStatus MsAscendOpsLibrary(const MsAscendCall* call, MsAscendNameVisitor visit, void* context);

// Runs an entry of the CANN package, by the type of its operator ("MsAscendOpsRmsNorm"), as CANN's runtime launches
// one: with what op_host calculated. `row`: of the operator's combinations of dtypes. Tensors are in the order of the
// entry's parameters: inputs, outputs, once more the inputs that are changed. `workspace` is all of it: what CANN
// keeps for itself lies at its beginning (interface/package.h).
MsAscendStatus MsAscendOpsRunEntry(const char* type, uint32_t row, uint32_t blockDim, uint64_t tilingKey,
                                   const void* tiling, size_t tilingBytes, const MsAscendTensor* tensors, int32_t count,
                                   void* workspace, size_t workspaceBytes, char* error, size_t errorBytes);

#ifdef __cplusplus
}
#endif

#endif  // MS_ASCEND_OPS_BINDING_C_API_H
