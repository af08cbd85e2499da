#pragma once

// How data that a command reads is cut into Data-In PDUs (RFC 7143 §11.7). A value: the same PDU
// can be made again when it was lost.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft::iscsi {

struct DataInPart {
  std::uint32_t data_sn{};
  std::size_t offset{};
  std::size_t bytes{};
  bool final{};  ///< of its sequence, which MaxBurstLength bounds
  bool last{};   ///< of the command
};

class DataInPlan {
 public:
  DataInPlan(std::size_t total_bytes, std::size_t max_burst_bytes, std::size_t max_segment_bytes)
      : total_(total_bytes), burst_(max_burst_bytes), segment_(max_segment_bytes) {}

  /// Calls visit(part) for each in order.
  template <class Visit>
  void for_each(Visit visit) const {
    DataInPart part;
    for (std::size_t burst_left = burst_; part.offset < total_; ++part.data_sn) {
      part.bytes = std::min({segment_, burst_left, total_ - part.offset});
      burst_left -= part.bytes;
      part.last = part.offset + part.bytes == total_;
      part.final = part.last || burst_left == 0;
      visit(static_cast<const DataInPart&>(part));
      part.offset += part.bytes;
      burst_left = burst_left == 0 ? burst_ : burst_left;
    }
  }
  [[nodiscard]] std::uint32_t count() const {
    std::uint32_t parts = 0;
    for_each([&](const DataInPart& /*part*/) { ++parts; });
    return parts;
  }

 private:
  std::size_t total_;
  std::size_t burst_;
  std::size_t segment_;
};

}  // namespace weft::iscsi
