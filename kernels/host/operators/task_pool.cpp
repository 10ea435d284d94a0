#include "operators/task_pool.h"

#include "cube/onednn.h"
#include "runtime/core.h"
#include "runtime/launch.h"

namespace AscendC {
namespace host {
namespace {

thread_local bool t_isInTask = false;

}  // namespace

TaskPool::Shares::Shares(TaskPool& pool, int count)
{
    OneDnn::Functions().maxConcurrency(&before_);
    pool.shares_ = count;
    OneDnn::Functions().setMaxConcurrency(count);
}

TaskPool::Shares::~Shares()
{
    OneDnn::Functions().setMaxConcurrency(before_);
}

bool TaskPool::IsInTask() const
{
    return t_isInTask;
}

void TaskPool::ParallelFor(int count, const std::function<void(int, int)>& task)
{
    RunTasks(count, [&](int index) {
        t_isInTask = true;
        task(index, count);
        t_isInTask = false;
    });
}

void RunTasks(int count, const std::function<void(int)>& task)
{
    if (count == 1 || TheExecutor().ThreadNum() == 1) {
        for (int i = 0; i < count; ++i) {
            task(i);
        }
        return;
    }
    ms_ascend_ops::LaunchConfig config;
    config.blockDim = static_cast<uint32_t>(count);
    config.coresMeet = false;
    Launch(config, {}, {}, [&](GM_ADDR) { task(static_cast<int>(Core::Current().BlockIdx())); });
}

}  // namespace host
}  // namespace AscendC
