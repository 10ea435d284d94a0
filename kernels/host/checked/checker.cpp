#include "observed/observer.h"
namespace AscendC {
namespace host {
Observer& TheObserver()
{
    static Observer observer;
    return observer;
}
}  // namespace host
}  // namespace AscendC
