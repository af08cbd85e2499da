#pragma once

// How this library says no: -1, an errno, and the reason in words for who wants it.

#include <string_view>

namespace weft::compat {

/// Sets errno and returns -1; says why with WEFT_EXPLAIN=1.
int refuse(int error_number, std::string_view reason);

/// The same for a verb that returned an errno, 0 for success: libibverbs said why.
[[nodiscard]] int result_of_verb(int error_number);

/// A failure that whoever runs the program must learn, on standard error.
void complain(std::string_view reason);

}  // namespace weft::compat
