#pragma once

// The memory of an initiator's host, for tests: regions with keys, which may be invalidated. An
// access outside of a region, or under a key that is not valid any more, fails as the QP would.

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "ulp/srp/target_connection.h"

namespace weft::srp::testing {

class InitiatorMemory {
 public:
  /// A region with zeroes.
  [[nodiscard]] Segment allocate(std::size_t bytes) {
    const Segment segment{.address = next_address_,
                          .key = RKey{next_key_},
                          .length = static_cast<std::uint32_t>(bytes)};
    regions_[next_key_] = {.address = next_address_, .octets = std::vector<std::byte>(bytes)};
    next_address_ += (bytes + 0x1FFF) & ~std::uint64_t{0xFFF};
    next_key_ += 0x100;
    return segment;
  }
  void invalidate(RKey key) { regions_.erase(key.value()); }

  /// Empty if it is not all there.
  [[nodiscard]] MutableByteSpan at(const Segment& segment) {
    const auto found = regions_.find(segment.key.value());
    if (found == regions_.end() || segment.address < found->second.address) {
      return {};
    }
    const std::uint64_t offset = segment.address - found->second.address;
    const MutableByteSpan whole{found->second.octets};
    if (offset > whole.size() || segment.length > whole.size() - offset) {
      return {};
    }
    return whole.subspan(static_cast<std::size_t>(offset), segment.length);
  }

  /// RDMA READ; false for a protection fault.
  [[nodiscard]] bool read(std::span<const Segment> from, MutableByteSpan into) {
    for (const Segment& one : from) {
      const MutableByteSpan octets = at(one);
      if (octets.size() != one.length || into.size() < octets.size()) {
        return false;
      }
      copy_bytes(into, octets);
      into = into.subspan(octets.size());
      bytes_read += octets.size();
    }
    return into.empty();
  }

  /// RDMA WRITE of `data` to the first octets of the segments.
  [[nodiscard]] bool write(std::span<const Segment> to, ByteSpan data) {
    for (const Segment& one : to) {
      const std::size_t part = std::min<std::size_t>(one.length, data.size());
      const MutableByteSpan octets = at(one);
      if (octets.size() != one.length) {
        return false;
      }
      copy_bytes(octets, data.first(part));
      data = data.subspan(part);
      bytes_written += part;
    }
    return data.empty();
  }

  /// The same, of pieces that follow one another.
  [[nodiscard]] bool write(std::span<const Segment> to, std::span<const ByteSpan> data) {
    std::vector<std::byte> joined;
    for (const ByteSpan piece : data) {
      joined.insert(joined.end(), piece.begin(), piece.end());
    }
    return write(to, ByteSpan{joined});
  }

  std::uint64_t bytes_read{};     // by the target
  std::uint64_t bytes_written{};  // by the target

 private:
  struct Region {
    std::uint64_t address{};
    std::vector<std::byte> octets{};
  };
  std::map<std::uint32_t, Region> regions_;
  std::uint64_t next_address_{0x10'0000};
  std::uint32_t next_key_{0x100};
};

}  // namespace weft::srp::testing
