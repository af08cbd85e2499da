#pragma once

// The MACs that an interface listens to, as its Ethernet Manager reads them: by pages, with a count
// that grows with each change (R-VN-10, R-VN-14).

#include <cstdint>
#include <span>
#include <vector>

#include "wire/mac_address.h"
#include "wire/opa/mac_messages.h"

namespace weft::opa_vnic {

class InterfaceMacs {
 public:
  /// Longer lists are cut; their total is a 16-bit number (policy).
  static constexpr std::size_t kMost = 4096;

  /// True if the list is another one than before. Lists are compared, not their checksums.
  [[nodiscard]] bool set(std::vector<wire::MacAddress> macs);

  /// A page: up to `count` addresses from `start` on, as many as fit a message if that is 0.
  /// `omitted` does not belong to the list: the address that the manager itself has assigned.
  [[nodiscard]] wire::MacList page(std::uint16_t start, std::uint16_t count,
                                   const wire::MacAddress& omitted) const;

  [[nodiscard]] bool has(const wire::MacAddress& mac) const;
  /// Modulo 65536.
  [[nodiscard]] std::uint16_t generation() const { return generation_; }

 private:
  std::vector<wire::MacAddress> macs_;
  std::uint16_t generation_{};
};

}  // namespace weft::opa_vnic
