/*!
 * Small kernels for the tests of the checked build: y = x + 1 on 512 floats, spelled right and in many wrong ways.
 *
 *     wrong_kernels            prints the names
 *     wrong_kernels <name>     runs one; with "ok" after it, the correct twin
 *
 * A name is a rule, or a rule and what is special.
 */
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "host/kernel_operator.h"
#include "host/lib/matmul_intf.h"
#include "primitives/cube_tiling.h"

using namespace AscendC;

namespace {

constexpr uint32_t COUNT = 512;
constexpr uint32_t BYTES = COUNT * sizeof(float);
constexpr uint64_t FAR_BYTES = (uint64_t{1} << 31) * sizeof(float) + BYTES;

// What a kernel works with. `x` and `y` have COUNT floats.
struct Kernel {
    Kernel(GM_ADDR xIn, GM_ADDR yIn, GM_ADDR farIn, GM_ADDR workspaceIn, bool wrongIn)
        : wrong(wrongIn), workspaceAddress(workspaceIn)
    {
        far.SetGlobalBuffer(reinterpret_cast<float*>(farIn));
        x.SetGlobalBuffer(reinterpret_cast<float*>(xIn), COUNT);
        y.SetGlobalBuffer(reinterpret_cast<float*>(yIn), COUNT);
        workspace.SetGlobalBuffer(reinterpret_cast<float*>(workspaceIn), COUNT);
        pipe.InitBuffer(in, 2, BYTES);
        pipe.InitBuffer(out, 2, BYTES);
        pipe.InitBuffer(calc, BYTES);
    }
    LocalTensor<float> Load(uint32_t offset = 0, uint32_t count = COUNT)
    {
        LocalTensor<float> local = in.AllocTensor<float>();
        DataCopy(local, x[offset], count);
        in.EnQue(local);
        return in.DeQue<float>();
    }
    void Store(LocalTensor<float> local, uint32_t offset = 0, uint32_t count = COUNT)
    {
        out.EnQue(local);
        local = out.DeQue<float>();
        DataCopy(y[offset], local, count);
        out.FreeTensor(local);
    }
    // The whole task, with `compute(y, x)` in its middle.
    void Run(const std::function<void(LocalTensor<float>&, LocalTensor<float>&)>& compute)
    {
        LocalTensor<float> loaded = Load();
        LocalTensor<float> result = out.AllocTensor<float>();
        compute(result, loaded);
        in.FreeTensor(loaded);
        Store(result);
    }
    void Finish()
    {
        Run([](auto& result, auto& loaded) { Adds(result, loaded, 1.0f, COUNT); });
    }
    // This core's share of the task.
    void FinishShare(uint32_t first, uint32_t count)
    {
        LocalTensor<float> loaded = Load(first, count);
        LocalTensor<float> result = out.AllocTensor<float>();
        Adds(result, loaded, 1.0f, static_cast<int32_t>(count));
        in.FreeTensor(loaded);
        Store(result, first, count);
    }

    bool wrong;
    GM_ADDR workspaceAddress;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    TBuf<TPosition::VECCALC> calc;
    GlobalTensor<float> x;
    GlobalTensor<float> y;
    GlobalTensor<float> far;  // more than there is memory: only few pages of it are touched
    GlobalTensor<float> workspace;
};

constexpr MatmulConfig ROW_BY_ROW = GetMDLConfig(true);

// A product of two blocks of 16 x 16 of x, which goes to the workspace.
struct Products {
    static constexpr int SIDE = 16;
    static constexpr int ROWS = 3;
    static constexpr uint32_t BLOCK = SIDE * SIDE;
    using Operand = matmul::MatmulType<TPosition::GM, CubeFormat::ND, float>;
    using Transposed = matmul::MatmulType<TPosition::GM, CubeFormat::ND, float, true>;

    explicit Products(Kernel& kernelIn) : kernel(kernelIn) {}
    static ms_ascend_ops::CubeTiling Tiling()
    {
        return ms_ascend_ops::PlanCube(SIDE, SIDE, SIDE, ms_ascend_ops::DataType::FLOAT32,
                                       ms_ascend_ops::DataType::FLOAT32, false, true);
    }
    void Register(uint32_t baseK = SIDE, int isBias = 0)
    {
        ms_ascend_ops::CubeTiling tiling = Tiling();
        tiling.baseK = static_cast<int32_t>(baseK);
        tiling.isBias = isBias;
        REGIST_MATMUL_OBJ(&kernel.pipe, GetSysWorkSpacePtr(), product, &tiling, plain, &tiling);
    }
    void Start(bool waits = true)
    {
        product.SetTensorA(kernel.x);
        product.SetTensorB(kernel.x[BLOCK], true);
        product.IterateAll<false>(kernel.workspace, 0, false, waits);
    }
    // The same, block by block; whether GetTensorC takes them.
    void Blocks(bool takes = true)
    {
        product.SetTensorA(kernel.x);
        product.SetTensorB(kernel.x[BLOCK], true);
        while (product.Iterate()) {
            if (takes) {
                product.GetTensorC(kernel.workspace);
            }
        }
    }
    // A product whose first operand has three rows that lie so many elements apart, and then the kernel's own task.
    template <const auto& CONFIG, bool TRANSPOSED = false>
    void OfRows(int elements)
    {
        using First = matmul::MatmulType<TPosition::GM, CubeFormat::ND, float, TRANSPOSED>;
        Matmul<First, Operand, Operand, Operand, CONFIG> far;
        const ms_ascend_ops::CubeTiling tiling = Tiling();
        REGIST_MATMUL_OBJ(&kernel.pipe, GetSysWorkSpacePtr(), far, &tiling);
        far.SetOrgShape(elements, SIDE, elements, SIDE);
        far.SetSingleShape(TRANSPOSED ? SIDE : ROWS, SIDE, TRANSPOSED ? ROWS : SIDE);
        far.SetTensorA(kernel.far, TRANSPOSED);
        far.SetTensorB(kernel.x);
        far.IterateAll(kernel.workspace);
        kernel.Finish();
    }
    // The whole of it, and then the kernel's own task.
    void Run()
    {
        Start();
        product.WaitIterateAll();
        product.End();
        kernel.Finish();
    }

    Kernel& kernel;
    Matmul<Operand, Transposed, Operand> product;
    Matmul<Operand, Operand, Operand> plain;
};

using Body = std::function<void(Kernel&)>;

const std::map<std::string, Body>& OneCore()
{
    static const std::map<std::string, Body> kernels = {
        {"ub-capacity",
         [](Kernel& k) {
             TBuf<TPosition::VECCALC> more;
             k.pipe.InitBuffer(more, k.wrong ? host::UB_BYTES : 1024);
             k.Finish();
         }},
        {"buffer-count",
         [](Kernel& k) {
             std::vector<TBuf<TPosition::VECCALC>> more(k.wrong ? 60 : 50);
             for (auto& buffer : more) {
                 k.pipe.InitBuffer(buffer, 32);
             }
             k.Finish();
         }},
        {"queue-buffers",
         [](Kernel& k) {
             TQue<TPosition::VECIN, 1> more;
             k.pipe.InitBuffer(more, k.wrong ? 7 : 6, 32);
             k.Finish();
         }},
        {"ub-bounds",
         [](Kernel& k) {
             k.Run([&](auto& result, auto& loaded) { Adds(result, loaded, 1.0f, k.wrong ? COUNT + 8 : COUNT); });
         }},
        {"ub-bounds of a repeat",
         [](Kernel& k) {
             k.Run([&](auto& result, auto& loaded) {
                 Adds(result, loaded, 1.0f, 64, 8, {1, 1, 8, static_cast<uint8_t>(k.wrong ? 9 : 8)});
             });
         }},
        {"ub-bounds of another buffer",
         [](Kernel& k) {
             k.Run([&](auto& result, auto& loaded) { Adds(result, loaded[k.wrong ? 8 : 0], 1.0f, COUNT); });
         }},
        {"ub-freed",
         [](Kernel& k) {
             LocalTensor<float> loaded = k.Load();
             LocalTensor<float> result = k.out.AllocTensor<float>();
             if (k.wrong) {
                 k.in.FreeTensor(loaded);
             }
             Adds(result, loaded, 1.0f, COUNT);
             if (!k.wrong) {
                 k.in.FreeTensor(loaded);
             }
             k.Store(result);
         }},
        {"ub-freed by Reset",
         [](Kernel& k) {
             LocalTensor<float> before = k.calc.Get<float>();
             k.Finish();
             k.pipe.Reset();
             TBuf<TPosition::VECCALC> after;
             k.pipe.InitBuffer(after, BYTES);
             Duplicate(k.wrong ? before : after.Get<float>(), 0.0f, 8);
         }},
        {"ub-index",
         [](Kernel& k) {
             k.Run([&](auto& result, auto& loaded) {
                 [[maybe_unused]] const LocalTensor<float> none = loaded[k.wrong ? COUNT : COUNT - 8];
                 Adds(result, loaded, 1.0f, COUNT);
             });
         }},
        {"ub-unassigned",
         [](Kernel& k) {
             k.Run([&](auto& result, auto& loaded) {
                 LocalTensor<float> scratch;
                 if (!k.wrong) {
                     scratch = k.calc.Get<float>();
                 }
                 [[maybe_unused]] const LocalTensor<float> unused = scratch[8];
                 Adds(result, loaded, 1.0f, COUNT);
             });
         }},
        {"ub-uninitialized",
         [](Kernel& k) {
             k.Run([&](auto& result, auto& loaded) { Adds(result, loaded, 1.0f, k.wrong ? COUNT - 8 : COUNT); });
         }},
        {"ub-uninitialized padding",
         [](Kernel& k) {
             LocalTensor<float> local = k.in.AllocTensor<float>();
             // 63 columns of 8 rows; the last column of each is 0, or nothing
             DataCopyPad(local, k.x, {8, 63 * 4, 4, 0, 0}, {!k.wrong, 0, static_cast<uint8_t>(k.wrong ? 0 : 1), 0.0f});
             k.in.EnQue(local);
             local = k.in.DeQue<float>();
             LocalTensor<float> sums = k.calc.Get<float>();
             WholeReduceSum(sums, local, 64, 8, 1, 1, 8);
             k.in.FreeTensor(local);
             k.Finish();
         }},
        {"alignment",
         [](Kernel& k) {
             LocalTensor<float> scratch = k.calc.Get<float>();
             Duplicate(scratch[k.wrong ? 4 : 8], 0.0f, 64);
             k.Finish();
         }},
        {"dtype",
         [](Kernel& k) {
             LocalTensor<float> scratch = k.calc.Get<float>();
             Duplicate(scratch, 1.0f, 64);
             LocalTensor<half> narrow = scratch[64].ReinterpretCast<half>();
             Cast(narrow, scratch, RoundMode::CAST_RINT, 64);
             if (k.wrong) {
                 Cast(scratch[128].ReinterpretCast<bfloat16_t>(), narrow, RoundMode::CAST_RINT, 64);
             } else {
                 Cast(scratch[128], narrow, RoundMode::CAST_NONE, 64);
             }
             k.Finish();
         }},
        {"round-mode",
         [](Kernel& k) {
             LocalTensor<float> scratch = k.calc.Get<float>();
             Duplicate(scratch, 1.0f, 64);
             Cast(scratch[64].ReinterpretCast<bfloat16_t>(), scratch,
                  k.wrong ? RoundMode::CAST_NONE : RoundMode::CAST_RINT, 64);
             k.Finish();
         }},
        {"repeat-times",
         [](Kernel& k) {
             LocalTensor<float> scratch = k.calc.Get<float>();
             Duplicate(scratch, 1.0f, COUNT);
             WholeReduceSum(scratch[128], scratch, 8, k.wrong ? 256 : 255, 1, 1, 0);
             k.Finish();
         }},
        {"mask",
         [](Kernel& k) {
             k.Run([&](auto& result, auto& loaded) {
                 Adds(result, loaded, 1.0f, static_cast<uint64_t>(k.wrong ? 65 : 64), 7, {1, 1, 8, 8});
                 Adds(result[448], loaded[448], 1.0f, 64);
             });
         }},
        {"mask-state",
         [](Kernel& k) {
             k.Run([&](auto& result, auto& loaded) {
                 SetMaskCount();
                 SetVectorMask<float, MaskMode::COUNTER>(0, COUNT);
                 if (k.wrong) {  // on the chip this ends counter mode
                     Duplicate(k.calc.Get<float>(), 0.0f, 8);
                 }
                 Adds<float, false>(result, loaded, 1.0f, MASK_PLACEHOLDER, 1, {1, 1, 8, 8});
                 SetMaskNorm();
                 ResetMask();
             });
         }},
        {"stride",
         [](Kernel& k) {
             LocalTensor<float> scratch = k.calc.Get<float>();
             Duplicate(scratch, 1.0f, COUNT);
             WholeReduceSum(scratch, scratch, 64, 1, 1, 1, k.wrong ? -8 : 8);
             k.Finish();
         }},
        {"overlap",
         [](Kernel& k) {
             LocalTensor<float> scratch = k.calc.Get<float>();
             Duplicate(scratch, 1.0f, COUNT);
             Adds(scratch[k.wrong ? 8 : 256], scratch, 1.0f, 256);
             k.Finish();
         }},
        {"overlap of repeats",
         [](Kernel& k) {
             LocalTensor<float> scratch = k.calc.Get<float>();
             Duplicate(scratch, 1.0f, COUNT);
             // each repeat reads what the one before wrote; only source 1 may
             if (k.wrong) {
                 Add(scratch, scratch, scratch[64], 64, 4, {1, 1, 1, 0, 0, 8});
             } else {
                 Add(scratch, scratch[64], scratch, 64, 4, {1, 1, 1, 0, 8, 0});
             }
             k.Finish();
         }},
        {"gather-offset",
         [](Kernel& k) {
             k.Run([&](auto& result, auto& loaded) {
                 LocalTensor<int32_t> offsets = k.calc.Get<int32_t>();
                 Duplicate(offsets, static_cast<int32_t>(k.wrong ? BYTES : BYTES - 4), COUNT);
                 Gather(result, loaded, k.calc.Get<uint32_t>(), 0u, COUNT);
             });
         }},
        {"copy-length",
         [](Kernel& k) {
             LocalTensor<float> loaded = k.Load(0, k.wrong ? COUNT - 1 : COUNT);
             k.in.FreeTensor(loaded);
             k.Finish();
         }},
        {"copy-params",
         [](Kernel& k) {
             LocalTensor<float> local = k.in.AllocTensor<float>();
             DataCopyPad(local, k.x, {1, k.wrong ? 1022u : 1024u, 0, 0, 0}, {false, 0, 0, 0.0f});
             k.in.EnQue(local);
             local = k.in.DeQue<float>();
             k.in.FreeTensor(local);
             k.Finish();
         }},
        {"padding",
         [](Kernel& k) {
             LocalTensor<float> local = k.in.AllocTensor<float>();
             DataCopyPad(local, k.x, {1, 1024, 0, 0, 0}, {true, 0, static_cast<uint8_t>(k.wrong ? 16 : 8), 0.0f});
             k.in.EnQue(local);
             local = k.in.DeQue<float>();
             k.in.FreeTensor(local);
             k.Finish();
         }},
        {"copy-position",
         [](Kernel& k) {
             LocalTensor<float> local = k.in.AllocTensor<float>();
             DataCopyPad(k.wrong ? k.calc.Get<float>() : local, k.x, {1, 1024, 0, 0, 0}, {false, 0, 0, 0.0f});
             k.in.EnQue(local);
             local = k.in.DeQue<float>();
             k.in.FreeTensor(local);
             k.Finish();
         }},
        {"queue-alloc",
         [](Kernel& k) {
             LocalTensor<float> tensors[3];
             for (int i = 0; i < (k.wrong ? 3 : 2); ++i) {
                 tensors[i] = k.in.AllocTensor<float>();
             }
             k.in.FreeTensor(tensors[0]);
             k.in.FreeTensor(tensors[1]);
             k.Finish();
         }},
        {"queue-enque",
         [](Kernel& k) {
             LocalTensor<float> mine = k.out.AllocTensor<float>();
             LocalTensor<float> foreign = k.in.AllocTensor<float>();
             Duplicate(mine, 0.0f, COUNT);
             k.out.EnQue(k.wrong ? foreign : mine);
             mine = k.out.DeQue<float>();
             k.out.FreeTensor(mine);
             k.in.FreeTensor(foreign);
             k.Finish();
         }},
        {"queue-depth",
         [](Kernel& k) {
             LocalTensor<float> first = k.in.AllocTensor<float>();
             k.in.EnQue(first);
             if (!k.wrong) {
                 first = k.in.DeQue<float>();
             }
             LocalTensor<float> second = k.in.AllocTensor<float>();
             k.in.EnQue(second);
             second = k.in.DeQue<float>();
             k.in.FreeTensor(first);
             k.in.FreeTensor(second);
             k.Finish();
         }},
        {"queue-deque",
         [](Kernel& k) {
             LocalTensor<float> local = k.in.AllocTensor<float>();
             if (!k.wrong) {
                 k.in.EnQue(local);
             }
             local = k.in.DeQue<float>();
             k.in.FreeTensor(local);
             k.Finish();
         }},
        {"queue-free",
         [](Kernel& k) {
             LocalTensor<float> local = k.in.AllocTensor<float>();
             k.in.FreeTensor(local);
             if (k.wrong) {
                 k.in.FreeTensor(local);
             }
             k.Finish();
         }},
        {"queue-free while queued",
         [](Kernel& k) {
             LocalTensor<float> local = k.in.AllocTensor<float>();
             k.in.EnQue(local);
             if (!k.wrong) {
                 local = k.in.DeQue<float>();
             }
             k.in.FreeTensor(local);
             k.Finish();
         }},
        {"queue-leak",
         [](Kernel& k) {
             k.Finish();
             LocalTensor<float> local = k.in.AllocTensor<float>();
             if (!k.wrong) {
                 k.in.FreeTensor(local);
             }
         }},
        {"pipe-hazard",  // V reads what MTE2 is still writing
         [](Kernel& k) {
             LocalTensor<float> local = k.in.AllocTensor<float>();
             DataCopy(local, k.x, COUNT);
             k.in.EnQue(local);
             LocalTensor<float> taken = k.wrong ? local : k.in.DeQue<float>();
             LocalTensor<float> result = k.out.AllocTensor<float>();
             Adds(result, taken, 1.0f, COUNT);
             if (k.wrong) {
                 taken = k.in.DeQue<float>();
             }
             k.in.FreeTensor(taken);
             k.Store(result);
         }},
        {"pipe-hazard at the end",  // MTE3 reads what V is still writing
         [](Kernel& k) {
             LocalTensor<float> loaded = k.Load();
             LocalTensor<float> result = k.out.AllocTensor<float>();
             Adds(result, loaded, 1.0f, COUNT);
             k.in.FreeTensor(loaded);
             if (!k.wrong) {
                 k.out.EnQue(result);
                 result = k.out.DeQue<float>();
             }
             DataCopy(k.y, result, COUNT);
             k.out.FreeTensor(result);
         }},
        {"pipe-hazard on a TBuf",  // write after read: MTE2 overwrites what V is still reading
         [](Kernel& k) {
             LocalTensor<float> scratch = k.calc.Get<float>();
             LocalTensor<float> loaded = k.Load();
             DataCopy(scratch, k.x, COUNT);
             SetFlag<HardEvent::MTE2_V>(1);
             WaitFlag<HardEvent::MTE2_V>(1);
             LocalTensor<float> result = k.out.AllocTensor<float>();
             Add(result, loaded, scratch, COUNT);
             if (!k.wrong) {
                 SetFlag<HardEvent::V_MTE2>(1);
                 WaitFlag<HardEvent::V_MTE2>(1);
             }
             DataCopy(scratch, k.x, COUNT);
             k.in.FreeTensor(loaded);
             k.Store(result);
         }},
        {"pipe-hazard in global memory",  // MTE2 reads back what MTE3 is still writing
         [](Kernel& k) {
             k.Finish();
             LocalTensor<float> local = k.in.AllocTensor<float>();
             if (!k.wrong) {
                 SetFlag<HardEvent::MTE3_MTE2>(1);
                 WaitFlag<HardEvent::MTE3_MTE2>(1);
             }
             DataCopy(local, k.y, COUNT);
             k.in.FreeTensor(local);
         }},
        {"mte-overlap",
         [](Kernel& k) {
             for (int i = 0; i < 2; ++i) {
                 k.Finish();
                 if (!k.wrong) {
                     PipeBarrier<PIPE_MTE3>();
                 }
             }
         }},
        {"flag-pair without SetFlag",
         [](Kernel& k) {
             if (!k.wrong) {
                 SetFlag<HardEvent::V_MTE3>(2);
             }
             WaitFlag<HardEvent::V_MTE3>(2);
             k.Finish();
         }},
        {"flag-pair without WaitFlag",
         [](Kernel& k) {
             SetFlag<HardEvent::V_MTE3>(2);
             if (!k.wrong) {
                 WaitFlag<HardEvent::V_MTE3>(2);
             }
             k.Finish();
         }},
        {"flag-pair with SetFlag twice",
         [](Kernel& k) {
             SetFlag<HardEvent::V_MTE3>(2);
             SetFlag<HardEvent::V_MTE3>(k.wrong ? 2 : 3);
             WaitFlag<HardEvent::V_MTE3>(2);
             WaitFlag<HardEvent::V_MTE3>(3);
             k.Finish();
         }},
        {"event-id",
         [](Kernel& k) {
             SetFlag<HardEvent::V_MTE3>(k.wrong ? 8 : 7);
             WaitFlag<HardEvent::V_MTE3>(k.wrong ? 8 : 7);
             k.Finish();
         }},
        {"barrier-pipe",
         [](Kernel& k) {
             if (k.wrong) {
                 PipeBarrier<PIPE_S>();
             } else {
                 PipeBarrier<PIPE_V>();
             }
             k.Finish();
         }},
        {"gm-bounds",
         [](Kernel& k) {
             GlobalTensor<float> x;  // its size is not given, so only the argument's can be broken
             x.SetGlobalBuffer(k.x.GetPhyAddr(0));
             LocalTensor<float> local = k.in.AllocTensor<float>();
             DataCopy(local, x[k.wrong ? 8 : 0], COUNT);
             k.in.EnQue(local);
             local = k.in.DeQue<float>();
             k.in.FreeTensor(local);
             k.Finish();
         }},
        {"gm-bounds of a GlobalTensor",
         [](Kernel& k) {
             GlobalTensor<float> half;
             half.SetGlobalBuffer(k.x.GetPhyAddr(0), COUNT / 2);
             LocalTensor<float> local = k.in.AllocTensor<float>();
             DataCopy(local, half, k.wrong ? COUNT : COUNT / 2);
             k.in.EnQue(local);
             local = k.in.DeQue<float>();
             k.in.FreeTensor(local);
             k.Finish();
         }},
        {"gm-input",
         [](Kernel& k) {
             LocalTensor<float> local = k.out.AllocTensor<float>();
             Duplicate(local, 0.0f, COUNT);
             k.out.EnQue(local);
             local = k.out.DeQue<float>();
             DataCopy(k.wrong ? k.x : k.workspace, local, COUNT);
             k.out.FreeTensor(local);
             k.Finish();
         }},
        {"gm-uninitialized",
         [](Kernel& k) {
             if (!k.wrong) {
                 LocalTensor<float> local = k.out.AllocTensor<float>();
                 Duplicate(local, 0.0f, COUNT);
                 k.out.EnQue(local);
                 local = k.out.DeQue<float>();
                 DataCopy(k.workspace, local, COUNT);
                 k.out.FreeTensor(local);
                 PipeBarrier<PIPE_ALL>();
             }
             LocalTensor<float> local = k.in.AllocTensor<float>();
             DataCopy(local, k.workspace, COUNT);
             k.in.FreeTensor(local);
             k.Finish();
         }},
        {"gm-unwritten", [](Kernel& k) { k.FinishShare(0, k.wrong ? COUNT - 8 : COUNT); }},
        {"atomic-dtype",
         [](Kernel& k) {
             k.Finish();
             PipeBarrier<PIPE_ALL>();
             LocalTensor<half> local = k.out.AllocTensor<half>();
             Duplicate(local.ReinterpretCast<float>(), 0.0f, COUNT);
             k.out.EnQue(local);
             local = k.out.DeQue<half>();
             GlobalTensor<half> y;
             y.SetGlobalBuffer(reinterpret_cast<half*>(k.y.GetPhyAddr(0)));
             if (k.wrong) {
                 SetAtomicAdd<float>();
             }
             DataCopy(y, local, COUNT);
             SetAtomicNone();
             k.out.FreeTensor(local);
         }},
        {"matmul-init",
         [](Kernel& k) {
             Products products(k);
             if (!k.wrong) {
                 products.Register();
             }
             products.Run();
         }},
        {"matmul-shape",
         [](Kernel& k) {
             Products products(k);
             products.Register();
             products.product.SetSingleShape(Products::SIDE, Products::SIDE + (k.wrong ? 1 : 0), Products::SIDE);
             products.Run();
         }},
        {"matmul-stride",
         [](Kernel& k) {
             Products products(k);
             products.Register();
             products.product.SetOrgShape(Products::SIDE, Products::SIDE, Products::SIDE, k.wrong ? 8 : 16);
             products.Run();
         }},
        {"matmul-transpose",
         [](Kernel& k) {
             Products products(k);
             products.Register();
             products.plain.SetTensorA(k.x);
             products.plain.SetTensorB(k.x, k.wrong);
             products.plain.IterateAll(k.workspace);
             products.Run();
         }},
        {"matmul-capacity",
         [](Kernel& k) {
             Products products(k);
             products.Register(k.wrong ? 1024 : 16);
             products.Run();
         }},
        {"matmul-capacity of a bias",
         [](Kernel& k) {
             Products products(k);
             ms_ascend_ops::CubeTiling tiling = Products::Tiling();
             tiling.isBias = 1;
             tiling.baseN = k.wrong ? 272 : 256;
             REGIST_MATMUL_OBJ(&k.pipe, GetSysWorkSpacePtr(), products.product, &tiling);
             k.Finish();
         }},
        {"matmul-base",
         [](Kernel& k) {
             Products products(k);
             products.Register(k.wrong ? 8 : 16);
             products.Run();
         }},
        {"matmul-base of bytes",
         [](Kernel& k) {
             using Bytes = matmul::MatmulType<TPosition::GM, CubeFormat::ND, int8_t>;
             using Sums = matmul::MatmulType<TPosition::GM, CubeFormat::ND, int32_t>;
             Matmul<Bytes, Bytes, Sums> product;
             ms_ascend_ops::CubeTiling tiling = Products::Tiling();
             tiling.baseK = k.wrong ? 16 : 32;
             REGIST_MATMUL_OBJ(&k.pipe, GetSysWorkSpacePtr(), product, &tiling);
             k.Finish();
         }},
        {"matmul-base of floats",
         [](Kernel& k) {
             Products products(k);
             ms_ascend_ops::CubeTiling tiling = Products::Tiling();
             tiling.singleCoreK = k.wrong ? 24 : 32;
             REGIST_MATMUL_OBJ(&k.pipe, GetSysWorkSpacePtr(), products.product, &tiling);
             k.Finish();
         }},
        {"cube-range", [](Kernel& k) { Products(k).OfRows<CFG_MDL>(k.wrong ? 65536 : 65535); }},
        {"cube-range of a transposed operand",
         [](Kernel& k) { Products(k).OfRows<CFG_MDL, true>(k.wrong ? 65536 : 65535); }},
        {"cube-range with base blocks by themselves",
         [](Kernel& k) { Products(k).OfRows<CFG_NORM>(k.wrong ? 65536 : 65535); }},
        {"cube-range without intrinsicsCheck",
         [](Kernel& k) {
             if (k.wrong) {
                 Products(k).OfRows<CFG_MDL>(1 << 20);
             } else {
                 Products(k).OfRows<ROW_BY_ROW>(1 << 20);
             }
         }},
        {"cube-range of rows by themselves",
         [](Kernel& k) { Products(k).OfRows<ROW_BY_ROW>(k.wrong ? INT32_MAX : INT32_MAX / 2); }},
        {"cube-range of the result",
         [](Kernel& k) {
             Products products(k);
             products.Register();
             products.product.SetOrgShape(Products::SIDE, Products::SIDE, Products::SIDE, Products::SIDE,
                                          k.wrong ? -1 : Products::SIDE);
             products.Run();
         }},
        {"matmul-bias",
         [](Kernel& k) {
             Products products(k);
             products.Register(16, k.wrong ? 0 : 1);
             products.product.SetBias(k.x);
             products.Run();
         }},
        {"matmul-wait",
         [](Kernel& k) {
             Products products(k);
             products.Register();
             products.Run();
             if (k.wrong) {
                 products.product.WaitIterateAll();
             }
         }},
        {"matmul-wait that does not come",
         [](Kernel& k) {
             Products products(k);
             products.Register();
             products.Start();
             if (!k.wrong) {
                 products.product.WaitIterateAll();
             }
             k.Finish();
         }},
        {"matmul-block",
         [](Kernel& k) {
             Products products(k);
             products.Register();
             products.Blocks();
             if (k.wrong) {
                 products.product.GetTensorC(k.workspace);
             }
             products.Run();
         }},
        {"matmul-block that is not taken",
         [](Kernel& k) {
             Products products(k);
             products.Register();
             products.Blocks(!k.wrong);
             products.Run();
         }},
        {"matmul-shape of blocks",
         [](Kernel& k) {
             Products products(k);
             products.Register();
             products.product.SetSingleShape(Products::SIDE + (k.wrong ? 1 : 0), Products::SIDE, Products::SIDE);
             products.Blocks();
             products.Run();
         }},
        {"pipe-hazard of a result that is not there",
         [](Kernel& k) {
             Products products(k);
             products.Register();
             products.Start();
             if (!k.wrong) {
                 products.product.WaitIterateAll();
             }
             LocalTensor<float> local = k.in.AllocTensor<float>();
             DataCopy(local, k.workspace, Products::BLOCK);
             k.in.EnQue(local);
             local = k.in.DeQue<float>();
             k.in.FreeTensor(local);
             if (k.wrong) {
                 products.product.WaitIterateAll();
             }
             k.Finish();
         }},
        {"gm-bounds of a product",
         [](Kernel& k) {
             Products products(k);
             products.Register();
             products.product.SetTensorA(k.x);
             products.product.SetTensorB(k.x[k.wrong ? COUNT - Products::BLOCK + 8 : 0], true);
             products.product.IterateAll(k.workspace);
             k.Finish();
         }},
        {"pipe-hazard of a value that the scalar unit reads",
         [](Kernel& k) {
             k.Run([&](auto& result, auto& loaded) {
                 Adds(result, loaded, 1.0f, COUNT);
                 if (!k.wrong) {
                     const TEventID event = k.pipe.FetchEventID<HardEvent::V_S>();
                     SetFlag<HardEvent::V_S>(event);
                     WaitFlag<HardEvent::V_S>(event);
                 }
                 [[maybe_unused]] const float value = result.GetValue(0);
             });
         }},
        {"pipe-hazard of a value that the scalar unit writes",
         [](Kernel& k) {
             k.Run([&](auto& result, auto& loaded) {
                 LocalTensor<float> scratch = k.calc.Get<float>();
                 for (uint32_t i = 0; i < 8; ++i) {
                     scratch.SetValue(i, 1.0f);
                 }
                 if (!k.wrong) {
                     const TEventID event = k.pipe.FetchEventID<HardEvent::S_V>();
                     SetFlag<HardEvent::S_V>(event);
                     WaitFlag<HardEvent::S_V>(event);
                 }
                 Adds(scratch, scratch, 1.0f, 8);
                 Adds(result, loaded, 1.0f, COUNT);
             });
         }},
        {"pipe-hazard of a store and the scalar unit",
         [](Kernel& k) {
             k.Finish();
             PipeBarrier<PIPE_ALL>();
             LocalTensor<float> local = k.out.AllocTensor<float>();
             Duplicate(local, 1.0f, COUNT);
             k.out.EnQue(local);
             local = k.out.DeQue<float>();
             DataCopy(k.y, local, COUNT);
             if (!k.wrong) {
                 const TEventID event = k.pipe.FetchEventID<HardEvent::MTE3_S>();
                 SetFlag<HardEvent::MTE3_S>(event);
                 WaitFlag<HardEvent::MTE3_S>(event);
             }
             local.SetValue(0, 2.0f);
             k.out.FreeTensor(local);
         }},
        {"atomic-left",
         [](Kernel& k) {
             k.Finish();
             PipeBarrier<PIPE_ALL>();
             SetAtomicAdd<float>();
             k.Finish();
             if (!k.wrong) {
                 SetAtomicNone();
             }
         }},
    };
    return kernels;
}

// Each of two cores has half of the task.
const std::map<std::string, Body>& TwoCores()
{
    constexpr uint32_t HALF = COUNT / 2;
    static const std::map<std::string, Body> kernels = {
        {"gm-race",
         [](Kernel& k) {
             const auto core = static_cast<uint32_t>(GetBlockIdx());
             k.FinishShare(core * HALF, k.wrong && core == 0 ? HALF + 8 : HALF);
         }},
        {"gm-race without SyncAll",
         [](Kernel& k) {
             const auto core = static_cast<uint32_t>(GetBlockIdx());
             k.FinishShare(core * HALF, HALF);
             if (!k.wrong) {
                 SyncAll();
             }
             if (core == 1) {
                 LocalTensor<float> local = k.in.AllocTensor<float>();
                 DataCopy(local, k.y, HALF);
                 k.in.FreeTensor(local);
             }
         }},
        {"deadlock",
         [](Kernel& k) {
             const auto core = static_cast<uint32_t>(GetBlockIdx());
             k.FinishShare(core * HALF, HALF);
             if (core == 0 || !k.wrong) {
                 SyncAll();
             }
         }},
        {"atomic-order",
         [](Kernel& k) {
             const auto core = static_cast<uint32_t>(GetBlockIdx());
             k.FinishShare(core * HALF, HALF);
             SyncAll();
             SetAtomicAdd<float>();
             k.FinishShare(k.wrong ? 0 : core * HALF, HALF);
             SetAtomicNone();
         }},
    };
    return kernels;
}

// Each of the two vector cores of a group has parts of the task in turn.
const std::map<std::string, Body>& GroupedCores()
{
    static const std::map<std::string, Body> kernels = {
        {"gm-race of cores that count groups",
         [](Kernel& k) {
             constexpr uint32_t part = COUNT / 4;
             const int64_t cores = k.wrong ? GetBlockNum() : GetBlockNum() * GetTaskRation();
             for (int64_t i = GetBlockIdx(); i < 4; i += cores) {
                 k.FinishShare(static_cast<uint32_t>(i) * part, part);
             }
         }},
        {"gm-race of cores that count themselves",
         [](Kernel& k) {
             const int64_t core = k.wrong ? GetBlockIdx() / GetTaskRation()
                                          : GetBlockIdx() / GetTaskRation() * GetSubBlockNum() + GetSubBlockIdx();
             k.FinishShare(static_cast<uint32_t>(core) * COUNT / 2, COUNT / 2);
         }},
    };
    return kernels;
}

int Run(const Body& body, bool wrong, uint32_t cores, uint64_t tilingBytes = 8,
        host::KernelType type = host::KernelType::AIV_ONLY)
{
    alignas(512) static float x[COUNT];
    alignas(512) static float y[COUNT];
    for (uint32_t i = 0; i < COUNT; ++i) {
        x[i] = static_cast<float>(i);
    }
    void* const far =
        mmap(nullptr, FAR_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    host::DescribeLaunch("wrong_kernels", {{"x", reinterpret_cast<const char*>(x), BYTES, host::Dtype::FLOAT, false},
                                           {"far", static_cast<const char*>(far), FAR_BYTES, host::Dtype::FLOAT, false},
                                           {"y", reinterpret_cast<const char*>(y), BYTES, host::Dtype::FLOAT, true}});
    host::DescribeTiling(x, tilingBytes);
    host::Launch(
        {cores, BYTES}, {}, {},
        [&](GM_ADDR workspace) {
            Kernel kernel(reinterpret_cast<GM_ADDR>(x), reinterpret_cast<GM_ADDR>(y), static_cast<GM_ADDR>(far),
                          workspace, wrong);
            body(kernel);
        },
        type);
    return 0;
}

}  // namespace

int main(int argc, char** argv)
{
    if (argc == 1) {
        for (const auto* kernels : {&OneCore(), &TwoCores(), &GroupedCores()}) {
            for (const auto& [name, body] : *kernels) {
                std::puts(name.c_str());
            }
        }
        std::puts("block-dim\ntiling-size");
        return 0;
    }
    std::string name = argv[1];
    const bool wrong = argc < 3 || std::strcmp(argv[2], "ok") != 0;
    if (OneCore().count(name) > 0) {
        return Run(OneCore().at(name), wrong, 1);
    }
    if (TwoCores().count(name) > 0) {
        return Run(TwoCores().at(name), wrong, 2);
    }
    if (GroupedCores().count(name) > 0) {
        return Run(GroupedCores().at(name), wrong, 2, 8, host::KernelType::MIX_AIC_1_2);
    }
    if (name == "block-dim") {
        host::TheExecutor().SetThreadNum(1);
        return Run([](Kernel& k) { k.Finish(); }, wrong, wrong ? 2 : 1);
    }
    if (name == "tiling-size") {
        return Run([](Kernel& k) { k.Finish(); }, wrong, 1, wrong ? 12 : 16);
    }
    std::fprintf(stderr, "wrong_kernels: there is no %s\n", name.c_str());
    return 2;
}
