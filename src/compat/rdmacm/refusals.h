#pragma once

// Error reporting of this library: -1 with an errno, and the reason in words on request. Any
// thread.

#include <string_view>

namespace weft::compat {

/// Sets errno and returns -1; prints the reason with WEFT_EXPLAIN=1.
int refuse(int error_number, std::string_view reason);

/// The same for a verb that returned an errno, 0 for success; libibverbs has printed the reason.
[[nodiscard]] int result_of_verb(int error_number);

/// Reports a failure to the user on standard error.
void complain(std::string_view reason);

}  // namespace weft::compat
