// Arbitrary calls of the kernel's API in C. Each answers as its documentation says, and nothing is
// left on the devices afterwards.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "kernel_world.h"
#include "ulp.h"

void let_world_run() { weft::kernel::KernelWorld::running->run(); }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const weft::kernel::KernelWorld world;
  const int unknown = check_client();
  const int wrong = unknown != 0 ? unknown : make_calls(data, size);
  if (wrong != 0) {
    std::fprintf(stderr, "line %d of calls.c\n", wrong);
    std::abort();
  }
  return 0;
}
