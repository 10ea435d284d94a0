/*!
 * Declares what MindSpore hands to the functions of an AOT custom operator, without MindSpore's headers.
 *
 * The classes repeat the layout of mindspore/include/mindspore/ccsrc/utils/custom_aot_extra.h (MindSpore 2.10): the
 * order of the virtual functions and of the members is their binary interface. They take std::string, which the wheels
 * compile with _GLIBCXX_USE_CXX11_ABI=0: so must this library.
 */
#ifndef MS_ASCEND_OPS_BINDING_AOT_EXTRA_H
#define MS_ASCEND_OPS_BINDING_AOT_EXTRA_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#if _GLIBCXX_USE_CXX11_ABI != 0
#error "compile with -D_GLIBCXX_USE_CXX11_ABI=0, as MindSpore's wheels are"
#endif

namespace mindspore {

// State of one kernel between FInit and the calls of F. MindSpore deletes it through the virtual destructor.
class AotKernelData {
public:
    AotKernelData() = default;
    virtual ~AotKernelData() = default;
};

class AotExtra {
public:
    AotExtra() = default;
    virtual ~AotExtra() = default;
    virtual bool HasAttr(std::string name) = 0;
    virtual bool GetAttrBool(std::string name) = 0;
    virtual int64_t GetAttrInt(std::string name) = 0;
    virtual float GetAttrFloat(std::string name) = 0;
    virtual std::string GetAttrStr(std::string name) = 0;
    virtual std::vector<int64_t> GetAttrIntVec(std::string name) = 0;
    virtual std::vector<float> GetAttrFloatVec(std::string name) = 0;
    virtual std::vector<std::vector<int64_t>> GetAttrInt2DVec(std::string name) = 0;
    virtual std::vector<std::vector<float>> GetAttrFloat2DVec(std::string name) = 0;

    void SetKernelData(AotKernelData* data) { kernelData_ = data; }
    const AotKernelData* KernelData() const { return kernelData_; }

private:
    std::vector<size_t> workspace_;
    AotKernelData* kernelData_ = nullptr;
};

// TypeId of MindSpore 2.10 (mindapi/base/type_id.h): the number types that operators here use.
enum TypeId : int {
    kNumberTypeInt8 = 32,
    kNumberTypeInt32 = 34,
    kNumberTypeInt64 = 35,
    kNumberTypeFloat16 = 42,
    kNumberTypeFloat32 = 43,
    kNumberTypeBFloat16 = 45,
};

}  // namespace mindspore

#endif  // MS_ASCEND_OPS_BINDING_AOT_EXTRA_H
