// Named points at which a test build can kill the process. Nothing in other builds.
#pragma once

#ifdef FASTLOOP_FAILPOINTS
void fastloop_failpoint(const char* name);  // defined by the test
#define FASTLOOP_FAILPOINT(name) fastloop_failpoint(name)
#else
#define FASTLOOP_FAILPOINT(name) ((void)0)
#endif
