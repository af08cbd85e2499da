#pragma once

// The kernel's printf: that of C, with pointers that are shown as what they point to.

#include <cstdarg>
#include <string>

namespace weft::kenv {

/// %pI4, %pI6 and %pI6c (addresses, network order), %pIS with p and c (socket addresses; p: with
/// the port), %pM (Ethernet), %pe (error pointers), %*ph (bytes), %pa (physical addresses).
[[nodiscard]] std::string format_kernel(const char* format, va_list arguments);

}  // namespace weft::kenv
