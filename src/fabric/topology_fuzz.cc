// Arbitrary text as a topology file of either form must be refused with a reason, or be valid and
// survive a round trip.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "fabric/topology.h"
#include "fabric/topology_graph.h"
#include "fabric/topology_net.h"

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
  (void)weft::fabric::looks_like_net(text);
  if (const auto net = weft::fabric::read_net(text)) {
    const std::string written = weft::fabric::write_net(*net);
    const auto again = weft::fabric::read_net(written);
    if (!again || weft::fabric::write_net(*again) != written) {
      std::abort();
    }
    (void)weft::fabric::write_dot(*net);
  } else if (net.error().reason.empty()) {
    std::abort();
  }
  (void)weft::fabric::generate(text.substr(0, 16));
  return 0;
}
