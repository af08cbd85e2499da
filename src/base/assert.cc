#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace weft {

void assertion_failed(const char* condition, const SourceName& source, int line,
                      const char* reason) {
  std::fprintf(stderr, "%s:%d: assertion failed: %s (%s)\n", source.text(), line, condition,
               reason);
  std::abort();
}

}  // namespace weft
