/*!
 * Declares the functions of CANN's nnopbase that the functions of this library's package call, and their structs.
 */
#ifndef MS_ASCEND_OPS_DEVICE_NNOPBASE_NNOPBASE_API_H
#define MS_ASCEND_OPS_DEVICE_NNOPBASE_NNOPBASE_API_H

#include <cstddef>
#include <cstdint>

struct aclTensor;
struct aclTensorList;
struct aclOpExecutor;
using aclnnStatus = int32_t;

struct TensorDesc {
    int32_t dtype;
    int32_t format;
};
struct SupportInfo {
    TensorDesc* inputsDesc;
    size_t inputsNum;
    TensorDesc* outputsDesc;
    size_t outputsNum;
};
struct OpSocSupportInfo {
    SupportInfo* supportInfo;
    size_t num;
};
struct OpSupportList {
    OpSocSupportInfo* socSupportInfo;
    size_t num;
};

#pragma GCC visibility push(default)

extern "C" {

aclnnStatus NnopbaseCreateExecutorSpace(void** space);
void* NnopbaseGetExecutor(void* space, const char* opType, char* inputsDesc, uint32_t inputNum, char* outputsDesc,
                          uint32_t outputNum, char* attrsDesc, uint32_t attrsNum);
aclnnStatus NnopbaseAddInput(void* executor, const aclTensor* tensor, const uint32_t index);
aclnnStatus NnopbaseAddOutput(void* executor, const aclTensor* tensor, const uint32_t index);
aclnnStatus NnopbaseAddAttrWithDtype(void* executor, void* attrAddr, size_t attrLen, const size_t index,
                                     const int32_t dtype);
aclnnStatus NnopbaseAddParamName(void* executor, const uint32_t index, const char* name, const bool isInput);
aclnnStatus NnopbaseAddSocNameList(void* executor, OpSupportList* list, const char* const* names, size_t count);
aclnnStatus NnopbaseSetRef(void* executor, const size_t inputIrIdx, const size_t outputIrIdx);
aclnnStatus NnopbaseGetUnContiguousTensors(void* executor, const aclTensorList** inTensors);
aclnnStatus NnopbaseSetUnContExecutor(void* executor, aclOpExecutor* inExe, const size_t inWsSize);
aclnnStatus NnopbaseGetUnContExecutor(void* executor, aclOpExecutor** inExe, size_t* inWsSize);
aclnnStatus NnopbaseGetRefUnContiguousTensors(void* executor, const aclTensorList** unContTensors,
                                              const aclTensorList** contTensors);
aclnnStatus NnopbaseSetViewCopyExecutor(void* executor, aclOpExecutor* exe);
aclnnStatus NnopbaseGetViewCopyExecutor(void* executor, aclOpExecutor** exe);
aclnnStatus NnopbaseRunForWorkspace(void* executor, uint64_t* workspaceLen);
aclnnStatus NnopbaseRunWithWorkspace(void* executor, void* stream, void* workspace, uint64_t workspaceSize);
void* NnopbaseGetApiFunc(const char* funcName);

}  // extern "C"

void NnopbaseOpLogE(const aclnnStatus code, const char* const expr);

#pragma GCC visibility pop

#endif  // MS_ASCEND_OPS_DEVICE_NNOPBASE_NNOPBASE_API_H
