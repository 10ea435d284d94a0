/*!
 * Declares the part of ONNX Runtime's C API that the library of custom operators uses. No package of ONNX Runtime has
 * its headers.
 *
 * Source: include/onnxruntime/core/session/onnxruntime_c_api.h of ONNX Runtime. Its table of functions only ever grows
 * at the end, and the table of version 18 (ONNX Runtime 1.18) is all that is used here, so these are facts of its
 * binary interface: the position of each function, and the fields of OrtCustomOp. ort_api_check.cpp compares them with
 * the real header where a compiler finds one; ONNX Runtime itself says, by GetApi(VERSION), whether it has this
 * version.
 */
#ifndef MS_ASCEND_OPS_BINDING_ONNX_ORT_API_H
#define MS_ASCEND_OPS_BINDING_ONNX_ORT_API_H

#include <cstddef>
#include <cstdint>

namespace ms_ascend_ops::ort {

constexpr uint32_t VERSION = 18;

// These are known by their addresses only.
struct Status;
struct SessionOptions;
struct CustomOpDomain;
struct KernelInfo;
struct KernelContext;
struct ShapeInferContext;
struct TensorTypeAndShapeInfo;
struct Value;
struct OpAttr;

enum ErrorCode : int { FAIL = 1, INVALID_ARGUMENT = 2 };

enum ElementType : int { UNDEFINED = 0, FLOAT = 1, INT8 = 3, INT32 = 6, INT64 = 7, FLOAT16 = 10, BFLOAT16 = 16 };

enum Characteristic : int { REQUIRED = 0, OPTIONAL = 1 };

enum MemoryType : int { DEFAULT_MEMORY = 0 };

enum AttributeType : int { ATTRIBUTE_INT = 1, ATTRIBUTE_FLOAT = 3, ATTRIBUTE_STRING = 5 };

// OrtApi. A function that returns a Status returns null if all went well.
struct Api {
    using Unused = void (*)();

    Status* (*CreateStatus)(ErrorCode code, const char* message);  // 0
    Unused unused1[1];
    const char* (*GetErrorMessage)(const Status* status);  // 2
    Unused unused2[23];
    Status* (*CreateCustomOpDomain)(const char* domain, CustomOpDomain** out);        // 26
    Status* (*CustomOpDomainAdd)(CustomOpDomain* domain, const struct CustomOp* op);  // 27
    Status* (*AddCustomOpDomain)(SessionOptions* options, CustomOpDomain* domain);    // 28
    Unused unused3[22];
    Status* (*GetTensorMutableData)(Value* value, void** out);  // 51
    Unused unused4[5];
    Status* (*CreateTensorTypeAndShapeInfo)(TensorTypeAndShapeInfo** out);                                   // 57
    Status* (*SetTensorElementType)(TensorTypeAndShapeInfo* info, ElementType type);                         // 58
    Status* (*SetDimensions)(TensorTypeAndShapeInfo* info, const int64_t* dims, size_t count);               // 59
    Status* (*GetTensorElementType)(const TensorTypeAndShapeInfo* info, ElementType* out);                   // 60
    Status* (*GetDimensionsCount)(const TensorTypeAndShapeInfo* info, size_t* out);                          // 61
    Status* (*GetDimensions)(const TensorTypeAndShapeInfo* info, int64_t* dims, size_t count);               // 62
    Status* (*GetSymbolicDimensions)(const TensorTypeAndShapeInfo* info, const char** names, size_t count);  // 63
    Unused unused5[1];
    Status* (*GetTensorTypeAndShape)(const Value* value, TensorTypeAndShapeInfo** out);  // 65
    Unused unused6[19];
    Status* (*KernelInfoGetAttributeFloat)(const KernelInfo* info, const char* name, float* out);                // 85
    Status* (*KernelInfoGetAttributeInt64)(const KernelInfo* info, const char* name, int64_t* out);              // 86
    Status* (*KernelInfoGetAttributeString)(const KernelInfo* info, const char* name, char* out, size_t* size);  // 87
    Status* (*KernelContextGetInputCount)(const KernelContext* context, size_t* out);                            // 88
    Status* (*KernelContextGetOutputCount)(const KernelContext* context, size_t* out);                           // 89
    Status* (*KernelContextGetInput)(const KernelContext* context, size_t index, const Value** out);             // 90
    Status* (*KernelContextGetOutput)(KernelContext* context, size_t index, const int64_t* dims, size_t count,
                                      Value** out);  // 91
    Unused unused7[1];
    void (*ReleaseStatus)(Status* status);  // 93
    Unused unused8[5];
    void (*ReleaseTensorTypeAndShapeInfo)(TensorTypeAndShapeInfo* info);  // 99
    Unused unused9[167];
    Status* (*ShapeInferContextGetInputCount)(const ShapeInferContext* context, size_t* out);  // 267
    Status* (*ShapeInferContextGetInputTypeShape)(const ShapeInferContext* context, size_t index,
                                                  TensorTypeAndShapeInfo** out);  // 268
    Status* (*ShapeInferContextGetAttribute)(const ShapeInferContext* context, const char* name,
                                             const OpAttr** out);  // 269
    Status* (*ShapeInferContextSetOutputTypeShape)(const ShapeInferContext* context, size_t index,
                                                   const TensorTypeAndShapeInfo* info);                // 270
    Status* (*SetSymbolicDimensions)(TensorTypeAndShapeInfo* info, const char** names, size_t count);  // 271
    Status* (*ReadOpAttr)(const OpAttr* attribute, AttributeType type, void* data, size_t size,
                          size_t* written);  // 272
    Unused unused10[1];
    Status* (*KernelContextParallelFor)(const KernelContext* context, void (*task)(void* data, size_t index),
                                        size_t count, size_t batches, void* data);  // 274
};

#define MS_ASCEND_OPS_ORT_AT(NAME, POSITION) \
    static_assert(offsetof(Api, NAME) == (POSITION) * sizeof(void*), "its position in OrtApi")
MS_ASCEND_OPS_ORT_AT(CreateStatus, 0);
MS_ASCEND_OPS_ORT_AT(GetErrorMessage, 2);
MS_ASCEND_OPS_ORT_AT(CreateCustomOpDomain, 26);
MS_ASCEND_OPS_ORT_AT(AddCustomOpDomain, 28);
MS_ASCEND_OPS_ORT_AT(GetTensorMutableData, 51);
MS_ASCEND_OPS_ORT_AT(CreateTensorTypeAndShapeInfo, 57);
MS_ASCEND_OPS_ORT_AT(GetSymbolicDimensions, 63);
MS_ASCEND_OPS_ORT_AT(GetTensorTypeAndShape, 65);
MS_ASCEND_OPS_ORT_AT(KernelInfoGetAttributeFloat, 85);
MS_ASCEND_OPS_ORT_AT(KernelContextGetOutput, 91);
MS_ASCEND_OPS_ORT_AT(ReleaseStatus, 93);
MS_ASCEND_OPS_ORT_AT(ReleaseTensorTypeAndShapeInfo, 99);
MS_ASCEND_OPS_ORT_AT(ShapeInferContextGetInputCount, 267);
MS_ASCEND_OPS_ORT_AT(ReadOpAttr, 272);
MS_ASCEND_OPS_ORT_AT(KernelContextParallelFor, 274);
#undef MS_ASCEND_OPS_ORT_AT

struct ApiBase {
    const Api* (*GetApi)(uint32_t version);  // null: this ONNX Runtime has no such version
    const char* (*GetVersionString)();
};

// This is OrtCustomOp of version 18.
struct CustomOp {
    uint32_t version = VERSION;
    void* (*CreateKernel)(const CustomOp* op, const Api* api, const KernelInfo* info) = nullptr;
    const char* (*GetName)(const CustomOp* op) = nullptr;
    const char* (*GetExecutionProviderType)(const CustomOp* op) = nullptr;
    ElementType (*GetInputType)(const CustomOp* op, size_t index) = nullptr;
    size_t (*GetInputTypeCount)(const CustomOp* op) = nullptr;
    ElementType (*GetOutputType)(const CustomOp* op, size_t index) = nullptr;
    size_t (*GetOutputTypeCount)(const CustomOp* op) = nullptr;
    void (*KernelCompute)(void* kernel, KernelContext* context) = nullptr;
    void (*KernelDestroy)(void* kernel) = nullptr;
    Characteristic (*GetInputCharacteristic)(const CustomOp* op, size_t index) = nullptr;
    Characteristic (*GetOutputCharacteristic)(const CustomOp* op, size_t index) = nullptr;
    MemoryType (*GetInputMemoryType)(const CustomOp* op, size_t index) = nullptr;
    int (*GetVariadicInputMinArity)(const CustomOp* op) = nullptr;
    int (*GetVariadicInputHomogeneity)(const CustomOp* op) = nullptr;
    int (*GetVariadicOutputMinArity)(const CustomOp* op) = nullptr;
    int (*GetVariadicOutputHomogeneity)(const CustomOp* op) = nullptr;
    Status* (*CreateKernelV2)(const CustomOp* op, const Api* api, const KernelInfo* info, void** kernel) = nullptr;
    Status* (*KernelComputeV2)(void* kernel, KernelContext* context) = nullptr;
    Status* (*InferOutputShapeFn)(const CustomOp* op, ShapeInferContext* context) = nullptr;
    int (*GetStartVersion)(const CustomOp* op) = nullptr;
    int (*GetEndVersion)(const CustomOp* op) = nullptr;
    size_t (*GetMayInplace)(int** inputs, int** outputs) = nullptr;
    void (*ReleaseMayInplace)(int* inputs, int* outputs) = nullptr;
    size_t (*GetAliasMap)(int** inputs, int** outputs) = nullptr;
    void (*ReleaseAliasMap)(int* inputs, int* outputs) = nullptr;
};

}  // namespace ms_ascend_ops::ort

#endif  // MS_ASCEND_OPS_BINDING_ONNX_ORT_API_H
