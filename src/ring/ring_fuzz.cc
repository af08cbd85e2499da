#include <array>
#include <cstdlib>
#include <cstring>

#include "ring/spsc_ring.h"

/// A ring image written by a liar: the consumer stays inside it.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using weft::ring::Consumer;
  using weft::ring::kMinCapacity;
  using weft::ring::ring_bytes;
  alignas(64) static std::array<std::byte, ring_bytes(kMinCapacity)> memory;
  memory.fill(std::byte{0});
  std::memcpy(memory.data(), data, std::min(size, memory.size()));
  Consumer<> consumer{memory};
  for (int i = 0; i < 256; ++i) {
    const auto front = consumer.front();
    if (front.state != Consumer<>::State::Record) {
      break;
    }
    if (front.body.data() < memory.data() ||
        front.body.data() + front.body.size() > memory.data() + memory.size()) {
      std::abort();
    }
    consumer.pop();
  }
  return 0;
}
