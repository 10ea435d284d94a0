// Compares ort_api.h with ONNX Runtime's own header, where the compiler finds that one.
#include "binding/onnx/ort_api.h"

#if __has_include(<onnxruntime_c_api.h>)
#include <onnxruntime_c_api.h>

#include <type_traits>

namespace {

using ms_ascend_ops::ort::Api;
using ms_ascend_ops::ort::CustomOp;

#define SAME_FUNCTION(OURS, THEIRS) static_assert(offsetof(Api, OURS) == offsetof(OrtApi, THEIRS), #THEIRS)
SAME_FUNCTION(CreateStatus, CreateStatus);
SAME_FUNCTION(GetErrorMessage, GetErrorMessage);
SAME_FUNCTION(CreateCustomOpDomain, CreateCustomOpDomain);
SAME_FUNCTION(CustomOpDomainAdd, CustomOpDomain_Add);
SAME_FUNCTION(AddCustomOpDomain, AddCustomOpDomain);
SAME_FUNCTION(GetTensorMutableData, GetTensorMutableData);
SAME_FUNCTION(CreateTensorTypeAndShapeInfo, CreateTensorTypeAndShapeInfo);
SAME_FUNCTION(SetTensorElementType, SetTensorElementType);
SAME_FUNCTION(SetDimensions, SetDimensions);
SAME_FUNCTION(GetTensorElementType, GetTensorElementType);
SAME_FUNCTION(GetDimensionsCount, GetDimensionsCount);
SAME_FUNCTION(GetDimensions, GetDimensions);
SAME_FUNCTION(GetSymbolicDimensions, GetSymbolicDimensions);
SAME_FUNCTION(GetTensorTypeAndShape, GetTensorTypeAndShape);
SAME_FUNCTION(KernelInfoGetAttributeFloat, KernelInfoGetAttribute_float);
SAME_FUNCTION(KernelInfoGetAttributeInt64, KernelInfoGetAttribute_int64);
SAME_FUNCTION(KernelInfoGetAttributeString, KernelInfoGetAttribute_string);
SAME_FUNCTION(KernelContextGetInputCount, KernelContext_GetInputCount);
SAME_FUNCTION(KernelContextGetOutputCount, KernelContext_GetOutputCount);
SAME_FUNCTION(KernelContextGetInput, KernelContext_GetInput);
SAME_FUNCTION(KernelContextGetOutput, KernelContext_GetOutput);
SAME_FUNCTION(ReleaseStatus, ReleaseStatus);
SAME_FUNCTION(ReleaseTensorTypeAndShapeInfo, ReleaseTensorTypeAndShapeInfo);
SAME_FUNCTION(ShapeInferContextGetInputCount, ShapeInferContext_GetInputCount);
SAME_FUNCTION(ShapeInferContextGetInputTypeShape, ShapeInferContext_GetInputTypeShape);
SAME_FUNCTION(ShapeInferContextGetAttribute, ShapeInferContext_GetAttribute);
SAME_FUNCTION(ShapeInferContextSetOutputTypeShape, ShapeInferContext_SetOutputTypeShape);
SAME_FUNCTION(SetSymbolicDimensions, SetSymbolicDimensions);
SAME_FUNCTION(ReadOpAttr, ReadOpAttr);
SAME_FUNCTION(KernelContextParallelFor, KernelContext_ParallelFor);

#define SAME_FIELD(FIELD) static_assert(offsetof(CustomOp, FIELD) == offsetof(OrtCustomOp, FIELD), #FIELD)
SAME_FIELD(version);
SAME_FIELD(CreateKernel);
SAME_FIELD(GetName);
SAME_FIELD(GetExecutionProviderType);
SAME_FIELD(GetInputType);
SAME_FIELD(GetInputTypeCount);
SAME_FIELD(GetOutputType);
SAME_FIELD(GetOutputTypeCount);
SAME_FIELD(KernelCompute);
SAME_FIELD(KernelDestroy);
SAME_FIELD(GetInputCharacteristic);
SAME_FIELD(GetOutputCharacteristic);
SAME_FIELD(GetInputMemoryType);
SAME_FIELD(GetVariadicInputMinArity);
SAME_FIELD(GetVariadicOutputHomogeneity);
SAME_FIELD(CreateKernelV2);
SAME_FIELD(KernelComputeV2);
SAME_FIELD(InferOutputShapeFn);
SAME_FIELD(GetStartVersion);
SAME_FIELD(GetEndVersion);
SAME_FIELD(GetMayInplace);
SAME_FIELD(ReleaseMayInplace);
SAME_FIELD(GetAliasMap);
SAME_FIELD(ReleaseAliasMap);

#define SAME_VALUE(OURS, THEIRS) static_assert(static_cast<int>(ms_ascend_ops::ort::OURS) == (THEIRS), #THEIRS)
SAME_VALUE(FAIL, ORT_FAIL);
SAME_VALUE(INVALID_ARGUMENT, ORT_INVALID_ARGUMENT);
SAME_VALUE(UNDEFINED, ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED);
SAME_VALUE(FLOAT, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
SAME_VALUE(INT8, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8);
SAME_VALUE(INT32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32);
SAME_VALUE(INT64, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64);
SAME_VALUE(FLOAT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16);
SAME_VALUE(BFLOAT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16);
SAME_VALUE(REQUIRED, INPUT_OUTPUT_REQUIRED);
SAME_VALUE(OPTIONAL, INPUT_OUTPUT_OPTIONAL);
SAME_VALUE(DEFAULT_MEMORY, OrtMemTypeDefault);
SAME_VALUE(ATTRIBUTE_INT, ORT_OP_ATTR_INT);
SAME_VALUE(ATTRIBUTE_FLOAT, ORT_OP_ATTR_FLOAT);
SAME_VALUE(ATTRIBUTE_STRING, ORT_OP_ATTR_STRING);

static_assert(ms_ascend_ops::ort::VERSION <= ORT_API_VERSION);
static_assert(offsetof(ms_ascend_ops::ort::ApiBase, GetVersionString) == offsetof(OrtApiBase, GetVersionString));

}  // namespace
#endif
