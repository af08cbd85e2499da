// Any text as a topology file: refused with a reason, or valid and written back to an equal value.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "fabric/topology.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  const auto topology = weft::fabric::read_topology(text);
  if (!topology) {
    if (topology.error().reason.empty()) {
      std::abort();
    }
  } else {
    const auto again = weft::fabric::read_topology(weft::fabric::write_topology(*topology));
    if (!again || *again != *topology) {
      std::abort();
    }
    (void)weft::fabric::show(*topology);
  }
  (void)weft::fabric::generate(text.substr(0, 12));
  return 0;
}
