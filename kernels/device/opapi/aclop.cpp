/*!
 * Runs CANN's operators by their names of the graph engine (aclopCompileAndExecute), with the descriptions of tensors
 * that they take. Part of libascendcl: nothing is compiled, an execution is a call of the device (protocol/call.h).
 *
 * The call is named "aclop:" and the operator; its values are the counts of inputs and outputs, then for each of these
 * its name (TEXT), TENSOR or NONE, and the bytes of one that is on the host (BLOB) or NONE, then names and values of
 * attributes.
 */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "aclop_names.h"
#include "protocol/call.h"
#include "runtime_api.h"

using ms_ascend_ops::device::CallWriter;
using ms_ascend_ops::device::TensorView;

namespace {

constexpr int SUCCESS = 0;
constexpr int INVALID_PARAM = 100000;
constexpr int OP_NOT_FOUND = 100024;
constexpr int HOST_MEMORY = 1;  // ACL_MEMTYPE_HOST; 2: so small that it is compiled in
constexpr int HOST_COMPILED = 2;

}  // namespace

struct aclDataBuffer {
    void* data;
    size_t bytes;
};

struct aclTensorDesc {
    int32_t dtype;
    int32_t format;
    std::vector<int64_t> shape;
    std::string name;
    int placement;
    std::vector<uint8_t> constant;

    int64_t Elements() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }
};

struct aclopAttr {
    std::vector<std::pair<std::string, std::function<void(CallWriter&)>>> values;

    template <typename T>
    int Set(const char* name, T write)
    {
        values.emplace_back(name, write);
        return SUCCESS;
    }
};

namespace {

size_t ElementBytes(int32_t dtype)
{
    switch (dtype) {
        case 2:
        case 4:
        case 12:
            return 1;  // int8, uint8, bool
        case 1:
        case 6:
        case 7:
        case 27:
            return 2;  // float16, int16, uint16, bfloat16
        case 0:
        case 3:
        case 8:
            return 4;  // float, int32, uint32
        case 9:
        case 10:
        case 11:
        case 16:
            return 8;  // int64, uint64, double, complex64
        case 17:
            return 16;  // complex128
        default:
            return 0;
    }
}

TensorView View(const aclTensorDesc& description, const void* data)
{
    TensorView view;
    view.address = reinterpret_cast<uint64_t>(data);
    view.dtype = description.dtype;
    view.shape = description.shape;
    view.strides.assign(view.shape.size(), 1);
    for (size_t axis = view.shape.size(); axis-- > 1;) {
        view.strides[axis - 1] = view.strides[axis] * view.shape[axis];
    }
    view.storageElements = static_cast<uint64_t>(description.Elements());
    return view;
}

void Write(CallWriter& call, const aclTensorDesc* description, const aclDataBuffer* buffer)
{
    call.String(description == nullptr ? "" : description->name);
    if (description == nullptr || ElementBytes(description->dtype) == 0) {  // an optional one that is absent
        call.None();
        call.None();
        return;
    }
    call.Tensor(View(*description, buffer == nullptr ? nullptr : buffer->data));
    const bool onHost = description->placement == HOST_MEMORY || description->placement == HOST_COMPILED;
    if (!description->constant.empty()) {
        call.Blob(description->constant.data(), description->constant.size());
    } else if (onHost && buffer != nullptr && buffer->data != nullptr) {
        const size_t bytes = static_cast<size_t>(description->Elements()) * ElementBytes(description->dtype);
        call.Blob(buffer->data, std::min(bytes, buffer->bytes));
    } else {
        call.None();
    }
}

// MindSpore does not tell its user what the text of an error is here: it is printed, too, once for an operator.
int RefuseUnknown(const char* type, const void* caller)
{
    static std::mutex mutex;
    static std::set<std::string> told;
    const std::string text = "emulated device: it does not have CANN's operator " + std::string(type) + " (called by " +
                             MsAscendDeviceCallerAt(caller) +
                             "): run this part with ms.set_device(\"CPU\"), take an operator of mindspore.mint, or add "
                             "it to ms_ascend_ops/device/aclnn.txt";
    MsAscendDeviceSetError(text.c_str());
    const std::lock_guard<std::mutex> lock(mutex);
    if (told.insert(type).second) {
        std::fprintf(stderr, "ms_ascend_ops: %s\n", text.c_str());
    }
    return OP_NOT_FOUND;
}

int Execute(const char* type, int inputs, const aclTensorDesc* const* inputDescriptions,
            const aclDataBuffer* const* inputBuffers, int outputs, const aclTensorDesc* const* outputDescriptions,
            aclDataBuffer* const* outputBuffers, const aclopAttr* attributes, void* stream, const void* caller)
{
    if (type == nullptr || inputs < 0 || outputs < 0) {
        MsAscendDeviceSetError("aclopCompileAndExecute: opType is null, or a count is negative");
        return INVALID_PARAM;
    }
    const auto end = std::end(ACLOP_NAMES);
    if (std::find(std::begin(ACLOP_NAMES), end, std::string_view(type)) == end) {
        return RefuseUnknown(type, caller);
    }
    CallWriter call("aclop:" + std::string(type));
    call.Int(inputs);
    call.Int(outputs);
    for (int i = 0; i < inputs; ++i) {
        Write(call, inputDescriptions[i], inputBuffers[i]);
    }
    for (int i = 0; i < outputs; ++i) {
        Write(call, outputDescriptions[i], outputBuffers[i]);
    }
    if (attributes != nullptr) {
        for (const auto& [name, write] : attributes->values) {
            call.String(name);
            write(call);
        }
    }
    return MsAscendDeviceCall(stream, call.Bytes().data(), call.Bytes().size());
}

template <typename T>
std::vector<int64_t> Ints(int count, const T* values)
{
    return std::vector<int64_t>(values, values + count);
}

}  // namespace

#define ACL_API extern "C" __attribute__((visibility("default")))

ACL_API aclDataBuffer* aclCreateDataBuffer(void* data, size_t bytes)
{
    return new aclDataBuffer{data, bytes};
}
ACL_API int aclDestroyDataBuffer(const aclDataBuffer* buffer)
{
    delete buffer;
    return SUCCESS;
}
ACL_API int aclUpdateDataBuffer(aclDataBuffer* buffer, void* data, size_t bytes)
{
    *buffer = {data, bytes};
    return SUCCESS;
}
ACL_API void* aclGetDataBufferAddr(const aclDataBuffer* buffer)
{
    return buffer->data;
}
ACL_API uint32_t aclGetDataBufferSize(const aclDataBuffer* buffer)
{
    return static_cast<uint32_t>(buffer->bytes);
}
ACL_API size_t aclGetDataBufferSizeV2(const aclDataBuffer* buffer)
{
    return buffer->bytes;
}

ACL_API aclTensorDesc* aclCreateTensorDesc(int32_t dtype, int rank, const int64_t* shape, int32_t format)
{
    return new aclTensorDesc{dtype, format, std::vector<int64_t>(shape, shape + std::max(rank, 0)), "", 0, {}};
}
ACL_API void aclDestroyTensorDesc(const aclTensorDesc* description)
{
    delete description;
}
ACL_API int32_t aclGetTensorDescType(const aclTensorDesc* description)
{
    return description->dtype;
}
ACL_API int32_t aclGetTensorDescFormat(const aclTensorDesc* description)
{
    return description->format;
}
ACL_API size_t aclGetTensorDescElementCount(const aclTensorDesc* description)
{
    return static_cast<size_t>(description->Elements());
}
ACL_API size_t aclGetTensorDescSize(const aclTensorDesc* description)
{
    return static_cast<size_t>(description->Elements()) * ElementBytes(description->dtype);
}
ACL_API size_t aclGetTensorDescNumDims(const aclTensorDesc* description)
{
    return description->shape.size();
}
ACL_API int64_t aclGetTensorDescDim(const aclTensorDesc* description, size_t axis)
{
    return axis < description->shape.size() ? description->shape[axis] : -1;
}
ACL_API int aclGetTensorDescDimV2(const aclTensorDesc* description, size_t axis, int64_t* size)
{
    if (axis >= description->shape.size()) {
        MsAscendDeviceSetError("aclGetTensorDescDimV2: the tensor has no such dimension");
        return INVALID_PARAM;
    }
    *size = description->shape[axis];
    return SUCCESS;
}
ACL_API void aclSetTensorDescName(aclTensorDesc* description, const char* name)
{
    description->name = name;
}
ACL_API const char* aclGetTensorDescName(aclTensorDesc* description)
{
    return description->name.c_str();
}
// The storage may have another form than the tensor on an NPU; here they are the same.
ACL_API int aclSetTensorFormat(aclTensorDesc*, int32_t)
{
    return SUCCESS;
}
ACL_API int aclSetTensorShape(aclTensorDesc*, int, const int64_t*)
{
    return SUCCESS;
}
ACL_API int aclSetTensorOriginFormat(aclTensorDesc*, int32_t)
{
    return SUCCESS;
}
ACL_API int aclSetTensorOriginShape(aclTensorDesc*, int, const int64_t*)
{
    return SUCCESS;
}
ACL_API int aclSetTensorPlaceMent(aclTensorDesc* description, int placement)
{
    description->placement = placement;
    return SUCCESS;
}
ACL_API int aclSetTensorConst(aclTensorDesc* description, const void* data, size_t bytes)
{
    const auto* begin = static_cast<const uint8_t*>(data);
    description->constant.assign(begin, begin + bytes);
    return SUCCESS;
}

ACL_API aclopAttr* aclopCreateAttr()
{
    return new aclopAttr;
}
ACL_API void aclopDestroyAttr(const aclopAttr* attributes)
{
    delete attributes;
}
ACL_API int aclopSetAttrBool(aclopAttr* attributes, const char* name, uint8_t value)
{
    return attributes->Set(name, [value](CallWriter& call) { call.Int(value != 0); });
}
ACL_API int aclopSetAttrInt(aclopAttr* attributes, const char* name, int64_t value)
{
    return attributes->Set(name, [value](CallWriter& call) { call.Int(value); });
}
ACL_API int aclopSetAttrDataType(aclopAttr* attributes, const char* name, int32_t value)
{
    return attributes->Set(name, [value](CallWriter& call) { call.Int(value); });
}
ACL_API int aclopSetAttrFloat(aclopAttr* attributes, const char* name, float value)
{
    return attributes->Set(name, [value](CallWriter& call) { call.Real(value); });
}
ACL_API int aclopSetAttrString(aclopAttr* attributes, const char* name, const char* value)
{
    return attributes->Set(name, [text = std::string(value)](CallWriter& call) { call.String(text); });
}
ACL_API int aclopSetAttrListBool(aclopAttr* attributes, const char* name, int count, const uint8_t* values)
{
    return attributes->Set(name, [list = Ints(count, values)](CallWriter& call) { call.Ints(list); });
}
ACL_API int aclopSetAttrListInt(aclopAttr* attributes, const char* name, int count, const int64_t* values)
{
    return attributes->Set(name, [list = Ints(count, values)](CallWriter& call) { call.Ints(list); });
}
ACL_API int aclopSetAttrListDataType(aclopAttr* attributes, const char* name, int count, const int32_t* values)
{
    return attributes->Set(name, [list = Ints(count, values)](CallWriter& call) { call.Ints(list); });
}
ACL_API int aclopSetAttrListFloat(aclopAttr* attributes, const char* name, int count, const float* values)
{
    const std::vector<double> list(values, values + count);
    return attributes->Set(name, [list](CallWriter& call) { call.Reals(list); });
}
// Lists of lists and of texts as one list: the operators of the table have none.
ACL_API int aclopSetAttrListListInt(aclopAttr* attributes, const char* name, int count, const int* counts,
                                    const int64_t* const* values)
{
    std::vector<int64_t> all;
    for (int i = 0; i < count; ++i) {
        all.insert(all.end(), values[i], values[i] + counts[i]);
    }
    return attributes->Set(name, [all](CallWriter& call) { call.Ints(all); });
}
ACL_API int aclopSetAttrListString(aclopAttr* attributes, const char* name, int count, const char** values)
{
    std::string all;
    for (int i = 0; i < count; ++i) {
        all += (i == 0 ? "" : ",") + std::string(values[i]);
    }
    return attributes->Set(name, [all](CallWriter& call) { call.String(all); });
}

ACL_API int aclopSetModelDir(const char*)
{
    return SUCCESS;
}
ACL_API int aclopSetCompileFlag(int)
{
    return SUCCESS;
}
ACL_API int aclopCompile(const char*, int, const aclTensorDesc* const*, int, const aclTensorDesc* const*,
                         const aclopAttr*, int, int, const char*)
{
    return SUCCESS;
}
ACL_API int aclopCompileAndExecute(const char* type, int inputs, const aclTensorDesc* const* inputDescriptions,
                                   const aclDataBuffer* const* inputBuffers, int outputs,
                                   const aclTensorDesc* const* outputDescriptions, aclDataBuffer* const* outputBuffers,
                                   const aclopAttr* attributes, int, int, const char*, void* stream)
{
    return Execute(type, inputs, inputDescriptions, inputBuffers, outputs, outputDescriptions, outputBuffers,
                   attributes, stream, __builtin_return_address(0));
}
ACL_API int aclopCompileAndExecuteV2(const char* type, int inputs, aclTensorDesc** inputDescriptions,
                                     aclDataBuffer** inputBuffers, int outputs, aclTensorDesc** outputDescriptions,
                                     aclDataBuffer** outputBuffers, aclopAttr* attributes, int, int, const char*,
                                     void* stream)
{
    return Execute(type, inputs, inputDescriptions, inputBuffers, outputs, outputDescriptions, outputBuffers,
                   attributes, stream, __builtin_return_address(0));
}
ACL_API int aclopExecuteV2(const char* type, int inputs, aclTensorDesc** inputDescriptions,
                           aclDataBuffer** inputBuffers, int outputs, aclTensorDesc** outputDescriptions,
                           aclDataBuffer** outputBuffers, aclopAttr* attributes, void* stream)
{
    return Execute(type, inputs, inputDescriptions, inputBuffers, outputs, outputDescriptions, outputBuffers,
                   attributes, stream, __builtin_return_address(0));
}
