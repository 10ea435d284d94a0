/*!
 * Implements the Observer of the checked build, which hands each call to the checks it needs.
 */
#include <algorithm>
#include <cstring>
#include <memory>

#include "checked/global_memory.h"
#include "checked/instructions.h"
#include "checked/local_memory.h"
#include "checked/order.h"
#include "checked/pieces.h"
#include "checked/products.h"
#include "checked/queues.h"
#include "checked/rules.h"
#include "runtime/launch.h"

namespace AscendC {
namespace host {
namespace {

struct CheckedCore {
    Order order;
    LocalMemory memory;
    Queues queues;
    MaskRegister mask;
    bool atomicAdd = false;
    Dtype atomicDtype = Dtype::FLOAT;
    Event atomicSet;        // SetAtomicAdd
    Event last;             // the last call
    uint32_t products = 0;  // products that are still to be waited for
};

// Finds the rows of a matrix in global memory.
GlobalSpan SpanOf(const GlobalOperand& operand, const Matrix& matrix, uint32_t rows, uint32_t cols, uint32_t bytes)
{
    return {operand.offset, matrix.transposed ? cols : rows, (matrix.transposed ? rows : cols) * bytes,
            matrix.stride * static_cast<int64_t>(bytes)};
}

class Checker : public Observer {
public:
    void LaunchBegin(const LaunchInfo& launch) override
    {
        Event event;
        event.name = "the launch";
        const uint32_t groups = (TheExecutor().Platform().coreNum + launch.group - 1) / launch.group;
        if (launch.blockDim < 1 || launch.blockDim > groups * launch.group) {
            Violation(Rule::BLOCK_DIM, event, "blockDim is %u, the chip has %u cores", launch.blockDim,
                      TheExecutor().Platform().coreNum);
        }
        constexpr uint64_t multiple = 8;
        if (launch.tilingBytes % multiple != 0) {
            Violation(Rule::TILING_SIZE, event, "%lu bytes", static_cast<unsigned long>(launch.tilingBytes));
        }
        cores_.clear();
        cores_.resize(launch.blockDim);
        global_.Begin(launch);
    }
    void LaunchEnd() override
    {
        Event event = lastCall_;
        event.name = "the launch, whose last call this was,";
        global_.End(event);
        cores_.clear();
    }
    void CoreBegin(uint32_t core) override
    {
        cores_[core] = std::make_unique<CheckedCore>();
        global_.CoreBegin(core);
    }
    void CoreEnd(uint32_t core) override
    {
        CheckedCore& self = *cores_[core];
        Event event = self.last;
        event.core = core;
        self.queues.End(event);
        if (self.products > 0) {
            Violation(Rule::MATMUL_WAIT, event, "%u products are not waited for when the kernel ends", self.products);
        }
        if (self.atomicAdd) {
            Violation(Rule::ATOMIC_LEFT, self.atomicSet, "atomic addition is on when the kernel ends");
        }
        if (self.mask.IsCounter()) {
            Note(Rule::NOTE_MASK_LEFT, event);
        }
        cores_[core].reset();
    }
    void PhaseEnd() override { global_.PhaseEnd(); }

    void OnVector(const VectorEvent& event) override
    {
        CheckedCore& core = Begin(event);
        core.mask.Vector(event);
        for (uint32_t i = 0; i < event.accessCount; ++i) {
            const Access& access = event.accesses[i];
            core.queues.CheckUse(event, access);
            if (event.elements > 0) {
                ForPieces(access,
                          [&](int64_t offset, uint32_t bytes) { core.memory.Bounds(event, access, offset, bytes); });
            }
        }
        CheckInstruction(event);
        if (event.elements == 0) {
            return;
        }
        const uint32_t number = core.order.Number(event);
        const bool gathers = event.accessCount > 1 && event.accesses[1].indirect;
        const bool followed = IsElementwise(event) || std::strcmp(event.name, "GatherMask") == 0;
        bool defined = true;
        for (uint32_t i = 1; i < event.accessCount; ++i) {
            if (event.accesses[i].indirect) {
                continue;
            }
            ForPieces(event.accesses[i], [&](int64_t offset, uint32_t bytes) {
                defined &= core.memory.Read(event, number, core.order, static_cast<uint32_t>(offset), bytes, !followed);
            });
        }
        std::vector<bool> undefined;
        if (gathers) {
            undefined = Gather(event, number, core, event.accesses[1], event.accesses[2]);
            defined = std::find(undefined.begin(), undefined.end(), true) == undefined.end();
        } else if (!defined) {
            undefined = Undefined(event, core.memory);
        }
        ForPieces(event.accesses[0], [&](int64_t offset, uint32_t bytes) {
            core.memory.Write(event, number, core.order, static_cast<uint32_t>(offset), bytes);
        });
        if (!defined) {
            Note(Rule::NOTE_UNDEFINED_LANES, event);
            size_t element = 0;
            ForElements(event.accesses[0], [&](uint32_t offset) {
                if (undefined[element++]) {
                    core.memory.Forget(offset, SizeOf(event.accesses[0].dtype));
                }
            });
        }
    }

    void OnCopy(const CopyEvent& event) override
    {
        CheckedCore& core = Begin(event);
        core.queues.CheckUse(event, event.local);
        CheckParams(event);
        if (event.rows == 0 || event.rowBytes == 0) {
            return;
        }
        const uint32_t number = core.order.Number(event);
        const GlobalSpan span{event.global.offset, event.rows, event.rowBytes, event.globalStride};
        const uint32_t localBytes = event.toLocal ? event.paddedBytes : event.rowBytes;
        for (uint32_t row = 0; row < event.rows; ++row) {
            const int64_t offset = event.local.offset + row * event.localStride;
            core.memory.Bounds(event, event.local, offset, localBytes);
        }
        if (event.toLocal) {
            global_.Read(event, number, core.order, event.global, span);
        } else if (event.atomicAdd && event.local.dtype != core.atomicDtype) {
            Violation(Rule::ATOMIC_DTYPE, event, "%s while SetAtomicAdd<%s> of %s:%u is on", NameOf(event.local.dtype),
                      NameOf(core.atomicDtype), ShortPath(core.atomicSet.where.file), core.atomicSet.where.line);
        }
        for (uint32_t row = 0; row < event.rows; ++row) {
            const auto offset = static_cast<uint32_t>(event.local.offset + row * event.localStride);
            if (event.toLocal) {
                core.memory.Write(event, number, core.order, offset, event.paddedBytes);
                Undefine(event, core.memory, offset);
            } else {
                core.memory.Read(event, number, core.order, offset, event.rowBytes, true);
            }
        }
        if (!event.toLocal) {
            const bool isFloat = event.local.dtype == Dtype::FLOAT || event.local.dtype == Dtype::HALF ||
                                 event.local.dtype == Dtype::BFLOAT16;
            global_.Write(event, number, core.order, event.global, span, event.atomicAdd && isFloat, event.atomicAdd);
        }
        constexpr uint32_t fullRate = 512;
        if (event.rowBytes < fullRate && event.rows > 1) {
            Note(Rule::NOTE_SMALL_COPY, event);
        }
    }

    void OnProduct(const ProductEvent& event) override
    {
        CheckedCore& core = Begin(event);
        CheckProduct(event);
        if (event.call == ProductCall::ITERATE_ALL || event.call == ProductCall::GET_TENSOR_C) {
            const Product& product = event.product;
            const MatmulState& matmul = *event.matmul;
            core.order.StartProduct();
            const uint32_t number = core.order.Number(event);
            const uint32_t bytes = matmul.limits.form.elementBytes;
            core.products += !event.sync && event.willWait ? 1 : 0;
            global_.Read(event, number, core.order, matmul.a, SpanOf(matmul.a, product.a, product.m, product.k, bytes));
            global_.Read(event, number, core.order, matmul.b, SpanOf(matmul.b, product.b, product.k, product.n, bytes));
            if (product.bias != nullptr) {
                global_.Read(event, number, core.order, matmul.bias,
                             {matmul.bias.offset, 1, product.n * static_cast<uint32_t>(sizeof(float)), 0});
            }
            const GlobalSpan result = SpanOf(event.result, product.c, product.m, product.n, SizeOf(event.result.dtype));
            if (product.accumulate) {
                global_.Read(event, number, core.order, event.result, result);
            }
            global_.Write(event, number, core.order, event.result, result, false, false);
            if (event.sync) {
                core.order.WaitForProducts();
            }
        } else if (event.call == ProductCall::WAIT) {
            --core.products;
            core.order.WaitForProducts();
        }
    }

    void OnScalar(const ScalarEvent& event) override
    {
        CheckedCore& core = Begin(event);
        const uint32_t number = core.order.Number(event);
        if (event.isLocal) {
            const uint32_t bytes = SizeOf(event.local.dtype);
            core.queues.CheckUse(event, event.local);
            core.memory.Bounds(event, event.local, event.local.offset, bytes);
            if (event.written) {
                core.memory.Write(event, number, core.order, event.local.offset, bytes);
            } else {
                core.memory.Read(event, number, core.order, event.local.offset, bytes, true);
            }
            return;
        }
        const GlobalSpan span{event.global.offset, 1, SizeOf(event.global.dtype), 0};
        if (event.written) {
            global_.Write(event, number, core.order, event.global, span, false, false);
        } else {
            global_.Read(event, number, core.order, event.global, span);
        }
    }

    void OnUnassigned(const Event& event) override
    {
        Violation(Rule::UB_UNASSIGNED, event, "a LocalTensor to which none was assigned");
    }

    void OnIndexBeyond(const Event& event, uint32_t offset, uint32_t bytes) override
    {
        Violation(Rule::UB_INDEX, event, "byte %u of a tensor of %u bytes", offset, bytes);
    }

    void OnQueue(const QueueEvent& event) override
    {
        CheckedCore& core = Begin(event);
        core.queues.Call(event, core.order, core.memory);
    }
    void OnSync(const SyncEvent& event) override
    {
        CheckedCore& core = Begin(event);
        core.queues.Sync(event, core.order);
    }
    void OnEventId(const EventIdEvent& event) override { Begin(event).queues.EventId(event); }
    void OnSetting(const SettingEvent& event) override
    {
        CheckedCore& core = Begin(event);
        core.mask.Set(event);
        if (event.call == SettingCall::ATOMIC_ADD) {
            CheckAtomic(event);
            core.atomicAdd = true;
            core.atomicDtype = event.dtype;
            core.atomicSet = event;
        } else if (event.call == SettingCall::ATOMIC_NONE) {
            core.atomicAdd = false;
        }
    }
    void OnInit(const InitEvent& event) override
    {
        CheckedCore& core = Begin(event);
        core.queues.Init(event, core.memory);
    }
    void OnReset(const Event& event) override
    {
        CheckedCore& core = Begin(event);
        core.queues.Reset(event, core.order);
    }
    [[noreturn]] void OnDeadlock(const std::vector<uint32_t>& waiting) override
    {
        const Event& event = cores_[waiting.front()]->last;
        Violation(Rule::DEADLOCK, event, "%zu of %u cores wait here, the others have ended", waiting.size(),
                  CurrentLaunch().blockDim);
    }

private:
    CheckedCore& Begin(const Event& event)
    {
        CheckedCore& core = *cores_[event.core];
        core.last = event;
        lastCall_ = event;
        return core;
    }

    // Says for each element of the destination whether its source holds no value. Lanes between rows may, as long as no
    // instruction uses the result.
    static std::vector<bool> Undefined(const VectorEvent& event, const LocalMemory& memory)
    {
        if (std::strcmp(event.name, "GatherMask") == 0) {  // pattern 1 takes elements 0, 2, 4 ..., pattern 2 the others
            std::vector<bool> undefined;
            uint32_t element = 0;
            ForElements(event.accesses[1], [&](uint32_t offset) {
                if (element++ % 2 == event.request.option - 1) {
                    undefined.push_back(!memory.IsDefined(offset, SizeOf(event.accesses[1].dtype)));
                }
            });
            return undefined;
        }
        std::vector<bool> undefined(event.elements);
        for (uint32_t i = 1; i < event.accessCount; ++i) {
            size_t element = 0;
            ForElements(event.accesses[i], [&](uint32_t offset) {
                if (!memory.IsDefined(offset, SizeOf(event.accesses[i].dtype))) {
                    undefined[element] = true;
                }
                ++element;
            });
        }
        return undefined;
    }

    // Marks the bytes of a padded piece that are neither data nor the padding of the call.
    static void Undefine(const CopyEvent& event, LocalMemory& memory, uint32_t offset)
    {
        const uint32_t dataEnd = event.leftBytes + event.rowBytes;
        const bool defined = event.request.isPad && event.leftBytes + event.rightBytes > 0;
        if (!defined && dataEnd < event.paddedBytes) {
            memory.Forget(offset + dataEnd, event.paddedBytes - dataEnd);
        }
    }

    // The offsets of Gather are in the Unified Buffer already. Says for each element whether it comes from where no
    // value is.
    static std::vector<bool> Gather(const VectorEvent& event, uint32_t number, CheckedCore& core, const Access& source,
                                    const Access& offsets)
    {
        const uint32_t size = SizeOf(source.dtype);
        const auto base = static_cast<uint64_t>(event.request.scalar);
        std::vector<bool> undefined;
        for (uint64_t i = 0; i < event.elements; ++i) {
            uint32_t offset;
            std::memcpy(&offset, UnifiedBuffer(event.core) + offsets.offset + i * sizeof(offset), sizeof(offset));
            const uint64_t at = base + offset;
            if (at % size != 0 || at + size > source.bytes) {
                Violation(Rule::GATHER_OFFSET, event, "offset %lu of element %lu; the source has %u bytes",
                          static_cast<unsigned long>(at), static_cast<unsigned long>(i), source.bytes);
            }
            undefined.push_back(
                !core.memory.Read(event, number, core.order, source.offset + static_cast<uint32_t>(at), size, false));
        }
        return undefined;
    }

    static void CheckAtomic(const SettingEvent& event)
    {
        switch (event.dtype) {
            case Dtype::INT8:
            case Dtype::INT16:
            case Dtype::INT32:
            case Dtype::HALF:
            case Dtype::BFLOAT16:
            case Dtype::FLOAT:
                return;
            default:
                Violation(Rule::DTYPE, event, "SetAtomicAdd<%s>", NameOf(event.dtype));
        }
    }

    static void CheckParams(const CopyEvent& event)
    {
        constexpr uint32_t maxPieces = 4095;
        constexpr uint32_t maxPadBytes = 2097151;
        const uint32_t size = SizeOf(event.local.dtype);
        const CopyRequest& request = event.request;
        if (event.local.offset % ONE_BLK_SIZE != 0) {
            Violation(Rule::ALIGNMENT, event, "the tensor in the Unified Buffer begins at byte %u, %u after a multiple",
                      event.local.offset, event.local.offset % ONE_BLK_SIZE);
        }
        if (event.rows > maxPieces) {
            Violation(Rule::COPY_PARAMS, event, "blockCount is %u, at most %u", event.rows, maxPieces);
        }
        if (request.form == CopyForm::COUNT && request.count * size % ONE_BLK_SIZE != 0) {
            Violation(Rule::COPY_LENGTH, event, "%lu elements of %u bytes: %lu bytes would be dropped",
                      static_cast<unsigned long>(request.count), size,
                      static_cast<unsigned long>(request.count * size % ONE_BLK_SIZE));
        }
        if (request.form != CopyForm::PAD) {
            if (reinterpret_cast<uintptr_t>(event.global.address) % size != 0) {
                Violation(Rule::COPY_PARAMS, event, "the address in global memory is not a multiple of the element");
            }
            return;
        }
        if (event.rowBytes > maxPadBytes || event.rowBytes % size != 0) {
            Violation(Rule::COPY_PARAMS, event, "blockLen is %u bytes of %u-byte elements, at most %u", event.rowBytes,
                      size, maxPadBytes);
        }
        if (!event.toLocal) {
            return;
        }
        if (event.local.position == TPosition::VECCALC) {
            Violation(Rule::COPY_POSITION, event, "the destination is a tensor of VECCALC");
        }
        if (!request.isPad && request.leftPadding + request.rightPadding > 0) {
            Violation(Rule::PADDING, event, "padding of %u and %u elements without isPad", request.leftPadding,
                      request.rightPadding);
        }
        if (request.leftPadding * size > ONE_BLK_SIZE || request.rightPadding * size > ONE_BLK_SIZE) {
            Violation(Rule::PADDING, event, "padding of %u and %u elements of %u bytes", request.leftPadding,
                      request.rightPadding, size);
        }
        if (request.isPad && request.leftPadding + request.rightPadding == 0 && event.paddedBytes > event.rowBytes) {
            Violation(Rule::PADDING, event,
                      "isPad without padding: the %u bytes that fill the block get the first element, not paddingValue",
                      event.paddedBytes - event.rowBytes);
        }
    }

    std::vector<std::unique_ptr<CheckedCore>> cores_;
    GlobalMemory global_;
    Event lastCall_;
};

}  // namespace

Observer& TheObserver()
{
    static Checker checker;
    return checker;
}

}  // namespace host
}  // namespace AscendC
