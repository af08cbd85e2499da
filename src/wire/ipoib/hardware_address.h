#pragma once

#include <cstdint>
#include <string_view>

#include "base/flags.h"
#include "base/identifiers.h"
#include "wire/layout.h"

namespace weft::wire {

/// Optional capabilities of an interface (RFC 4755 §4).
enum class IpoibFlag : std::uint8_t {
  ReliableConnected = 1U << 7,
  UnreliableConnected = 1U << 6,
};

/// Link-layer address of an IPoIB interface (RFC 4391 §9.1.1). It contains no LID; that follows
/// from the path to the GID.
struct IpoibHardwareAddress {
  static constexpr std::string_view kName = "IPoIB address";

  Flags<IpoibFlag> flags{};
  Qpn qpn{};
  Gid gid{};
  bool operator==(const IpoibHardwareAddress&) const = default;

  // clang-format off
  using Wire = Layout<20,
      Field<"Flags", 8, &IpoibHardwareAddress::flags>,
      Field<"QPN", 24, &IpoibHardwareAddress::qpn>,
      Octets<"GID", 16, &IpoibHardwareAddress::gid>>;
  // clang-format on
};

}  // namespace weft::wire
