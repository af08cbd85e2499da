#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/cm/cm_codes.h"
#include "wire/layout.h"

namespace weft::wire {

/// DisconnectRequest (IBTA vol 1 §12.6.10).
struct Dreq {
  static constexpr std::string_view kName = "DREQ";

  std::uint32_t local_communication_id{};
  std::uint32_t remote_communication_id{};
  Qpn remote_qpn{};
  std::array<std::byte, 220> private_data{};
  bool operator==(const Dreq&) const = default;

  // clang-format off
  using Wire = Layout<kCmDataBytes,
      Field<"LocalCommID", 32, &Dreq::local_communication_id>,
      Field<"RemoteCommID", 32, &Dreq::remote_communication_id>,
      Field<"RemoteQPN", 24, &Dreq::remote_qpn>,
      Reserved<8>,
      Octets<"PrivateData", 220, &Dreq::private_data>>;
  // clang-format on
};

/// DisconnectReply (IBTA vol 1 §12.6.11).
struct Drep {
  static constexpr std::string_view kName = "DREP";

  std::uint32_t local_communication_id{};
  std::uint32_t remote_communication_id{};
  std::array<std::byte, 224> private_data{};
  bool operator==(const Drep&) const = default;

  // clang-format off
  using Wire = Layout<kCmDataBytes,
      Field<"LocalCommID", 32, &Drep::local_communication_id>,
      Field<"RemoteCommID", 32, &Drep::remote_communication_id>,
      Octets<"PrivateData", 224, &Drep::private_data>>;
  // clang-format on
};

}  // namespace weft::wire
