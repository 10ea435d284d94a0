/*!
 * Functions of the C interface share this (c_api.h).
 */
#ifndef MS_ASCEND_OPS_BINDING_C_CALL_H
#define MS_ASCEND_OPS_BINDING_C_CALL_H

#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>

#include "binding/c_api.h"
#include "binding/op.h"

namespace ms_ascend_ops::binding {

// Turns what `body` throws into a status and a message.
template <typename F>
MsAscendStatus Guard(char* text, size_t bytes, F&& body)
{
    const auto report = [text, bytes](const char* message, MsAscendStatus status) {
        std::snprintf(text, bytes, "%s", message);
        return status;
    };
    try {
        body();
        return MS_ASCEND_OK;
    } catch (const TypeError& error) {
        return report(error.what(), MS_ASCEND_TYPE_ERROR);
    } catch (const std::invalid_argument& error) {
        return report(error.what(), MS_ASCEND_VALUE_ERROR);
    } catch (const std::exception& error) {
        return report(error.what(), MS_ASCEND_ERROR);
    } catch (...) {
        return report("unknown error", MS_ASCEND_ERROR);
    }
}

// Its rank is at most MAX_RANK.
inline TensorDesc DescribeTensor(const MsAscendTensor& tensor)
{
    TensorDesc desc;
    if (tensor.dtype == nullptr) {
        desc.rank = -1;
        return desc;
    }
    desc.dtype = ParseDataType(tensor.dtype);
    desc.rank = tensor.rank;
    std::copy_n(tensor.shape, tensor.rank, desc.dims);
    return desc;
}

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_C_CALL_H
