/*!
 * Implements HCCL's operations. Everything is made of two calls of the device: `hccl:exchange`, in which a rank sends
 * pieces of its memory to others and gets such pieces, and `hccl:reduce`, in which it sends a piece to each rank that
 * reduces, and reduces what it gets from all. ms_ascend_ops/device/operators/communication.py has the order of their
 * values.
 */
#include <algorithm>

#include "hccl/communicator.h"

namespace ms_ascend_ops {
namespace device {
namespace {

// The aclDataType and the bytes of an element, by HcclDataType.
struct ElementType {
    int32_t dtype;
    uint32_t bytes;
};
constexpr ElementType ELEMENT_TYPES[] = {
    {2, 1}, {6, 2}, {3, 4}, {1, 2}, {0, 4}, {9, 8}, {10, 8}, {4, 1}, {7, 2}, {8, 4}, {11, 8}, {27, 2},
};

// One operation: the pieces of memory that go out, and those that come in.
class Operation {
public:
    Operation(const char* name, void* communicator, int dtype)
        : name_(name), communicator_(static_cast<const Communicator*>(communicator))
    {
        if (communicator_ == nullptr) {
            error_ = Fail(HCCL_E_PTR, name_ + ": the communicator must not be null");
        } else {
            SetType(dtype);
        }
    }

    // Sets the type of the pieces that are named from now on.
    void SetType(int dtype)
    {
        if (dtype < 0 || static_cast<size_t>(dtype) >= sizeof(ELEMENT_TYPES) / sizeof(ELEMENT_TYPES[0])) {
            error_ = Fail(HCCL_E_NOT_SUPPORT, name_ + ": HcclDataType " + std::to_string(dtype) + " is not emulated");
        } else {
            type_ = ELEMENT_TYPES[dtype];
        }
    }

    bool Failed() const { return error_ != HCCL_SUCCESS; }
    HcclResult Error() const { return error_; }
    uint32_t Size() const { return communicator_->size; }
    bool Is(uint32_t rank) const { return communicator_->rank == rank; }
    bool HasRank(uint32_t rank)
    {
        if (!Failed() && rank >= Size()) {
            error_ = Fail(HCCL_E_PARA, name_ + ": the rank must be below " + std::to_string(Size()) + ", got " +
                                           std::to_string(rank));
        }
        return !Failed();
    }

    // `at`: in elements.
    void Send(uint32_t rank, const void* buffer, uint64_t at, uint64_t count)
    {
        sendRanks_.push_back(rank);
        sent_.push_back(View(buffer, at, count));
    }
    void Receive(uint32_t rank, const void* buffer, uint64_t at, uint64_t count)
    {
        receiveRanks_.push_back(rank);
        received_.push_back(View(buffer, at, count));
    }

    // Collective operations have to be called by all ranks in the same order; others by two.
    HcclResult Exchange(void* stream, bool collective) const
    {
        if (Failed()) {
            return error_;
        }
        CallWriter call = Begin("hccl:exchange");
        call.Int(collective ? 1 : 0);
        call.Ints(sendRanks_);
        call.Tensors(sent_);
        call.Ints(receiveRanks_);
        call.Tensors(received_);
        return Launch(stream, call);
    }
    // Receives one piece, which all ranks have a part in, or none.
    HcclResult Reduce(void* stream, int reduction) const
    {
        if (Failed()) {
            return error_;
        }
        if (reduction < HCCL_REDUCE_SUM || reduction > HCCL_REDUCE_MIN) {
            return Fail(HCCL_E_NOT_SUPPORT, name_ + ": HcclReduceOp " + std::to_string(reduction) + " is not emulated");
        }
        CallWriter call = Begin("hccl:reduce");
        call.Int(reduction);
        call.Ints(sendRanks_);
        call.Tensors(sent_);
        call.Tensors(received_);
        return Launch(stream, call);
    }

private:
    CallWriter Begin(const char* call) const
    {
        CallWriter writer(call);
        writer.String(communicator_->id);
        writer.Int(communicator_->rank);
        writer.String(name_);
        return writer;
    }
    TensorView View(const void* buffer, uint64_t at, uint64_t count) const
    {
        TensorView view;
        view.address = reinterpret_cast<uint64_t>(buffer) + at * type_.bytes;
        view.dtype = type_.dtype;
        view.shape = {static_cast<int64_t>(count)};
        view.strides = {1};
        view.storageElements = count;
        return view;
    }

    std::string name_;
    const Communicator* communicator_;
    ElementType type_{};
    HcclResult error_ = HCCL_SUCCESS;
    std::vector<int64_t> sendRanks_;
    std::vector<int64_t> receiveRanks_;
    std::vector<TensorView> sent_;
    std::vector<TensorView> received_;
};

// A rank's part of `count` elements, when all of them reduce.
uint64_t PartBegin(uint64_t count, uint32_t rank, uint32_t size)
{
    return count / size * rank + std::min<uint64_t>(rank, count % size);
}

}  // namespace

HCCL_API HcclResult HcclBroadcast(void* buffer, uint64_t count, int dtype, uint32_t root, void* communicator,
                                  void* stream)
{
    Operation operation("HcclBroadcast", communicator, dtype);
    if (!operation.HasRank(root)) {
        return operation.Error();
    }
    for (uint32_t rank = 0; operation.Is(root) && rank < operation.Size(); ++rank) {
        if (rank != root) {
            operation.Send(rank, buffer, 0, count);
        }
    }
    if (!operation.Is(root)) {
        operation.Receive(root, buffer, 0, count);
    }
    return operation.Exchange(stream, true);
}
HCCL_API HcclResult HcclScatter(void* from, void* to, uint64_t count, int dtype, uint32_t root, void* communicator,
                                void* stream)
{
    Operation operation("HcclScatter", communicator, dtype);
    if (!operation.HasRank(root)) {
        return operation.Error();
    }
    for (uint32_t rank = 0; operation.Is(root) && rank < operation.Size(); ++rank) {
        operation.Send(rank, from, rank * count, count);
    }
    operation.Receive(root, to, 0, count);
    return operation.Exchange(stream, true);
}
HCCL_API HcclResult HcclAllGatherV(void* from, uint64_t count, void* to, const void* counts, const void* places,
                                   int dtype, void* communicator, void* stream)
{
    Operation operation("HcclAllGatherV", communicator, dtype);
    for (uint32_t rank = 0; !operation.Failed() && rank < operation.Size(); ++rank) {
        operation.Send(rank, from, 0, count);
        operation.Receive(rank, to, static_cast<const uint64_t*>(places)[rank],
                          static_cast<const uint64_t*>(counts)[rank]);
    }
    return operation.Exchange(stream, true);
}
HCCL_API HcclResult HcclAllGather(void* from, void* to, uint64_t count, int dtype, void* communicator, void* stream)
{
    Operation operation("HcclAllGather", communicator, dtype);
    for (uint32_t rank = 0; !operation.Failed() && rank < operation.Size(); ++rank) {
        operation.Send(rank, from, 0, count);
        operation.Receive(rank, to, rank * count, count);
    }
    return operation.Exchange(stream, true);
}
HCCL_API HcclResult HcclReduceScatterV(void* from, const void* counts, const void* places, void* to, uint64_t count,
                                       int dtype, int reduction, void* communicator, void* stream)
{
    Operation operation("HcclReduceScatterV", communicator, dtype);
    for (uint32_t rank = 0; !operation.Failed() && rank < operation.Size(); ++rank) {
        operation.Send(rank, from, static_cast<const uint64_t*>(places)[rank],
                       static_cast<const uint64_t*>(counts)[rank]);
    }
    operation.Receive(0, to, 0, count);
    return operation.Reduce(stream, reduction);
}
HCCL_API HcclResult HcclReduceScatter(void* from, void* to, uint64_t count, int dtype, int reduction,
                                      void* communicator, void* stream)
{
    Operation operation("HcclReduceScatter", communicator, dtype);
    for (uint32_t rank = 0; !operation.Failed() && rank < operation.Size(); ++rank) {
        operation.Send(rank, from, rank * count, count);
    }
    operation.Receive(0, to, 0, count);
    return operation.Reduce(stream, reduction);
}
HCCL_API HcclResult HcclReduce(void* from, void* to, uint64_t count, int dtype, int reduction, uint32_t root,
                               void* communicator, void* stream)
{
    Operation operation("HcclReduce", communicator, dtype);
    if (!operation.HasRank(root)) {
        return operation.Error();
    }
    operation.Send(root, from, 0, count);
    if (operation.Is(root)) {
        operation.Receive(0, to, 0, count);
    }
    return operation.Reduce(stream, reduction);
}
// Each rank reduces its part; then each gets the parts of all.
HCCL_API HcclResult HcclAllReduce(void* from, void* to, uint64_t count, int dtype, int reduction, void* communicator,
                                  void* stream)
{
    Operation reduce("HcclAllReduce", communicator, dtype);
    Operation gather("HcclAllReduce", communicator, dtype);
    if (reduce.Failed()) {
        return reduce.Error();
    }
    const uint32_t own = static_cast<const Communicator*>(communicator)->rank;
    const uint32_t size = reduce.Size();
    const uint64_t begin = PartBegin(count, own, size);
    const uint64_t part = PartBegin(count, own + 1, size) - begin;
    for (uint32_t rank = 0; rank < size; ++rank) {
        const uint64_t at = PartBegin(count, rank, size);
        const uint64_t elements = PartBegin(count, rank + 1, size) - at;
        reduce.Send(rank, from, at, elements);
        if (rank != own) {
            gather.Send(rank, to, begin, part);
            gather.Receive(rank, to, at, elements);
        }
    }
    reduce.Receive(0, to, begin, part);
    const HcclResult failed = reduce.Reduce(stream, reduction);
    return failed != HCCL_SUCCESS ? failed : gather.Exchange(stream, true);
}
HCCL_API HcclResult HcclAlltoAllV(const void* from, const void* sendCounts, const void* sendPlaces, int dtype,
                                  const void* to, const void* counts, const void* places, int, void* communicator,
                                  void* stream)
{
    Operation operation("HcclAlltoAllV", communicator, dtype);
    for (uint32_t rank = 0; !operation.Failed() && rank < operation.Size(); ++rank) {
        operation.Send(rank, from, static_cast<const uint64_t*>(sendPlaces)[rank],
                       static_cast<const uint64_t*>(sendCounts)[rank]);
        operation.Receive(rank, to, static_cast<const uint64_t*>(places)[rank],
                          static_cast<const uint64_t*>(counts)[rank]);
    }
    return operation.Exchange(stream, true);
}
// The matrix has what each rank (a row) sends to each other; pieces lie one behind the other.
HCCL_API HcclResult HcclAlltoAllVC(const void* from, const void* matrix, int dtype, const void* to, int,
                                   void* communicator, void* stream)
{
    Operation operation("HcclAlltoAllVC", communicator, dtype);
    if (operation.Failed()) {
        return operation.Error();
    }
    const auto* counts = static_cast<const uint64_t*>(matrix);
    const uint32_t own = static_cast<const Communicator*>(communicator)->rank;
    const uint32_t size = operation.Size();
    uint64_t sent = 0;
    uint64_t received = 0;
    for (uint32_t rank = 0; rank < size; ++rank) {
        operation.Send(rank, from, sent, counts[own * size + rank]);
        operation.Receive(rank, to, received, counts[rank * size + own]);
        sent += counts[own * size + rank];
        received += counts[rank * size + own];
    }
    return operation.Exchange(stream, true);
}
HCCL_API HcclResult HcclAlltoAll(const void* from, uint64_t sendCount, int dtype, const void* to, uint64_t count, int,
                                 void* communicator, void* stream)
{
    Operation operation("HcclAlltoAll", communicator, dtype);
    for (uint32_t rank = 0; !operation.Failed() && rank < operation.Size(); ++rank) {
        operation.Send(rank, from, rank * sendCount, sendCount);
        operation.Receive(rank, to, rank * count, count);
    }
    return operation.Exchange(stream, true);
}
HCCL_API HcclResult HcclBarrier(void* communicator, void* stream)
{
    Operation operation("HcclBarrier", communicator, 0);
    for (uint32_t rank = 0; !operation.Failed() && rank < operation.Size(); ++rank) {
        operation.Send(rank, nullptr, 0, 0);
        operation.Receive(rank, nullptr, 0, 0);
    }
    return operation.Exchange(stream, true);
}
HCCL_API HcclResult HcclSend(void* buffer, uint64_t count, int dtype, uint32_t to, void* communicator, void* stream)
{
    Operation operation("HcclSend", communicator, dtype);
    if (operation.HasRank(to)) {
        operation.Send(to, buffer, 0, count);
    }
    return operation.Exchange(stream, false);
}
HCCL_API HcclResult HcclRecv(void* buffer, uint64_t count, int dtype, uint32_t from, void* communicator, void* stream)
{
    Operation operation("HcclRecv", communicator, dtype);
    if (operation.HasRank(from)) {
        operation.Receive(from, buffer, 0, count);
    }
    return operation.Exchange(stream, false);
}
HCCL_API HcclResult HcclBatchSendRecv(HcclSendRecvItem* items, uint32_t count, void* communicator, void* stream)
{
    if (items == nullptr || count == 0) {
        return Fail(HCCL_E_PARA, "HcclBatchSendRecv: there must be at least one item");
    }
    Operation operation("HcclBatchSendRecv", communicator, items[0].dtype);
    for (uint32_t i = 0; i < count && operation.HasRank(items[i].remoteRank); ++i) {
        const HcclSendRecvItem& item = items[i];
        operation.SetType(item.dtype);
        if (item.type == HCCL_SEND) {
            operation.Send(item.remoteRank, item.buffer, 0, item.count);
        } else {
            operation.Receive(item.remoteRank, item.buffer, 0, item.count);
        }
    }
    return operation.Exchange(stream, false);
}

}  // namespace device
}  // namespace ms_ascend_ops
