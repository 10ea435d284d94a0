#include "meta.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "device/runtime_api.h"

namespace ms_ascend_ops {
namespace device {
namespace {

struct Type {
    int32_t dtype;
    uint32_t bytes;
    const char* name;
};
constexpr std::array<Type, 16> TYPES = {{{0, 4, "float32"},
                                         {1, 2, "float16"},
                                         {2, 1, "int8"},
                                         {3, 4, "int32"},
                                         {4, 1, "uint8"},
                                         {6, 2, "int16"},
                                         {7, 2, "uint16"},
                                         {8, 4, "uint32"},
                                         {9, 8, "int64"},
                                         {10, 8, "uint64"},
                                         {11, 8, "float64"},
                                         {12, 1, "bool"},
                                         {16, 8, "complex64"},
                                         {17, 16, "complex128"},
                                         {27, 2, "bfloat16"},
                                         {33, 4, "complex32"}}};

const Type* Find(int32_t dtype)
{
    const auto found =
        std::find_if(TYPES.begin(), TYPES.end(), [dtype](const Type& type) { return type.dtype == dtype; });
    return found == TYPES.end() ? nullptr : &*found;
}

}  // namespace

uint64_t BytesOfType(int32_t dtype)
{
    const Type* const type = Find(dtype);
    return type == nullptr ? 0 : type->bytes;
}

const char* NameOfType(int32_t dtype)
{
    const Type* const type = Find(dtype);
    return type == nullptr ? "another dtype" : type->name;
}

std::string ToText(const std::vector<int64_t>& shape)
{
    std::string text;
    for (const int64_t size : shape) {
        text += (text.empty() ? "" : ", ") + std::to_string(size);
    }
    return "(" + text + (shape.size() == 1 ? ",)" : ")");
}

aclnnStatus Refuse(aclnnStatus status, const std::string& text)
{
    MsAscendDeviceSetError(text.c_str());
    return status;
}

}  // namespace device
}  // namespace ms_ascend_ops

namespace dev = ms_ascend_ops::device;

bool aclTensor::IsContiguous() const
{
    int64_t expected = 1;
    for (size_t i = shape.size(); i > 0; --i) {
        if (shape[i - 1] != 1 && strides[i - 1] != expected) {
            return IsEmpty();
        }
        expected *= shape[i - 1];
    }
    return true;
}

bool aclTensor::IsEmpty() const
{
    return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

int64_t aclTensor::Elements() const
{
    int64_t count = 1;
    for (const int64_t size : shape) {
        count *= size;
    }
    return count;
}

uint64_t aclTensor::Bytes() const
{
    return static_cast<uint64_t>(Elements()) * dev::BytesOfType(dtype);
}

void* aclTensor::Begin() const
{
    return data == nullptr ? nullptr
                           : static_cast<char*>(data) + offset * static_cast<int64_t>(dev::BytesOfType(dtype));
}

dev::TensorView aclTensor::View() const
{
    dev::TensorView view;
    view.address = reinterpret_cast<uint64_t>(data);
    view.dtype = dtype;
    view.offset = offset;
    view.shape = shape;
    view.strides = strides;
    view.storageElements = 1;
    for (const int64_t size : storage) {
        view.storageElements *= static_cast<uint64_t>(size);
    }
    return view;
}

namespace {

// The caller frees what it gets by delete[].
aclnnStatus GiveSizes(const std::vector<int64_t>* sizes, int64_t** values, uint64_t* count)
{
    if (sizes == nullptr || values == nullptr || count == nullptr) {
        return dev::Refuse(ACLNN_ERR_PARAM_NULLPTR, "a tensor, or where its sizes go, is a null pointer");
    }
    *values = new int64_t[sizes->size()];
    std::copy(sizes->begin(), sizes->end(), *values);
    *count = sizes->size();
    return ACLNN_SUCCESS;
}

template <typename T, typename FROM>
aclnnStatus Give(const void* object, T* target, FROM&& from)
{
    if (object == nullptr || target == nullptr) {
        return dev::Refuse(ACLNN_ERR_PARAM_NULLPTR, "an object of the operator interface is a null pointer");
    }
    *target = static_cast<T>(from());
    return ACLNN_SUCCESS;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum, int32_t dataType,
                          const int64_t* stride, int64_t offset, int32_t format, const int64_t* storageDims,
                          uint64_t storageDimsNum, void* tensorDataAddr)
{
    if (tensor == nullptr || (viewDims == nullptr && viewDimsNum != 0)) {
        return dev::Refuse(ACLNN_ERR_PARAM_NULLPTR, "aclInitTensor: the tensor or its sizes are a null pointer");
    }
    tensor->dtype = dataType;
    tensor->format = format;
    tensor->offset = offset;
    tensor->data = tensorDataAddr;
    tensor->shape.assign(viewDims, viewDims + viewDimsNum);
    tensor->storage = tensor->shape;
    if (storageDims != nullptr) {
        tensor->storage.assign(storageDims, storageDims + storageDimsNum);
    }
    tensor->strides.assign(viewDimsNum, 1);
    if (stride != nullptr) {
        std::copy_n(stride, viewDimsNum, tensor->strides.begin());
    } else {
        for (uint64_t i = viewDimsNum; i > 1; --i) {
            tensor->strides[i - 2] = tensor->strides[i - 1] * tensor->shape[i - 1];
        }
    }
    return ACLNN_SUCCESS;
}

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, int32_t dataType, const int64_t* stride,
                           int64_t offset, int32_t format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData)
{
    auto* const tensor = new aclTensor;
    if (aclInitTensor(tensor, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum,
                      tensorData) != ACLNN_SUCCESS) {
        delete tensor;
        return nullptr;
    }
    return tensor;
}

aclScalar* aclCreateScalar(void* value, int32_t dataType)
{
    const uint64_t bytes = dev::BytesOfType(dataType);
    if (value == nullptr || bytes == 0) {
        dev::Refuse(ACLNN_ERR_PARAM_INVALID, "aclCreateScalar: the value is a null pointer, or its type unknown");
        return nullptr;
    }
    auto* const scalar = new aclScalar;
    scalar->dtype = dataType;
    std::memcpy(scalar->value, value, bytes);
    return scalar;
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size)
{
    return new aclIntArray{{value, value + size}};
}
aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size)
{
    return new aclFloatArray{{value, value + size}};
}
aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size)
{
    return new aclBoolArray{{value, value + size}};
}
aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size)
{
    auto* const list = new aclTensorList;
    for (uint64_t i = 0; i < size; ++i) {
        list->tensors.push_back(const_cast<aclTensor*>(value[i]));
    }
    return list;
}
aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size)
{
    auto* const list = new aclScalarList;
    for (uint64_t i = 0; i < size; ++i) {
        list->scalars.push_back(const_cast<aclScalar*>(value[i]));
    }
    return list;
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor)
{
    delete tensor;
    return ACLNN_SUCCESS;
}
aclnnStatus aclDestroyScalar(const aclScalar* scalar)
{
    delete scalar;
    return ACLNN_SUCCESS;
}
aclnnStatus aclDestroyIntArray(const aclIntArray* array)
{
    delete array;
    return ACLNN_SUCCESS;
}
aclnnStatus aclDestroyFloatArray(const aclFloatArray* array)
{
    delete array;
    return ACLNN_SUCCESS;
}
aclnnStatus aclDestroyBoolArray(const aclBoolArray* array)
{
    delete array;
    return ACLNN_SUCCESS;
}
aclnnStatus aclDestroyTensorList(const aclTensorList* list)
{
    if (list != nullptr) {
        for (const aclTensor* tensor : list->tensors) {
            delete tensor;
        }
    }
    delete list;
    return ACLNN_SUCCESS;
}
aclnnStatus aclDestroyScalarList(const aclScalarList* list)
{
    if (list != nullptr) {
        for (const aclScalar* scalar : list->scalars) {
            delete scalar;
        }
    }
    delete list;
    return ACLNN_SUCCESS;
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum)
{
    return GiveSizes(tensor == nullptr ? nullptr : &tensor->shape, viewDims, viewDimsNum);
}
aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum)
{
    return GiveSizes(tensor == nullptr ? nullptr : &tensor->storage, storageDims, storageDimsNum);
}
aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum)
{
    return GiveSizes(tensor == nullptr ? nullptr : &tensor->strides, stridesValue, stridesNum);
}
aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset)
{
    return Give(tensor, offset, [=] { return tensor->offset; });
}
aclnnStatus aclGetFormat(const aclTensor* tensor, int32_t* format)
{
    return Give(tensor, format, [=] { return tensor->format; });
}
aclnnStatus aclGetDataType(const aclTensor* tensor, int32_t* dataType)
{
    return Give(tensor, dataType, [=] { return tensor->dtype; });
}
aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size)
{
    return Give(array, size, [=] { return array->values.size(); });
}
aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size)
{
    return Give(array, size, [=] { return array->values.size(); });
}
aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size)
{
    return Give(array, size, [=] { return array->values.size(); });
}
aclnnStatus aclGetTensorListSize(const aclTensorList* list, uint64_t* size)
{
    return Give(list, size, [=] { return list->tensors.size(); });
}
aclnnStatus aclGetScalarListSize(const aclScalarList* list, uint64_t* size)
{
    return Give(list, size, [=] { return list->scalars.size(); });
}
aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr)
{
    return Give(tensor, addr, [=] { return tensor->data; });
}
aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr)
{
    if (tensor == nullptr) {
        return dev::Refuse(ACLNN_ERR_PARAM_NULLPTR, "aclSetRawTensorAddr: the tensor is a null pointer");
    }
    tensor->data = addr;
    return ACLNN_SUCCESS;
}

}  // extern "C"
#pragma GCC visibility pop
