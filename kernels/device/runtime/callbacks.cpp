#include "runtime/callbacks.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>

#include "runtime/copies.h"

namespace ms_ascend_ops {
namespace device {
namespace {

using Function = void (*)(void*);

struct Due {
    Function function;
    void* argument;
    bool blocks;
    HostRequest request;
};

void Answer(const HostRequest& request, aclError code, const std::string& text)
{
    StreamSlot& slot = TheDevices().Shared().streams[request.stream];
    std::strncpy(slot.answerText, text.c_str(), sizeof(slot.answerText) - 1);
    slot.answer.store(static_cast<uint32_t>(code));
    slot.answered.Set(request.number);
}

void Run(const Due& due)
{
    due.function(due.argument);
    if (due.blocks) {
        Answer(due.request, SUCCESS, "");
    }
}

// The callbacks that are due, by thread; 0 is the thread of the runtime.
class Queues {
public:
    void Put(uint64_t thread, const Due& due)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (thread == 0 && !own_) {
            own_ = true;
            std::thread([this] { RunOwn(); }).detach();
        }
        queues_[thread].push_back(due);
        changed_.notify_all();
    }
    // Waits for one at most so long; < 0: as long as it takes.
    bool Take(uint64_t thread, int32_t milliseconds, Due& due)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        const auto ready = [this, thread] { return !queues_[thread].empty(); };
        if (milliseconds < 0) {
            changed_.wait(lock, ready);
        } else if (!changed_.wait_for(lock, std::chrono::milliseconds(milliseconds), ready)) {
            return false;
        }
        due = queues_[thread].front();
        queues_[thread].pop_front();
        return true;
    }

    std::mutex subscriptionMutex;
    std::map<Stream*, uint64_t> subscriptions;

private:
    void RunOwn()
    {
        for (Due due; Take(0, -1, due);) {
            Run(due);
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<uint64_t, std::deque<Due>> queues_;
    bool own_ = false;
};

Queues& TheQueues()
{
    static Queues* const queues = new Queues;
    return *queues;
}

aclError Launch(Function function, void* argument, uint64_t thread, bool blocks, Stream* stream)
{
    if (function == nullptr) {
        return Fail(RT_PARAM_INVALID, "the callback is null");
    }
    HostFunctionCommand command{};
    command.header.kind = CommandKind::HOST_FUNCTION;
    command.function = reinterpret_cast<uint64_t>(function);
    command.argument = reinterpret_cast<uint64_t>(argument);
    command.thread = thread;
    command.blocks = blocks ? 1 : 0;
    return Submit(stream, &command.header, sizeof(command));
}

void AnswerCopy(const HostRequest& request, const CopyCommand& command)
{
    const aclError error = CopyRows(command);
    Answer(request, error, error == SUCCESS ? "" : LastErrorText());
}

}  // namespace

void AnswerDevice(const HostRequest& request)
{
    const StreamSlot& slot = TheDevices().Shared().streams[request.stream];
    const uint8_t* const at = slot.ring + request.read % RING_BYTES;
    if (reinterpret_cast<const CommandHeader*>(at)->kind == CommandKind::COPY) {
        AnswerCopy(request, *reinterpret_cast<const CopyCommand*>(at));
        return;
    }
    const auto& command = *reinterpret_cast<const HostFunctionCommand*>(at);
    const Due due{reinterpret_cast<Function>(command.function), reinterpret_cast<void*>(command.argument),
                  command.blocks != 0, request};
    TheQueues().Put(command.thread, due);
    if (!due.blocks) {
        Answer(request, SUCCESS, "");
    }
}

aclError Subscribe(uint64_t thread, Stream* stream)
{
    Queues& queues = TheQueues();
    std::lock_guard<std::mutex> lock(queues.subscriptionMutex);
    if (!queues.subscriptions.emplace(stream, thread).second) {
        return Fail(RT_STREAM_SUBSCRIBE, "aclrtSubscribeReport: the stream has a thread already");
    }
    return SUCCESS;
}

aclError Unsubscribe(uint64_t thread, Stream* stream)
{
    Queues& queues = TheQueues();
    std::lock_guard<std::mutex> lock(queues.subscriptionMutex);
    const auto found = queues.subscriptions.find(stream);
    if (found == queues.subscriptions.end() || found->second != thread) {
        return Fail(RT_THREAD_SUBSCRIBE, "aclrtUnSubscribeReport: the stream has not this thread");
    }
    queues.subscriptions.erase(found);
    return SUCCESS;
}

void ForgetSubscription(Stream* stream)
{
    Queues& queues = TheQueues();
    std::lock_guard<std::mutex> lock(queues.subscriptionMutex);
    queues.subscriptions.erase(stream);
}

aclError LaunchCallback(Function function, void* argument, bool blocks, Stream* stream)
{
    uint64_t thread = 0;
    {
        Queues& queues = TheQueues();
        std::lock_guard<std::mutex> lock(queues.subscriptionMutex);
        const auto found = queues.subscriptions.find(stream);
        if (found == queues.subscriptions.end()) {
            return Fail(RT_STREAM_NO_CB_REG, "aclrtLaunchCallback: no thread was given by aclrtSubscribeReport");
        }
        thread = found->second;
    }
    return Launch(function, argument, thread, blocks, stream);
}

aclError LaunchHostFunction(Function function, void* argument, Stream* stream)
{
    return Launch(function, argument, 0, true, stream);
}

aclError ProcessReport(int32_t milliseconds)
{
    const auto thread = static_cast<uint64_t>(pthread_self());
    Queues& queues = TheQueues();
    {
        std::lock_guard<std::mutex> lock(queues.subscriptionMutex);
        bool subscribed = false;
        for (const auto& entry : queues.subscriptions) {
            subscribed = subscribed || entry.second == thread;
        }
        if (!subscribed) {
            return Fail(RT_THREAD_SUBSCRIBE, "aclrtProcessReport: this thread has no stream (aclrtSubscribeReport)");
        }
    }
    Due due;
    if (!queues.Take(thread, milliseconds, due)) {
        return Fail(RT_REPORT_TIMEOUT,
                    "aclrtProcessReport: no callback within " + std::to_string(milliseconds) + " ms");
    }
    Run(due);
    return SUCCESS;
}

}  // namespace device
}  // namespace ms_ascend_ops
