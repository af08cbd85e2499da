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
             target.is_within(memory.rights, memory.iova, memory.length);
    });
    return found == grants_.end()
               ? MutableByteSpan{}
               : MutableByteSpan{found->memory.memory + (target.address - found->memory.iova),
                                 target.length};
  }

  /// Moves the bytes of `part` to or from `memory`, which find() returned, or performs its
  /// atomic there.
  static void move(const Placement& part, MutableByteSpan memory) {
    if (part.atomic) {
      std::uint64_t original = perform(*part.atomic, memory.data());
      scatter(part.to, MutableByteSpan{std::as_writable_bytes(std::span{&original, 1})});
      return;
    }
    for (const ByteSpan piece : part.from) {
      copy_bytes(memory.first(piece.size()), piece);
      memory = memory.subspan(piece.size());
    }
    scatter(part.to, memory);
  }

 private:
  static void scatter(std::span<const MutableByteSpan> pieces, ByteSpan from) {
    for (const MutableByteSpan piece : pieces) {
      copy_bytes(piece, from.first(piece.size()));
      from = from.subspan(piece.size());
    }
  }

  struct Grant {
    Qpn qpn;
    PlaceableMemory memory;
  };
  std::uint64_t epoch_{1};
  std::vector<Grant> grants_;
};

}  // namespace weft::hca
