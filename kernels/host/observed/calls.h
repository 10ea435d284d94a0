/*!
 * API functions report their arguments by these types: they are arguments of hooks (hooks.h) and fields of events
 * (observer.h).
 */
#ifndef ASCENDC_HOST_OBSERVED_CALLS_H
#define ASCENDC_HOST_OBSERVED_CALLS_H

#include <cstdint>

#include "base/types.h"

namespace AscendC {
namespace host {

enum class Dtype : uint8_t { INT8, UINT8, INT16, UINT16, HALF, BFLOAT16, INT32, UINT32, FLOAT, INT64, UINT64 };

template <typename T>
constexpr Dtype DtypeOf()
{
    constexpr bool isSigned = std::is_signed<T>::value;
    if (std::is_same<T, half>::value) {
        return Dtype::HALF;
    }
    if (std::is_same<T, bfloat16_t>::value) {
        return Dtype::BFLOAT16;
    }
    if (std::is_same<T, float>::value) {
        return Dtype::FLOAT;
    }
    switch (sizeof(T)) {
        case 1:
            return isSigned ? Dtype::INT8 : Dtype::UINT8;
        case 2:
            return isSigned ? Dtype::INT16 : Dtype::UINT16;
        case 4:
            return isSigned ? Dtype::INT32 : Dtype::UINT32;
        default:
            return isSigned ? Dtype::INT64 : Dtype::UINT64;
    }
}

// A vector call is for the first `mask` elements, or for `repeatTimes` repeats of the lanes that the mask names or,
// without one, the mask register.
enum class Form : uint8_t { FIRST, MASK, REGISTER };

struct Request {
    Form form;
    int64_t mask;
    int64_t repeatTimes;
    double scalar = 0;    // of Adds, Muls, Duplicate ...
    uint32_t option = 0;  // RoundMode of Cast, pattern of GatherMask
};

constexpr Request First(int64_t count, double scalar = 0, uint32_t option = 0)
{
    return {Form::FIRST, count, 1, scalar, option};
}

constexpr Request Repeats(bool isSetMask, uint64_t mask, int64_t repeatTimes, double scalar = 0, uint32_t option = 0)
{
    return {isSetMask ? Form::MASK : Form::REGISTER, static_cast<int64_t>(mask), repeatTimes, scalar, option};
}

template <typename T>
constexpr double ScalarValue(T value)
{
    return static_cast<double>(value);
}
constexpr double ScalarValue(half value)  // as bits
{
    return value.bits;
}
constexpr double ScalarValue(bfloat16_t value)
{
    return value.bits;
}

// Describes a copy as the kernel called it. Lengths and strides of the CopyShape are in bytes.
enum class CopyForm : uint8_t { COUNT, BLOCKS, PAD };

struct CopyRequest {
    CopyForm form;
    uint64_t count = 0;        // COUNT: elements
    bool isPad = false;        // PAD
    uint32_t leftPadding = 0;  // elements
    uint32_t rightPadding = 0;
};

enum class QueueCall : uint8_t { ALLOC, ENQUE, DEQUE, FREE };
enum class SyncCall : uint8_t { SET_FLAG, WAIT_FLAG, PIPE_BARRIER, SYNC_ALL };
enum class EventCall : uint8_t { FETCH, ALLOC, RELEASE };
enum class SettingCall : uint8_t { MASK_NORM, MASK_COUNT, VECTOR_MASK, RESET_MASK, ATOMIC_ADD, ATOMIC_NONE };

// The type of a Matmul object gives its form.
struct MatmulForm {
    uint32_t elementBytes = 0;  // of the operands
    bool takesBias = false;
    bool wholeLoads = false;  // several base blocks come to L1 at once (MDL)
    bool rowByRow = false;    // rows that lie too far apart for one copy do so one by one (intrinsicsCheck)
};

enum class ProductCall : uint8_t { INIT, ITERATE_ALL, WAIT, END, ITERATE, GET_TENSOR_C };

// Names the call of an API function in a kernel.
struct Where {
    const char* file = "";
    uint32_t line = 0;
    static constexpr Where Here(const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE())
    {
        return {file, line};
    }
};

// An operator[] takes this, at this place of the source.
struct Index {
    Index(uint32_t offset, Where from = Where::Here()) : value(offset), where(from) {}
    operator uint32_t() const { return value; }

    uint32_t value;
    Where where;
};

// The API function hands this to the code that all copies share: it says who copies.
struct CopySite {
    Where where;
    const char* name;
    CopyRequest request;
};

// A LocalTensor comes from a buffer of the core (observer.h), and from this AllocTensor of it.
struct Origin {
    uint32_t buffer = 0;  // 0: none
    uint32_t use = 0;
};

// A TQue or TBuf is known by its tag.
struct Tag {
    uint32_t firstBuffer = 0;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OBSERVED_CALLS_H
