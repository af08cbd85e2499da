#include "compat/rdmacm/refusals.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace weft::compat {

void complain(std::string_view reason) {
  std::fprintf(stderr, "weft: %.*s\n", static_cast<int>(reason.size()), reason.data());
}

int refuse(int error_number, std::string_view reason) {
  static const bool explains = [] {
    const std::string_view wish{
        std::getenv("WEFT_EXPLAIN") == nullptr ? "" : std::getenv("WEFT_EXPLAIN")};
    return !wish.empty() && wish.front() != '0';
  }();
  if (explains) {
    complain(reason);
  }
  errno = error_number;
  return -1;
}

int result_of_verb(int error_number) {
  if (error_number == 0) {
    return 0;
  }
  errno = error_number;
  return -1;
}

}  // namespace weft::compat
