#include "cm/communication_ids.h"

#include <utility>

namespace weft::cm {

CommunicationIds::CommunicationIds(std::uint64_t seed) {
  Random random{seed};
  for (std::uint64_t& key : keys_) {
    key = random();
  }
  last_ = static_cast<std::uint32_t>(random());
}

/// A Feistel network, which is a permutation for any round function.
std::uint32_t CommunicationIds::permuted(std::uint32_t number) const {
  auto left = static_cast<std::uint16_t>(number >> 16);
  auto right = static_cast<std::uint16_t>(number);
  for (const std::uint64_t key : keys_) {
    Random round{key ^ right};
    left = static_cast<std::uint16_t>(left ^ round());
    std::swap(left, right);
  }
  return std::uint32_t{left} << 16 | right;
}

std::uint32_t CommunicationIds::next() {
  std::uint32_t id = 0;
  do {
    id = permuted(++last_);
  } while (id == 0);
  return id;
}

}  // namespace weft::cm
