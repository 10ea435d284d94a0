/*!
 * Serves what device processes ask of this one: copies of host memory, and the callbacks of a program.
 */
#ifndef MS_ASCEND_OPS_DEVICE_RUNTIME_CALLBACKS_H
#define MS_ASCEND_OPS_DEVICE_RUNTIME_CALLBACKS_H

#include "runtime/streams.h"

namespace ms_ascend_ops {
namespace device {

// Called by the thread that listens to the device process.
void AnswerDevice(const HostRequest& request);

// aclrtSubscribeReport and its kin. A thread is a pthread_t.
aclError Subscribe(uint64_t thread, Stream* stream);
aclError Unsubscribe(uint64_t thread, Stream* stream);
void ForgetSubscription(Stream* stream);
aclError LaunchCallback(void (*function)(void*), void* argument, bool blocks, Stream* stream);
aclError LaunchHostFunction(void (*function)(void*), void* argument, Stream* stream);
// Runs callbacks of the calling thread that are due, or waits for one.
aclError ProcessReport(int32_t milliseconds);

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_RUNTIME_CALLBACKS_H
