// How fast one thread copies memory: the measure of every bandwidth that Weft can have with one
// copy. Programs that send the same buffer again find it in their caches and may be faster.
//
//   weft_memory_copy SIZE...
//
// For each size the copies go around two buffers larger than L2, so that neither side of a copy is
// in a private cache. Prints one JSON array.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ratio>
#include <vector>

namespace {

constexpr std::chrono::milliseconds kDuration{50};  // policy: of one measurement
constexpr std::size_t kBatchOctets = 4 << 20;       // policy: copied between two looks at the clock
constexpr std::size_t kBufferMin = 4 << 20;         // policy, where the size of L2 is not known
constexpr std::size_t kBufferMax = 64 << 20;        // policy

std::size_t buffer_octets() {
  const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return std::clamp(4 * static_cast<std::size_t>(std::max(l2, 0L)), kBufferMin, kBufferMax);
}

double gigabytes_per_s(std::size_t size, std::vector<char>& from, std::vector<char>& to) {
  const auto start = std::chrono::steady_clock::now();
  std::chrono::duration<double, std::nano> elapsed{};
  std::size_t copied = 0;
  std::size_t offset = 0;
  while (elapsed < kDuration) {
    for (std::size_t batch = 0; batch < kBatchOctets; batch += size) {
      std::memcpy(to.data() + offset, from.data() + offset, size);
      asm volatile("" : : "r"(to.data()) : "memory");  // the copy is looked at
      offset = offset + 2 * size <= from.size() ? offset + size : 0;
      copied += size;
    }
    elapsed = std::chrono::steady_clock::now() - start;
  }
  return static_cast<double>(copied) / elapsed.count();
}

}  // namespace

int main(int count, char** words) {
  std::vector<char> from(buffer_octets(), 'w');
  std::vector<char> to(buffer_octets(), 'e');
  for (int word = 1; word < count; ++word) {
    const std::size_t size = std::strtoul(words[word], nullptr, 10);
    if (size == 0 || size > from.size()) {
      std::fprintf(stderr, "weft_memory_copy: size '%s': 1 to %zu\n", words[word], from.size());
      return 2;
    }
    gigabytes_per_s(size, from, to);  // brings pages and clock rate up
    std::printf("%s{\"size\": %zu, \"gigabytes_per_s\": %.3f}", word == 1 ? "[" : ", ", size,
                gigabytes_per_s(size, from, to));
  }
  std::puts(count > 1 ? "]" : "[]");
  return 0;
}
