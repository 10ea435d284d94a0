#include "opapi_function.h"

#include <vector>

#include "nnopbase_api.h"

namespace ms_ascend_ops {
namespace opapi {
namespace {

constexpr aclnnStatus SUCCESS = 0;
constexpr aclnnStatus NULL_POINTER = 161001;
constexpr aclnnStatus INVALID = 161002;
constexpr int32_t FORMAT_ND = 2;

aclnnStatus RefuseNull(const char* name)
{
    NnopbaseOpLogE(NULL_POINTER, name);
    return NULL_POINTER;
}

template <typename FUNCTION>
FUNCTION Api(const char* name)
{
    return reinterpret_cast<FUNCTION>(NnopbaseGetApiFunc(name));
}

// A combination of dtypes, as nnopbase takes it.
struct Row {
    std::vector<TensorDesc> inputs;
    std::vector<TensorDesc> outputs;
};

aclnnStatus AddSupport(const Operator& op, void* executor)
{
    std::vector<Row> rows(op.rowCount);
    std::vector<SupportInfo> infos;
    const int32_t* type = op.types;
    for (Row& row : rows) {
        for (size_t i = 0; i < op.inputCount; ++i) {
            row.inputs.push_back({*type++, FORMAT_ND});
        }
        for (size_t i = 0; i < op.outputCount; ++i) {
            row.outputs.push_back({*type++, FORMAT_ND});
        }
        infos.push_back({row.inputs.data(), op.inputCount, row.outputs.data(), op.outputCount});
    }
    std::vector<OpSocSupportInfo> chips(op.chipCount, {infos.data(), infos.size()});
    OpSupportList list{chips.data(), chips.size()};
    return NnopbaseAddSocNameList(executor, &list, op.chips, op.chipCount);
}

aclnnStatus AddAttribute(void* executor, Attribute attribute, size_t index)
{
    constexpr size_t sizes[] = {sizeof(bool), sizeof(float), sizeof(int64_t)};
    return NnopbaseAddAttrWithDtype(executor, &attribute.integer, sizes[attribute.type], index, attribute.type);
}

// Prepares copies of inputs that are views.
aclnnStatus PrepareCopies(void* executor, uint64_t* bytes)
{
    const aclTensorList* strided = nullptr;
    aclOpExecutor* copies = nullptr;
    *bytes = 0;
    NnopbaseGetUnContiguousTensors(executor, &strided);
    if (strided != nullptr) {
        using Contiguous = aclnnStatus (*)(const aclTensorList*, uint64_t*, aclOpExecutor**);
        const aclnnStatus status = Api<Contiguous>("aclnnContiguousGetWorkspaceSize")(strided, bytes, &copies);
        if (status != SUCCESS) {
            return status;
        }
    }
    return NnopbaseSetUnContExecutor(executor, copies, *bytes);
}

// Back into those of them that are changed.
aclnnStatus PrepareViewCopies(void* executor, uint64_t* bytes)
{
    const aclTensorList* strided = nullptr;
    const aclTensorList* copies = nullptr;
    *bytes = 0;
    const aclnnStatus status = NnopbaseGetRefUnContiguousTensors(executor, &strided, &copies);
    if (status != SUCCESS || strided == nullptr) {
        return status;
    }
    aclOpExecutor* viewCopies = nullptr;
    using ViewCopy = aclnnStatus (*)(const aclTensorList*, const aclTensorList*, uint64_t*, aclOpExecutor**);
    const aclnnStatus prepared = Api<ViewCopy>("aclnnViewCopyGetWorkspaceSize")(copies, strided, bytes, &viewCopies);
    return prepared != SUCCESS ? prepared : NnopbaseSetViewCopyExecutor(executor, viewCopies);
}

}  // namespace

#define RETURN_IF_FAILED(call)                                  \
    if (const aclnnStatus status = (call); status != SUCCESS) { \
        return status;                                          \
    }

aclnnStatus Operator::Prepare(std::initializer_list<const aclTensor*> tensors,
                              std::initializer_list<Attribute> attributes, uint64_t* workspaceSize,
                              aclOpExecutor** executor) const
{
    for (size_t i = 0; i < inputCount + outputCount; ++i) {
        const Parameter& parameter = i < inputCount ? inputs[i] : outputs[i - inputCount];
        if (parameter.required && tensors.begin()[i] == nullptr) {
            return RefuseNull(parameter.name);
        }
    }
    if (workspaceSize == nullptr || executor == nullptr) {
        return RefuseNull(workspaceSize == nullptr ? "workspaceSize" : "executor");
    }
    void* space = nullptr;
    RETURN_IF_FAILED(NnopbaseCreateExecutorSpace(&space));
    std::vector<char> kinds;
    for (size_t i = 0; i < inputCount + outputCount; ++i) {
        kinds.push_back(i >= inputCount || inputs[i].required ? 1 : 0);
    }
    std::vector<char> attributeKinds(attributes.size(), 1);
    void* const made = NnopbaseGetExecutor(space, type, kinds.data(), static_cast<uint32_t>(inputCount),
                                           kinds.data() + inputCount, static_cast<uint32_t>(outputCount),
                                           attributeKinds.data(), static_cast<uint32_t>(attributes.size()));
    *executor = static_cast<aclOpExecutor*>(made);
    for (size_t i = 0; i < outputCount; ++i) {
        if (outputs[i].reference >= 0) {
            RETURN_IF_FAILED(NnopbaseSetRef(made, static_cast<size_t>(outputs[i].reference), i));
        }
    }
    for (size_t i = 0; i < inputCount; ++i) {
        RETURN_IF_FAILED(NnopbaseAddInput(made, tensors.begin()[i], static_cast<uint32_t>(i)));
        RETURN_IF_FAILED(NnopbaseAddParamName(made, static_cast<uint32_t>(i), inputs[i].name, true));
    }
    for (size_t i = 0; i < attributes.size(); ++i) {
        RETURN_IF_FAILED(AddAttribute(made, attributes.begin()[i], i));
    }
    for (size_t i = 0; i < outputCount; ++i) {
        RETURN_IF_FAILED(NnopbaseAddOutput(made, tensors.begin()[inputCount + i], static_cast<uint32_t>(i)));
        RETURN_IF_FAILED(NnopbaseAddParamName(made, static_cast<uint32_t>(i), outputs[i].name, false));
    }
    RETURN_IF_FAILED(AddSupport(*this, made));
    uint64_t copiesBytes = 0;
    RETURN_IF_FAILED(PrepareCopies(made, &copiesBytes));
    RETURN_IF_FAILED(NnopbaseRunForWorkspace(made, workspaceSize));
    uint64_t viewCopiesBytes = 0;
    RETURN_IF_FAILED(PrepareViewCopies(made, &viewCopiesBytes));
    *workspaceSize = (viewCopiesBytes > *workspaceSize ? viewCopiesBytes : *workspaceSize) + copiesBytes;
    return SUCCESS;
}

aclnnStatus Launch(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream)
{
    if (executor == nullptr) {
        return RefuseNull("executor");
    }
    aclOpExecutor* copies = nullptr;
    size_t copiesBytes = 0;
    NnopbaseGetUnContExecutor(executor, &copies, &copiesBytes);
    if (workspaceSize < copiesBytes) {
        return INVALID;
    }
    workspaceSize -= copiesBytes;
    void* const copiesWorkspace = static_cast<char*>(workspace) + workspaceSize;
    using Function = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);
    if (copies != nullptr) {
        RETURN_IF_FAILED(Api<Function>("aclnnContiguous")(copiesWorkspace, copiesBytes, copies, stream));
    }
    aclOpExecutor* viewCopies = nullptr;
    RETURN_IF_FAILED(NnopbaseGetViewCopyExecutor(executor, &viewCopies));
    RETURN_IF_FAILED(NnopbaseRunWithWorkspace(executor, stream, workspace, workspaceSize));
    if (viewCopies != nullptr) {
        RETURN_IF_FAILED(Api<Function>("aclnnViewCopy")(copiesWorkspace, copiesBytes, viewCopies, stream));
    }
    return SUCCESS;
}

}  // namespace opapi
}  // namespace ms_ascend_ops
