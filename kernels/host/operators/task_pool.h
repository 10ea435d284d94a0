/*!
 * Whole operators run on the threads of launches.
 *
 * oneDNN divides work by the number of threads, and the order of its sums may follow from that. So it is told of
 * as many as the size of the work suggests, whichever there are: the bits of a result do not depend on them.
 */
#ifndef ASCENDC_HOST_OPERATORS_TASK_POOL_H
#define ASCENDC_HOST_OPERATORS_TASK_POOL_H

#include <functional>

#include "cube/onednn_library.h"

namespace AscendC {
namespace host {

// Runs tasks 0 to count - 1, each by itself, on the threads of launches.
void RunTasks(int count, const std::function<void(int)>& task);

class TaskPool final : public onednn::ThreadPool {
public:
    // While it lives, oneDNN makes primitives in this thread for so many threads, and its primitives have as many.
    class Shares {
    public:
        Shares(TaskPool& pool, int count);
        ~Shares();
        Shares(const Shares&) = delete;

    private:
        int before_ = 1;
    };

    int ThreadNum() const override { return shares_; }
    bool IsInTask() const override;
    void ParallelFor(int count, const std::function<void(int, int)>& task) override;

private:
    int shares_ = 1;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OPERATORS_TASK_POOL_H
