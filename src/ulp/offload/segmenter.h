#pragma once

// Does what the host's IP stack has left to its interface: completes a checksum, and cuts TCP data
// into packets that the link takes, each with its own headers. Pure, not thread-safe.

#include <cstddef>
#include <functional>
#include <vector>

#include "base/bytes.h"
#include "ulp/offload/offload.h"

namespace weft::offload {

class Segmenter {
 public:
  using Sink = std::function<void(ByteSpan)>;

  /// Calls `sink` with each packet, in order; a packet is valid during the call. `network_at` is
  /// where the IP header is: 0, or behind that of a frame. False: what `offload` says is not so of
  /// this packet, and nothing was sent.
  [[nodiscard]] bool split(const Offload& offload, MutableByteSpan packet, std::size_t network_at,
                           const Sink& sink);

 private:
  std::vector<std::byte> segment_;
};

}  // namespace weft::offload
