#pragma once

namespace weft {

/// After a function that works with 256 or 512 bits of a register and leaves them as they are, as
/// ISA-L's do: x86-64 processors take some hundred cycles for the next instruction of the older
/// kind (SSE), of which the rest of a program consists (Intel, Optimization Reference Manual,
/// "Mixing AVX code with SSE code"). Their lower 128 bits stay.
inline void leave_wide_registers() {
#if defined(__x86_64__)
  static const bool has_some = __builtin_cpu_supports("avx") != 0;
  if (has_some) {
    asm volatile("vzeroupper");
  }
#endif
}

}  // namespace weft
