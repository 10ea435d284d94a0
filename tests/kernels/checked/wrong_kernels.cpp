/*!
 * Small kernels for the tests of the checked build: y = x + 1 on 512 floats, spelled right and in many wrong ways.
 *
 *     wrong_kernels <name>     runs one; with "ok" after it, the correct counterpart
 *
 * A name is a rule, or a rule and what is special. What has stored nothing does the task at its end.
 */
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <set>
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
        stored = true;
        out.EnQue(local);
        local = out.DeQue<float>();
        DataCopy(y[offset], local, count);
        out.FreeTensor(local);
    }
    // A tensor that goes through the queue and is not looked at; `copy` fills it.
    void Copied(const std::function<void(LocalTensor<float>&)>& copy)
    {
        LocalTensor<float> local = in.AllocTensor<float>();
        copy(local);
        in.EnQue(local);
        local = in.DeQue<float>();
        in.FreeTensor(local);
    }
    LocalTensor<float> Ones()
    {
        LocalTensor<float> scratch = calc.Get<float>();
        Duplicate(scratch, 1.0f, COUNT);
        return scratch;
    }
    // Lets a unit wait for another, unless that is the fault.
    template <HardEvent EVENT>
    void Order()
    {
        if (!wrong) {
            SetFlag<EVENT>(1);
            WaitFlag<EVENT>(1);
        }
    }
    void Zeros(GlobalTensor<float> to)
    {
        LocalTensor<float> local = out.AllocTensor<float>();
        Duplicate(local, 0.0f, COUNT);
        out.EnQue(local);
        local = out.DeQue<float>();
        DataCopy(to, local, COUNT);
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
    bool stored = false;
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

struct Registered : Products {
    explicit Registered(Kernel& kernelIn) : Products(kernelIn) { Register(); }
};

// Whether this is the kernel that was asked for.
std::string asked;
bool known = false;

bool Is(const char* name)
{
    known = known || asked == name;
    return asked == name;
}

void OneCore(Kernel& k)
{
    if (Is("ub-capacity")) {
        TBuf<TPosition::VECCALC> more;
        k.pipe.InitBuffer(more, k.wrong ? host::UB_BYTES : 1024);
    }
    if (Is("buffer-count")) {
        std::vector<TBuf<TPosition::VECCALC>> more(k.wrong ? 60 : 50);
        for (auto& buffer : more) {
            k.pipe.InitBuffer(buffer, 32);
        }
    }
    if (Is("queue-buffers")) {
        TQue<TPosition::VECIN, 1> more;
        k.pipe.InitBuffer(more, k.wrong ? 7 : 6, 32);
    }
    if (Is("ub-bounds")) {
        k.Run([&](auto& result, auto& loaded) { Adds(result, loaded, 1.0f, k.wrong ? COUNT + 8 : COUNT); });
    }
    if (Is("ub-bounds of a repeat")) {
        k.Run([&](auto& result, auto& loaded) {
            Adds(result, loaded, 1.0f, 64, 8, {1, 1, 8, static_cast<uint8_t>(k.wrong ? 9 : 8)});
        });
    }
    if (Is("ub-bounds of another buffer")) {
        k.Run([&](auto& result, auto& loaded) { Adds(result, loaded[k.wrong ? 8 : 0], 1.0f, COUNT); });
    }
    if (Is("ub-freed")) {
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
    }
    if (Is("ub-freed by Reset")) {
        LocalTensor<float> before = k.calc.Get<float>();
        k.Finish();
        k.pipe.Reset();
        TBuf<TPosition::VECCALC> after;
        k.pipe.InitBuffer(after, BYTES);
        Duplicate(k.wrong ? before : after.Get<float>(), 0.0f, 8);
    }
    if (Is("ub-index")) {
        k.Run([&](auto& result, auto& loaded) {
            [[maybe_unused]] const LocalTensor<float> none = loaded[k.wrong ? COUNT : COUNT - 8];
            Adds(result, loaded, 1.0f, COUNT);
        });
    }
    if (Is("ub-unassigned")) {
        k.Run([&](auto& result, auto& loaded) {
            LocalTensor<float> scratch;
            if (!k.wrong) {
                scratch = k.calc.Get<float>();
            }
            [[maybe_unused]] const LocalTensor<float> unused = scratch[8];
            Adds(result, loaded, 1.0f, COUNT);
        });
    }
    if (Is("ub-uninitialized")) {
        k.Run([&](auto& result, auto& loaded) { Adds(result, loaded, 1.0f, k.wrong ? COUNT - 8 : COUNT); });
    }
    if (Is("ub-uninitialized padding")) {
        LocalTensor<float> local = k.in.AllocTensor<float>();
        // 63 columns of 8 rows; the last column of each is 0, or nothing
        DataCopyPad(local, k.x, {8, 63 * 4, 4, 0, 0}, {!k.wrong, 0, static_cast<uint8_t>(k.wrong ? 0 : 1), 0.0f});
        k.in.EnQue(local);
        local = k.in.DeQue<float>();
        LocalTensor<float> sums = k.calc.Get<float>();
        WholeReduceSum(sums, local, 64, 8, 1, 1, 8);
        k.in.FreeTensor(local);
    }
    if (Is("alignment")) {
        LocalTensor<float> scratch = k.calc.Get<float>();
        Duplicate(scratch[k.wrong ? 4 : 8], 0.0f, 64);
    }
    if (Is("dtype")) {
        const LocalTensor<float> scratch = k.Ones();
        LocalTensor<half> narrow = scratch[64].ReinterpretCast<half>();
        Cast(narrow, scratch, RoundMode::CAST_RINT, 64);
        if (k.wrong) {
            Cast(scratch[128].ReinterpretCast<bfloat16_t>(), narrow, RoundMode::CAST_RINT, 64);
        } else {
            Cast(scratch[128], narrow, RoundMode::CAST_NONE, 64);
        }
    }
    if (Is("round-mode")) {
        const LocalTensor<float> scratch = k.Ones();
        Cast(scratch[64].ReinterpretCast<bfloat16_t>(), scratch, k.wrong ? RoundMode::CAST_NONE : RoundMode::CAST_RINT,
             64);
    }
    if (Is("repeat-times")) {
        const LocalTensor<float> scratch = k.Ones();
        WholeReduceSum(scratch[128], scratch, 8, k.wrong ? 256 : 255, 1, 1, 0);
    }
    if (Is("mask")) {
        k.Run([&](auto& result, auto& loaded) {
            Adds(result, loaded, 1.0f, static_cast<uint64_t>(k.wrong ? 65 : 64), 7, {1, 1, 8, 8});
            Adds(result[448], loaded[448], 1.0f, 64);
        });
    }
    if (Is("mask-state")) {
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
    }
    if (Is("stride")) {
        const LocalTensor<float> scratch = k.Ones();
        WholeReduceSum(scratch, scratch, 64, 1, 1, 1, k.wrong ? -8 : 8);
    }
    if (Is("overlap")) {
        const LocalTensor<float> scratch = k.Ones();
        Adds(scratch[k.wrong ? 8 : 256], scratch, 1.0f, 256);
    }
    if (Is("overlap of repeats")) {
        const LocalTensor<float> scratch = k.Ones();
        // each repeat reads what the one before wrote; only source 1 may
        if (k.wrong) {
            Add(scratch, scratch, scratch[64], 64, 4, {1, 1, 1, 0, 0, 8});
        } else {
            Add(scratch, scratch[64], scratch, 64, 4, {1, 1, 1, 0, 8, 0});
        }
    }
    if (Is("gather-offset")) {
        k.Run([&](auto& result, auto& loaded) {
            LocalTensor<int32_t> offsets = k.calc.Get<int32_t>();
            Duplicate(offsets, static_cast<int32_t>(k.wrong ? BYTES : BYTES - 4), COUNT);
            Gather(result, loaded, k.calc.Get<uint32_t>(), 0u, COUNT);
        });
    }
    if (Is("copy-length")) {
        LocalTensor<float> loaded = k.Load(0, k.wrong ? COUNT - 1 : COUNT);
        k.in.FreeTensor(loaded);
    }
    if (Is("copy-params")) {
        k.Copied(
            [&](auto& local) { DataCopyPad(local, k.x, {1, k.wrong ? 1022u : 1024u, 0, 0, 0}, {false, 0, 0, 0.0f}); });
    }
    if (Is("padding")) {
        k.Copied([&](auto& local) {
            DataCopyPad(local, k.x, {1, 1024, 0, 0, 0}, {true, 0, static_cast<uint8_t>(k.wrong ? 16 : 8), 0.0f});
        });
    }
    if (Is("copy-position")) {
        k.Copied([&](auto& local) {
            DataCopyPad(k.wrong ? k.calc.Get<float>() : local, k.x, {1, 1024, 0, 0, 0}, {false, 0, 0, 0.0f});
        });
    }
    if (Is("queue-alloc")) {
        LocalTensor<float> tensors[3];
        for (int i = 0; i < (k.wrong ? 3 : 2); ++i) {
            tensors[i] = k.in.AllocTensor<float>();
        }
        k.in.FreeTensor(tensors[0]);
        k.in.FreeTensor(tensors[1]);
    }
    if (Is("queue-enque")) {
        LocalTensor<float> mine = k.out.AllocTensor<float>();
        LocalTensor<float> foreign = k.in.AllocTensor<float>();
        Duplicate(mine, 0.0f, COUNT);
        k.out.EnQue(k.wrong ? foreign : mine);
        mine = k.out.DeQue<float>();
        k.out.FreeTensor(mine);
        k.in.FreeTensor(foreign);
    }
    if (Is("queue-depth")) {
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
    }
    if (Is("queue-deque")) {
        LocalTensor<float> local = k.in.AllocTensor<float>();
        if (!k.wrong) {
            k.in.EnQue(local);
        }
        local = k.in.DeQue<float>();
        k.in.FreeTensor(local);
    }
    if (Is("queue-free")) {
        LocalTensor<float> local = k.in.AllocTensor<float>();
        k.in.FreeTensor(local);
        if (k.wrong) {
            k.in.FreeTensor(local);
        }
    }
    if (Is("queue-free while queued")) {
        LocalTensor<float> local = k.in.AllocTensor<float>();
        k.in.EnQue(local);
        if (!k.wrong) {
            local = k.in.DeQue<float>();
        }
        k.in.FreeTensor(local);
    }
    if (Is("queue-leak")) {
        k.Finish();
        LocalTensor<float> local = k.in.AllocTensor<float>();
        if (!k.wrong) {
            k.in.FreeTensor(local);
        }
    }
    if (Is("pipe-hazard")) {  // V reads what MTE2 is still writing
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
    }
    if (Is("pipe-hazard at the end")) {  // MTE3 reads what V is still writing
        LocalTensor<float> loaded = k.Load();
        LocalTensor<float> result = k.out.AllocTensor<float>();
        Adds(result, loaded, 1.0f, COUNT);
        k.in.FreeTensor(loaded);
        if (!k.wrong) {
            k.out.EnQue(result);
            result = k.out.DeQue<float>();
        }
        k.stored = true;
        DataCopy(k.y, result, COUNT);
        k.out.FreeTensor(result);
    }
    if (Is("pipe-hazard on a TBuf")) {  // write after read: MTE2 overwrites what V is still reading
        LocalTensor<float> scratch = k.calc.Get<float>();
        LocalTensor<float> loaded = k.Load();
        DataCopy(scratch, k.x, COUNT);
        SetFlag<HardEvent::MTE2_V>(1);
        WaitFlag<HardEvent::MTE2_V>(1);
        LocalTensor<float> result = k.out.AllocTensor<float>();
        Add(result, loaded, scratch, COUNT);
        k.Order<HardEvent::V_MTE2>();
        DataCopy(scratch, k.x, COUNT);
        k.in.FreeTensor(loaded);
        k.Store(result);
    }
    if (Is("pipe-hazard in global memory")) {  // MTE2 reads back what MTE3 is still writing
        k.Finish();
        LocalTensor<float> local = k.in.AllocTensor<float>();
        k.Order<HardEvent::MTE3_MTE2>();
        DataCopy(local, k.y, COUNT);
        k.in.FreeTensor(local);
    }
    if (Is("mte-overlap")) {
        for (int i = 0; i < 2; ++i) {
            k.Finish();
            if (!k.wrong) {
                PipeBarrier<PIPE_MTE3>();
            }
        }
    }
    if (Is("flag-pair without SetFlag")) {
        if (!k.wrong) {
            SetFlag<HardEvent::V_MTE3>(2);
        }
        WaitFlag<HardEvent::V_MTE3>(2);
    }
    if (Is("flag-pair without WaitFlag")) {
        SetFlag<HardEvent::V_MTE3>(2);
        if (!k.wrong) {
            WaitFlag<HardEvent::V_MTE3>(2);
        }
    }
    if (Is("flag-pair with SetFlag twice")) {
        SetFlag<HardEvent::V_MTE3>(2);
        SetFlag<HardEvent::V_MTE3>(k.wrong ? 2 : 3);
        WaitFlag<HardEvent::V_MTE3>(2);
        WaitFlag<HardEvent::V_MTE3>(3);
    }
    if (Is("event-id")) {
        SetFlag<HardEvent::V_MTE3>(k.wrong ? 8 : 7);
        WaitFlag<HardEvent::V_MTE3>(k.wrong ? 8 : 7);
    }
    if (Is("barrier-pipe")) {
        if (k.wrong) {
            PipeBarrier<PIPE_S>();
        } else {
            PipeBarrier<PIPE_V>();
        }
    }
    if (Is("gm-bounds")) {
        GlobalTensor<float> x;  // its size is not given, so only the argument's can be broken
        x.SetGlobalBuffer(k.x.GetPhyAddr(0));
        k.Copied([&](auto& local) { DataCopy(local, x[k.wrong ? 8 : 0], COUNT); });
    }
    if (Is("gm-bounds of a GlobalTensor")) {
        GlobalTensor<float> half;
        half.SetGlobalBuffer(k.x.GetPhyAddr(0), COUNT / 2);
        k.Copied([&](auto& local) { DataCopy(local, half, k.wrong ? COUNT : COUNT / 2); });
    }
    if (Is("gm-input")) {
        k.Zeros(k.wrong ? k.x : k.workspace);
    }
    if (Is("gm-uninitialized")) {
        if (!k.wrong) {
            k.Zeros(k.workspace);
            PipeBarrier<PIPE_ALL>();
        }
        LocalTensor<float> local = k.in.AllocTensor<float>();
        DataCopy(local, k.workspace, COUNT);
        k.in.FreeTensor(local);
    }
    if (Is("gm-unwritten")) {
        k.FinishShare(0, k.wrong ? COUNT - 8 : COUNT);
    }
    if (Is("atomic-dtype")) {
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
    }
    if (Is("matmul-init")) {
        Products products(k);
        if (!k.wrong) {
            products.Register();
        }
        products.Run();
    }
    if (Is("matmul-shape")) {
        Registered products(k);
        products.product.SetSingleShape(Products::SIDE, Products::SIDE + (k.wrong ? 1 : 0), Products::SIDE);
        products.Run();
    }
    if (Is("matmul-stride")) {
        Registered products(k);
        products.product.SetOrgShape(Products::SIDE, Products::SIDE, Products::SIDE, k.wrong ? 8 : 16);
        products.Run();
    }
    if (Is("matmul-transpose")) {
        Registered products(k);
        products.plain.SetTensorA(k.x);
        products.plain.SetTensorB(k.x, k.wrong);
        products.plain.IterateAll(k.workspace);
        products.Run();
    }
    if (Is("matmul-capacity")) {
        Products products(k);
        products.Register(k.wrong ? 1024 : 16);
        products.Run();
    }
    if (Is("matmul-capacity of a bias")) {
        Products products(k);
        ms_ascend_ops::CubeTiling tiling = Products::Tiling();
        tiling.isBias = 1;
        tiling.baseN = k.wrong ? 272 : 256;
        REGIST_MATMUL_OBJ(&k.pipe, GetSysWorkSpacePtr(), products.product, &tiling);
    }
    if (Is("matmul-base")) {
        Products products(k);
        products.Register(k.wrong ? 8 : 16);
        products.Run();
    }
    if (Is("matmul-base of bytes")) {
        using Bytes = matmul::MatmulType<TPosition::GM, CubeFormat::ND, int8_t>;
        using Sums = matmul::MatmulType<TPosition::GM, CubeFormat::ND, int32_t>;
        Matmul<Bytes, Bytes, Sums> product;
        ms_ascend_ops::CubeTiling tiling = Products::Tiling();
        tiling.baseK = k.wrong ? 16 : 32;
        REGIST_MATMUL_OBJ(&k.pipe, GetSysWorkSpacePtr(), product, &tiling);
    }
    if (Is("matmul-base of floats")) {
        Products products(k);
        ms_ascend_ops::CubeTiling tiling = Products::Tiling();
        tiling.singleCoreK = k.wrong ? 24 : 32;
        REGIST_MATMUL_OBJ(&k.pipe, GetSysWorkSpacePtr(), products.product, &tiling);
    }
    if (Is("cube-range")) {
        Products(k).OfRows<CFG_MDL>(k.wrong ? 65536 : 65535);
    }
    if (Is("cube-range of a transposed operand")) {
        Products(k).OfRows<CFG_MDL, true>(k.wrong ? 65536 : 65535);
    }
    if (Is("cube-range with base blocks by themselves")) {
        Products(k).OfRows<CFG_NORM>(k.wrong ? 65536 : 65535);
    }
    if (Is("cube-range without intrinsicsCheck")) {
        if (k.wrong) {
            Products(k).OfRows<CFG_MDL>(1 << 20);
        } else {
            Products(k).OfRows<ROW_BY_ROW>(1 << 20);
        }
    }
    if (Is("cube-range of rows by themselves")) {
        Products(k).OfRows<ROW_BY_ROW>(k.wrong ? INT32_MAX : INT32_MAX / 2);
    }
    if (Is("cube-range of the result")) {
        Registered products(k);
        products.product.SetOrgShape(Products::SIDE, Products::SIDE, Products::SIDE, Products::SIDE,
                                     k.wrong ? -1 : Products::SIDE);
        products.Run();
    }
    if (Is("matmul-bias")) {
        Products products(k);
        products.Register(16, k.wrong ? 0 : 1);
        products.product.SetBias(k.x);
        products.Run();
    }
    if (Is("matmul-wait")) {
        Registered products(k);
        products.Run();
        if (k.wrong) {
            products.product.WaitIterateAll();
        }
    }
    if (Is("matmul-wait that does not come")) {
        Registered products(k);
        products.Start();
        if (!k.wrong) {
            products.product.WaitIterateAll();
        }
    }
    if (Is("matmul-block")) {
        Registered products(k);
        products.Blocks();
        if (k.wrong) {
            products.product.GetTensorC(k.workspace);
        }
        products.Run();
    }
    if (Is("matmul-block that is not taken")) {
        Registered products(k);
        products.Blocks(!k.wrong);
        products.Run();
    }
    if (Is("matmul-shape of blocks")) {
        Registered products(k);
        products.product.SetSingleShape(Products::SIDE + (k.wrong ? 1 : 0), Products::SIDE, Products::SIDE);
        products.Blocks();
        products.Run();
    }
    if (Is("pipe-hazard of a result that is not there")) {
        Registered products(k);
        products.Start();
        if (!k.wrong) {
            products.product.WaitIterateAll();
        }
        k.Copied([&](auto& local) { DataCopy(local, k.workspace, Products::BLOCK); });
        if (k.wrong) {
            products.product.WaitIterateAll();
        }
    }
    if (Is("gm-bounds of a product")) {
        Registered products(k);
        products.product.SetTensorA(k.x);
        products.product.SetTensorB(k.x[k.wrong ? COUNT - Products::BLOCK + 8 : 0], true);
        products.product.IterateAll(k.workspace);
    }
    if (Is("pipe-hazard of a value that the scalar unit reads")) {
        k.Run([&](auto& result, auto& loaded) {
            Adds(result, loaded, 1.0f, COUNT);
            if (!k.wrong) {
                const TEventID event = k.pipe.FetchEventID<HardEvent::V_S>();
                SetFlag<HardEvent::V_S>(event);
                WaitFlag<HardEvent::V_S>(event);
            }
            [[maybe_unused]] const float value = result.GetValue(0);
        });
    }
    if (Is("pipe-hazard of a value that the scalar unit writes")) {
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
    }
    if (Is("pipe-hazard of a store and the scalar unit")) {
        k.Finish();
        PipeBarrier<PIPE_ALL>();
        LocalTensor<float> local = k.out.AllocTensor<float>();
        Duplicate(local, 1.0f, COUNT);
        k.out.EnQue(local);
        local = k.out.DeQue<float>();
        DataCopy(k.y, local, COUNT);
        k.Order<HardEvent::MTE3_S>();
        local.SetValue(0, 2.0f);
        k.out.FreeTensor(local);
    }
    if (Is("atomic-left")) {
        k.Finish();
        PipeBarrier<PIPE_ALL>();
        SetAtomicAdd<float>();
        k.Finish();
        if (!k.wrong) {
            SetAtomicNone();
        }
    }
}

// Each of two cores has half of the task.
const std::set<std::string> PAIRS = {"gm-race", "gm-race without SyncAll", "deadlock", "atomic-order"};

void TwoCores(Kernel& k)
{
    constexpr uint32_t HALF = COUNT / 2;
    const auto core = static_cast<uint32_t>(GetBlockIdx());
    if (Is("gm-race")) {
        k.FinishShare(core * HALF, k.wrong && core == 0 ? HALF + 8 : HALF);
    }
    if (Is("gm-race without SyncAll")) {
        k.FinishShare(core * HALF, HALF);
        if (!k.wrong) {
            SyncAll();
        }
        if (core == 1) {
            LocalTensor<float> local = k.in.AllocTensor<float>();
            DataCopy(local, k.y, HALF);
            k.in.FreeTensor(local);
        }
    }
    if (Is("deadlock")) {
        k.FinishShare(core * HALF, HALF);
        if (core == 0 || !k.wrong) {
            SyncAll();
        }
    }
    if (Is("atomic-order")) {
        k.FinishShare(core * HALF, HALF);
        SyncAll();
        SetAtomicAdd<float>();
        k.FinishShare(k.wrong ? 0 : core * HALF, HALF);
        SetAtomicNone();
    }
}

// Each of the two vector cores of a group has parts of the task in turn.
const std::set<std::string> GROUPED = {"gm-race of cores that count groups", "gm-race of cores that count themselves"};

void GroupedCores(Kernel& k)
{
    if (Is("gm-race of cores that count groups")) {
        constexpr uint32_t part = COUNT / 4;
        const int64_t cores = k.wrong ? GetBlockNum() : GetBlockNum() * GetTaskRation();
        for (int64_t i = GetBlockIdx(); i < 4; i += cores) {
            k.FinishShare(static_cast<uint32_t>(i) * part, part);
        }
    }
    if (Is("gm-race of cores that count themselves")) {
        const int64_t core = k.wrong ? GetBlockIdx() / GetTaskRation()
                                     : GetBlockIdx() / GetTaskRation() * GetSubBlockNum() + GetSubBlockIdx();
        k.FinishShare(static_cast<uint32_t>(core) * COUNT / 2, COUNT / 2);
    }
}

void Run(bool wrong)
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
    host::DescribeTiling(x, Is("tiling-size") ? (wrong ? 12 : 16) : 8);
    const bool grouped = GROUPED.count(asked) > 0;
    const bool alone = Is("block-dim") && wrong;  // one core where there are two blocks
    if (alone) {
        host::TheExecutor().SetThreadNum(1);
    }
    host::Launch(
        {grouped || alone || PAIRS.count(asked) > 0 ? 2U : 1U, BYTES}, {}, {},
        [&](GM_ADDR workspace) {
            Kernel kernel(reinterpret_cast<GM_ADDR>(x), reinterpret_cast<GM_ADDR>(y), static_cast<GM_ADDR>(far),
                          workspace, wrong);
            OneCore(kernel);
            TwoCores(kernel);
            GroupedCores(kernel);
            if (!kernel.stored) {
                kernel.Finish();
            }
        },
        grouped ? host::KernelType::MIX_AIC_1_2 : host::KernelType::AIV_ONLY);
}

}  // namespace

int main(int argc, char** argv)
{
    asked = argc > 1 ? argv[1] : "";
    Run(argc < 3 || std::strcmp(argv[2], "ok") != 0);
    if (!known) {
        std::fprintf(stderr, "wrong_kernels: there is no %s\n", asked.c_str());
    }
    return known ? 0 : 2;
}
