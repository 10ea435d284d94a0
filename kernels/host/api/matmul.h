/*!
 * Implements Matmul objects, the cube unit of the chip.
 *
 * On Atlas A2 a vector core hands products to the cube core of its group by messages, and both share global memory
 * only. So operands and results are in global memory here, too: CANN's form with tensors of the Unified Buffer copies
 * them through global memory on that chip. A product is carried out when the kernel waits for it, in the thread of the
 * core: the vector unit then finds the result in the cache.
 */
#ifndef ASCENDC_HOST_API_MATMUL_H
#define ASCENDC_HOST_API_MATMUL_H

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "api/pipe.h"
#include "api/tensor.h"
#include "base/types.h"
#include "cube/product.h"
#include "observed/observe.h"
#include "runtime/core.h"

// These names are global, as with CANN.
enum class CubeFormat { ND = 0 };

// Says how a Matmul object loads its operands: base block by base block, or several at once; and whether it does so
// row by row where rows lie too far apart for an instruction (intrinsicsCheck). A host has no such limit; the checked
// build knows it (checked/products.cpp).
struct MatmulConfig {
    bool doNorm;
    bool doMultiDataLoad;
    bool intrinsicsCheck;
};
constexpr MatmulConfig GetNormalConfig(bool intrinsicsLimit = false)
{
    return {true, false, intrinsicsLimit};
}
constexpr MatmulConfig GetMDLConfig(bool intrinsicsLimit = false)
{
    return {false, true, intrinsicsLimit};
}
inline constexpr MatmulConfig CFG_NORM = GetNormalConfig();
inline constexpr MatmulConfig CFG_MDL = GetMDLConfig();

namespace AscendC {

template <TPosition POSITION, CubeFormat FORMAT, typename TYPE, bool ISTRANS = false>
struct MatmulType {
    static constexpr TPosition pos = POSITION;
    static constexpr CubeFormat format = FORMAT;
    static constexpr bool isTrans = ISTRANS;
    using T = TYPE;
};

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto& MM_CFG = CFG_NORM>
class Matmul {
    static_assert(A_TYPE::pos == TPosition::GM && B_TYPE::pos == TPosition::GM && C_TYPE::pos == TPosition::GM,
                  "operands and results of a product are in global memory (api/matmul.h)");
    using SrcAT = typename A_TYPE::T;
    using SrcBT = typename B_TYPE::T;
    using DstT = typename C_TYPE::T;
    using BiasT = typename BIAS_TYPE::T;
    static_assert(std::is_same<SrcAT, SrcBT>::value, "both operands of a product have one type");
    static_assert(std::is_same<SrcAT, int8_t>::value
                      ? std::is_same<DstT, int32_t>::value
                      : std::is_same<DstT, float>::value || std::is_same<DstT, SrcAT>::value,
                  "a result is float, or of its operands' type; of 8-bit integers it has 32 bits");

public:
    // TILING is TCubeTiling with CANN, and has the fields below.
    template <class TILING>
    void Init(const TILING* tiling, [[maybe_unused]] TPipe* pipe = nullptr HOST_WHERE)
    {
        orgM_ = static_cast<uint32_t>(tiling->M);
        orgN_ = static_cast<uint32_t>(tiling->N);
        orgKa_ = static_cast<uint32_t>(tiling->Ka);
        orgKb_ = static_cast<uint32_t>(tiling->Kb);
        orgKc_ = orgN_;
        product_.m = static_cast<uint32_t>(tiling->singleCoreM);
        product_.n = static_cast<uint32_t>(tiling->singleCoreN);
        product_.k = static_cast<uint32_t>(tiling->singleCoreK);
        baseM_ = static_cast<uint32_t>(tiling->baseM);
        baseN_ = static_cast<uint32_t>(tiling->baseN);
        product_.type = host::ElementTypeOf<SrcAT>::value;
        product_.resultType = host::ElementTypeOf<DstT>::value;
        HOST_OBSERVED(host::ObserveMatmulInit(where, state_, *tiling,
                                              {sizeof(SrcAT), BIASED, MM_CFG.doMultiDataLoad, MM_CFG.intrinsicsCheck}));
    }

    void SetOrgShape(int orgM, int orgN, int orgK) { SetOrgShape(orgM, orgN, orgK, orgK); }
    // This comes before the operands. orgKc is the columns of C, if they are not those of B.
    void SetOrgShape(int orgM, int orgN, int orgKa, int orgKb, int orgKc = 0)
    {
        orgM_ = static_cast<uint32_t>(orgM);
        orgN_ = static_cast<uint32_t>(orgN);
        orgKa_ = static_cast<uint32_t>(orgKa);
        orgKb_ = static_cast<uint32_t>(orgKb);
        orgKc_ = orgKc == 0 ? orgN_ : static_cast<uint32_t>(orgKc);
    }
    void SetSingleShape(int singleM, int singleN, int singleK) { SetTail(singleM, singleN, singleK); }
    void SetTail(int tailM = -1, int tailN = -1, int tailK = -1)
    {
        product_.m = tailM == -1 ? product_.m : static_cast<uint32_t>(tailM);
        product_.n = tailN == -1 ? product_.n : static_cast<uint32_t>(tailN);
        product_.k = tailK == -1 ? product_.k : static_cast<uint32_t>(tailK);
    }
    void SetTensorA(const GlobalTensor<SrcAT>& gm, bool isTransposeA = false)
    {
        product_.a = {reinterpret_cast<char*>(gm.GetPhyAddr(0)), isTransposeA ? orgM_ : orgKa_, isTransposeA};
        iterated_ = 0;
        HOST_OBSERVED(host::ObserveMatmulOperand(state_, state_.a, gm, isTransposeA && !A_TYPE::isTrans));
    }
    void SetTensorB(const GlobalTensor<SrcBT>& gm, bool isTransposeB = false)
    {
        product_.b = {reinterpret_cast<char*>(gm.GetPhyAddr(0)), isTransposeB ? orgKb_ : orgN_, isTransposeB};
        iterated_ = 0;
        HOST_OBSERVED(host::ObserveMatmulOperand(state_, state_.b, gm, isTransposeB && !B_TYPE::isTrans));
    }
    void SetBias(const GlobalTensor<BiasT>& bias)
    {
        static_assert(BIASED, "the host layer adds a bias of floats");
        if constexpr (BIASED) {
            product_.bias = reinterpret_cast<const float*>(bias.GetPhyAddr());
            HOST_OBSERVED(host::ObserveMatmulOperand(state_, state_.bias, bias, false));
        }
    }

    // Multiplies the whole of singleM x singleN. Without `sync` the result is there after WaitIterateAll, which the
    // chip allows if waitIterateAll says that it will come. enAtomic 1: adds to C.
    template <bool sync = true>
    void IterateAll(const GlobalTensor<DstT>& gm, uint8_t enAtomic = 0, [[maybe_unused]] bool enSequentialWrite = false,
                    [[maybe_unused]] bool waitIterateAll = false HOST_WHERE)
    {
        product_.c = {reinterpret_cast<char*>(gm.GetPhyAddr(0)), orgKc_, false};
        product_.accumulate = enAtomic != 0;
        const bool joins = pending_ && host::IsNextGroup(asked_, product_);
        if (!joins) {
            Finish();  // products are carried out in order
        }
        HOST_OBSERVED(host::ObserveProduct(where, state_, product_, gm, sync, waitIterateAll));
        if (joins) {
            ++asked_.groups;
        } else {
            asked_ = product_;
        }
        pending_ = true;
        if constexpr (sync) {
            Finish();
        }
    }
    // Goes to the next block of baseM x baseN of singleM x singleN, down the rows first; returns false behind the last
    // one.
    bool Iterate(HOST_WHERE_ONLY)
    {
        product_.c.stride = orgKc_;
        HOST_OBSERVED(host::ObserveIterate(where, state_, product_));
        const bool more = iterated_ < BlocksOf(product_.m, baseM_) * BlocksOf(product_.n, baseN_);
        iterated_ = more ? iterated_ + 1 : 0;
        HOST_OBSERVED(state_.blocks = more ? 1 : 0;)
        return more;
    }
    // Stores the block of the last Iterate to its place in C, or with enSequentialWrite to the beginning of gm, its
    // rows one behind the other.
    void GetTensorC(const GlobalTensor<DstT>& gm, uint8_t enAtomic = 0, bool enSequentialWrite = false HOST_WHERE)
    {
        Finish();
        const uint32_t block = iterated_ == 0 ? 0 : iterated_ - 1;
        const uint32_t row = block % BlocksOf(product_.m, baseM_) * baseM_;
        const uint32_t col = block / BlocksOf(product_.m, baseM_) * baseN_;
        asked_ = product_;
        asked_.m = std::min(baseM_, product_.m - row);
        asked_.n = std::min(baseN_, product_.n - col);
        asked_.a.data += (asked_.a.transposed ? row : row * asked_.a.stride) * static_cast<int64_t>(sizeof(SrcAT));
        asked_.b.data += (asked_.b.transposed ? col * asked_.b.stride : col) * static_cast<int64_t>(sizeof(SrcBT));
        asked_.bias = product_.bias == nullptr ? nullptr : product_.bias + col;
        const int64_t stride = enSequentialWrite ? asked_.n : orgKc_;
        const int64_t first = enSequentialWrite ? 0 : row * stride + col;
        asked_.c = {reinterpret_cast<char*>(gm.GetPhyAddr(0)) + first * static_cast<int64_t>(sizeof(DstT)), stride,
                    false};
        asked_.accumulate = enAtomic != 0;
        HOST_OBSERVED(host::ObserveBlock(where, state_, asked_, product_, gm, first));
        host::Core::Current().Multiply(asked_);
    }
    void WaitIterateAll(HOST_WHERE_ONLY)
    {
        HOST_OBSERVED(host::ObserveProductWait(where, state_));
        Finish();
    }
    void End(HOST_WHERE_ONLY)
    {
        HOST_OBSERVED(host::ObserveMatmulEnd(where, state_));
        Finish();
    }

private:
    static constexpr bool BIASED = std::is_same<BiasT, float>::value;

    static uint32_t BlocksOf(uint32_t size, uint32_t base) { return (size + base - 1) / base; }

    void Finish()
    {
        if (pending_) {
            pending_ = false;
            host::Core::Current().Multiply(asked_);
        }
    }

    host::Product product_;  // as it is being described
    host::Product asked_;    // the one that is to be carried out
    uint32_t orgM_ = 0;
    uint32_t orgN_ = 0;
    uint32_t orgKa_ = 0;
    uint32_t orgKb_ = 0;
    uint32_t orgKc_ = 0;
    uint32_t baseM_ = 0;
    uint32_t baseN_ = 0;
    uint32_t iterated_ = 0;  // blocks that Iterate has gone through
    bool pending_ = false;
    HOST_OBSERVED(host::MatmulState state_;)
};

namespace host {

// A function would have no place for the kernel's line behind any number of parameters.
class MatmulRegistration {
public:
    explicit MatmulRegistration(TPipe* pipe HOST_WHERE) : pipe_(pipe) HOST_OBSERVED(, where_(where)) {}

    template <class MATMUL, class TILING, class... REST>
    void operator()(MATMUL& matmul, const TILING* tiling, REST&&... rest) const
    {
        matmul.Init(tiling, pipe_ HOST_OBSERVED(, where_));
        if constexpr (sizeof...(rest) > 0) {
            (*this)(rest...);
        }
    }

private:
    TPipe* pipe_;
    HOST_OBSERVED(Where where_;)
};

}  // namespace host
}  // namespace AscendC

namespace matmul = AscendC;

// Cores and cubes talk through the system workspace on a chip. The function is global, as with CANN.
inline GM_ADDR GetSysWorkSpacePtr()
{
    return nullptr;
}

// In the kernel's entry function, before InitBuffer: on a chip the cube core leaves the function here.
#define REGIST_MATMUL_OBJ(tpipe, workspace, ...) \
    (static_cast<void>(workspace), AscendC::host::MatmulRegistration(tpipe)(__VA_ARGS__))

#endif  // ASCENDC_HOST_API_MATMUL_H
