// What bisheng-sys binds of the runtime.
#include <acl/acl.h>

// In no public header. Older than aclrtGetHardwareSyncAddr, which says the same; lives in libruntime.so.
extern "C" int32_t rtGetC2cCtrlAddr(uint64_t *addr, uint32_t *len);
