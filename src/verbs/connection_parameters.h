#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"

namespace weft::verbs {

/// Enhanced connection establishment (ECE): vendor options that both sides agree upon in REQ, REP
/// and SIDR_REP.
struct Ece {
  std::uint32_t vendor_id{};  // 24 bits; 0 means no options
  std::uint32_t options{};
  friend constexpr bool operator==(const Ece&, const Ece&) = default;
};

/// Parameters of an RDMA-CM connection (IBTA vol 1 annex A11): what a user asks for, and what it is
/// told of the other side's. For UD only QPN, Q_Key and private data are meaningful.
struct ConnectionParameters {
  Qpn qpn{};
  QKey qkey{};  // UD only
  bool has_srq{};
  std::uint8_t responder_resources{};
  std::uint8_t initiator_depth{};
  std::uint8_t flow_control{};     // a truth value, kept as the user gave it
  std::uint8_t retry_count{};      // 0..7
  std::uint8_t rnr_retry_count{};  // 0..7, 7 is without end
  Ece ece{};
  std::vector<std::byte> private_data{};  // up to 255 octets, an 8-bit length's maximum
  bool operator==(const ConnectionParameters&) const = default;
};

}  // namespace weft::verbs
