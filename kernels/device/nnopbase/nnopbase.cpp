/*!
 * Implements the functions of CANN's nnopbase that a libcust_opapi.so calls, as CANN's op_build writes them. Signatures
 * and structs are those that it declares itself in every source.
 */
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "copy_executor.h"
#include "device/runtime_api.h"
#include "nnopbase_api.h"
#include "package_executor.h"

namespace {

namespace dev = ms_ascend_ops::device;
using dev::PackageExecutor;

struct NnopbaseDfxId;

enum AttributeType : int32_t { BOOL, FLOAT, INT, STRING };

PackageExecutor& Of(void* executor)
{
    return *static_cast<PackageExecutor*>(static_cast<aclOpExecutor*>(executor));
}

const char* ChipName(uint32_t number)
{
    switch (number) {
        case 2:
            return "ascend910b";
        case 3:
            return "ascend910_93";
        case 4:
            return "ascend950";
        case 5:
            return "ascend310p";
        default:
            return "a chip that is not emulated";
    }
}

std::vector<int32_t> TypesOf(const TensorDesc* descs, size_t count)
{
    std::vector<int32_t> types;
    for (size_t i = 0; i < count; ++i) {
        types.push_back(descs[i].dtype);
    }
    return types;
}

aclnnStatus SetSupport(void* executor, const OpSupportList& list, const std::vector<std::string>& chips)
{
    std::vector<std::vector<dev::SupportedTypes>> types;
    for (size_t chip = 0; chip < list.num; ++chip) {
        types.emplace_back();
        const OpSocSupportInfo& rows = list.socSupportInfo[chip];
        for (size_t i = 0; i < rows.num; ++i) {
            const SupportInfo& row = rows.supportInfo[i];
            types.back().push_back({TypesOf(row.inputsDesc, row.inputsNum), TypesOf(row.outputsDesc, row.outputsNum)});
        }
    }
    Of(executor).SetSupport(chips, std::move(types));
    return ACLNN_SUCCESS;
}

aclnnStatus NotEmulated(const char* function)
{
    return dev::Refuse(
        ACLNN_ERR_PARAM_INVALID,
        std::string(function) + ": the emulated device has no operators of packages with such arguments");
}

}  // namespace

extern "C" {
aclnnStatus MsAscendContiguousGetWorkspaceSize(const aclTensorList*, uint64_t*, aclOpExecutor**);
aclnnStatus MsAscendContiguous(void*, uint64_t, aclOpExecutor*, void*);
aclnnStatus MsAscendViewCopyGetWorkspaceSize(const aclTensorList*, const aclTensorList*, uint64_t*, aclOpExecutor**);
aclnnStatus MsAscendViewCopy(void*, uint64_t, aclOpExecutor*, void*);
}

#pragma GCC visibility push(default)

// With its name in C++. A check of a generated function failed.
void NnopbaseOpLogE(const aclnnStatus code, const char* const expr)
{
    if (code == ACLNN_ERR_PARAM_NULLPTR) {
        dev::Refuse(code, std::string("an argument of an aclnn function must not be a null pointer: ") + expr);
    }
}

extern "C" {

aclnnStatus NnopbaseCreateExecutorSpace(void** space)
{
    static char all;
    *space = &all;
    return ACLNN_SUCCESS;
}

void* NnopbaseGetExecutor(void*, const char* opType, char*, uint32_t inputNum, char*, uint32_t outputNum, char*,
                          uint32_t attrsNum)
{
    return static_cast<aclOpExecutor*>(new PackageExecutor(opType, inputNum, outputNum, attrsNum));
}

aclnnStatus NnopbaseAddInput(void* executor, const aclTensor* tensor, const uint32_t index)
{
    Of(executor).SetInput(index, tensor, false);
    return ACLNN_SUCCESS;
}
aclnnStatus NnopbaseAddIgnoreContinuesInput(void* executor, const aclTensor* tensor, const uint32_t index)
{
    Of(executor).SetInput(index, tensor, true);
    return ACLNN_SUCCESS;
}
aclnnStatus NnopbaseAddOutput(void* executor, const aclTensor* tensor, const uint32_t index)
{
    Of(executor).SetOutput(index, tensor);
    return ACLNN_SUCCESS;
}
aclnnStatus NnopbaseAddParamName(void* executor, const uint32_t index, const char* name, const bool isInput)
{
    Of(executor).SetName(index, name, isInput);
    return ACLNN_SUCCESS;
}
aclnnStatus NnopbaseSetRef(void* executor, const size_t inputIrIdx, const size_t outputIrIdx)
{
    Of(executor).SetReference(inputIrIdx, outputIrIdx);
    return ACLNN_SUCCESS;
}

aclnnStatus NnopbaseAddAttrWithDtype(void* executor, void* attrAddr, size_t attrLen, const size_t index,
                                     const int32_t dtype)
{
    MsAscendHostAttribute value{};
    if (dtype == FLOAT && attrLen == sizeof(float)) {
        float real;
        std::memcpy(&real, attrAddr, sizeof(real));
        value.real = real;
    } else if ((dtype == INT && attrLen == sizeof(int64_t)) || (dtype == BOOL && attrLen == sizeof(bool))) {
        std::memcpy(&value.integer, attrAddr, attrLen);
    } else {
        return NotEmulated("NnopbaseAddAttrWithDtype");
    }
    Of(executor).SetAttribute(index, value);
    return ACLNN_SUCCESS;
}

aclnnStatus NnopbaseAddSupportList(void* executor, OpSupportList* list, uint32_t* socSupportList, size_t count)
{
    std::vector<std::string> chips;
    for (size_t i = 0; i < count; ++i) {
        chips.emplace_back(ChipName(socSupportList[i]));
    }
    return SetSupport(executor, *list, chips);
}
aclnnStatus NnopbaseAddSocNameList(void* executor, OpSupportList* list, const char* const* socNameList, size_t count)
{
    return SetSupport(executor, *list, {socNameList, socNameList + count});
}

aclnnStatus NnopbaseGetUnContiguousTensors(void* executor, const aclTensorList** inTensors)
{
    *inTensors = Of(executor).Strided();
    return ACLNN_SUCCESS;
}
aclnnStatus NnopbaseSetUnContExecutor(void* executor, aclOpExecutor* inExe, const size_t inWsSize)
{
    Of(executor).SetCopies(static_cast<dev::CopyExecutor*>(inExe), inWsSize);
    return ACLNN_SUCCESS;
}
aclnnStatus NnopbaseGetUnContExecutor(void* executor, aclOpExecutor** inExe, size_t* inWsSize)
{
    *inExe = Of(executor).Copies();
    *inWsSize = Of(executor).CopiesBytes();
    return ACLNN_SUCCESS;
}
aclnnStatus NnopbaseGetRefUnContiguousTensors(void* executor, const aclTensorList** unContTensors,
                                              const aclTensorList** contTensors)
{
    Of(executor).StridedReferences(unContTensors, contTensors);
    return ACLNN_SUCCESS;
}
aclnnStatus NnopbaseSetViewCopyExecutor(void* executor, aclOpExecutor* exe)
{
    Of(executor).SetViewCopies(static_cast<dev::CopyExecutor*>(exe));
    return ACLNN_SUCCESS;
}
aclnnStatus NnopbaseGetViewCopyExecutor(void* executor, aclOpExecutor** exe)
{
    *exe = Of(executor).TakeViewCopies();
    return ACLNN_SUCCESS;
}
aclnnStatus NnopbaseReleaseRefContiguousTensors(void*, const aclTensorList** tensors)
{
    *tensors = nullptr;  // they belong to the executor
    return ACLNN_SUCCESS;
}

void* NnopbaseGetApiFunc(const char* funcName)
{
    const struct {
        const char* name;
        void* function;
    } own[] = {{"aclnnContiguousGetWorkspaceSize", reinterpret_cast<void*>(&MsAscendContiguousGetWorkspaceSize)},
               {"aclnnContiguous", reinterpret_cast<void*>(&MsAscendContiguous)},
               {"aclnnViewCopyGetWorkspaceSize", reinterpret_cast<void*>(&MsAscendViewCopyGetWorkspaceSize)},
               {"aclnnViewCopy", reinterpret_cast<void*>(&MsAscendViewCopy)}};
    for (const auto& function : own) {
        if (std::strcmp(function.name, funcName) == 0) {
            return function.function;
        }
    }
    return dlsym(RTLD_DEFAULT, funcName);
}

// A function of a package that fails here has nothing more to do with its executor.
aclnnStatus NnopbaseRunForWorkspace(void* executor, uint64_t* workspaceLen)
{
    const aclnnStatus status = Of(executor).Prepare(workspaceLen);
    if (status != ACLNN_SUCCESS) {
        delete static_cast<aclOpExecutor*>(executor);
    }
    return status;
}

aclnnStatus NnopbaseRunWithWorkspace(void* executor, void* stream, void* workspace, uint64_t workspaceSize)
{
    if (executor == nullptr) {
        return dev::Refuse(ACLNN_ERR_PARAM_NULLPTR, "the executor of an aclnn function is a null pointer");
    }
    PackageExecutor& launched = Of(executor);
    const aclnnStatus status = launched.Launch(stream, workspace, workspaceSize);
    if (!launched.repeatable) {
        delete &launched;
    }
    return status;
}

const char* NnopbaseGetSocName()
{
    const MsAscendDeviceChip* const chip = MsAscendDeviceGetChip();
    return chip == nullptr ? "" : chip->computeUnit;
}

// These are for CANN's profiler, and for its caches of launches.
uint64_t NnopbaseMsprofSysTime()
{
    return 0;
}
void NnopbaseReportApiInfo(const uint64_t, NnopbaseDfxId&) {}
aclnnStatus NnopbaseAddTilingId(void*, NnopbaseDfxId*)
{
    return ACLNN_SUCCESS;
}
void NnopbaseAddOpTypeId(void*, const uint32_t) {}
aclnnStatus NnopbaseSetFormatMatchMode(void*, const uint32_t)
{
    return ACLNN_SUCCESS;
}
void NnopbaseSetMatchArgsFlag(void*) {}
bool NnopbaseMatchArgs(void*, uint64_t*)
{
    return false;
}
void NnopbaseSetParamCheckMode(void*, const uint32_t) {}

// Arguments that no operator of a package has had so far.
#define NOT_EMULATED(NAME, ...)    \
    aclnnStatus NAME(__VA_ARGS__)  \
    {                              \
        return NotEmulated(#NAME); \
    }
NOT_EMULATED(NnopbaseAddIntArrayInput, void*, const aclIntArray*, uint32_t)
NOT_EMULATED(NnopbaseAddBoolArrayInput, void*, const aclBoolArray*, uint32_t)
NOT_EMULATED(NnopbaseAddFloatArrayInput, void*, const aclFloatArray*, uint32_t)
NOT_EMULATED(NnopbaseAddDynamicInput, void*, const aclTensorList*, uint32_t)
NOT_EMULATED(NnopbaseAddIgnoreContiguousDynamicInput, void*, const aclTensorList*, uint32_t)
NOT_EMULATED(NnopbaseAddDynamicOutput, void*, const aclTensorList*, uint32_t)
NOT_EMULATED(NnopbaseAddIntArrayAttr, void*, const aclIntArray*, size_t)
NOT_EMULATED(NnopbaseAddFloatArrayAttr, void*, const aclFloatArray*, size_t)
NOT_EMULATED(NnopbaseAddBoolArrayAttr, void*, const aclBoolArray*, size_t)
NOT_EMULATED(NnopbaseAddArrayAttrWithDtype, void*, void*, size_t, size_t, size_t, int32_t)
NOT_EMULATED(NnopbaseAddScalarInput, void*, const aclScalar*, uint32_t, int32_t, int32_t)
NOT_EMULATED(NnopbaseAddScalarListInput, void*, const aclScalarList*, uint32_t, int32_t, int32_t)

}  // extern "C"
#pragma GCC visibility pop
