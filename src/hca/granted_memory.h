#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hca/placement.h"

namespace weft::hca {

/// What one HCA has granted to the peers of its QPs, for drivers whose processes share an address
/// space (sim, tests). Not thread-safe.
class GrantedMemory {
 public:
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  void grant(Qpn qpn, std::uint64_t epoch, const PlaceableMemory& memory) {
    if (epoch == epoch_) {
      grants_.push_back({qpn, memory});
    }
  }
  void withdraw() {
    ++epoch_;
    grants_.clear();
  }

  /// The bytes that a peer of QP `qpn` may reach; empty if it may not.
  [[nodiscard]] MutableByteSpan find(Qpn qpn, const PlacementTarget& target) const {
    const auto found = std::ranges::find_if(grants_, [&](const Grant& grant) {
      const PlaceableMemory& memory = grant.memory;
      return grant.qpn == qpn && memory.rkey == target.rkey &&
             (target.is_read ? memory.is_readable : memory.is_writable) &&
             target.address >= memory.iova && target.length <= memory.length &&
             target.address - memory.iova <= memory.length - target.length;
    });
    return found == grants_.end()
               ? MutableByteSpan{}
               : MutableByteSpan{found->memory.memory + (target.address - found->memory.iova),
                                 target.length};
  }

  /// Moves the bytes of `part` to or from `memory`, which find() returned.
  static void move(const Placement& part, MutableByteSpan memory) {
    for (const ByteSpan piece : part.from) {
      copy_bytes(memory.first(piece.size()), piece);
      memory = memory.subspan(piece.size());
    }
    for (const MutableByteSpan piece : part.to) {
      copy_bytes(piece, memory.first(piece.size()));
      memory = memory.subspan(piece.size());
    }
  }

 private:
  struct Grant {
    Qpn qpn;
    PlaceableMemory memory;
  };
  std::uint64_t epoch_{1};
  std::vector<Grant> grants_;
};

}  // namespace weft::hca
