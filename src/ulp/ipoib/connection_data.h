#pragma once

// The private data of connected mode's REQ and REP (RFC 4755 §6), and what two ends that are both
// ours say behind it. Values, and pure functions.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "wire/layout.h"

namespace weft::ipoib {

struct ConnectionData {
  static constexpr std::string_view kName = "IPoIB-CM private data";

  Qpn qpn{};                    ///< of the interface's UD QP
  std::uint32_t receive_mtu{};  ///< with the encapsulation header
  bool operator==(const ConnectionData&) const = default;

  // clang-format off
  using Wire = wire::Layout<8,
      wire::Reserved<8>,
      wire::Field<"QPN", 24, &ConnectionData::qpn>,
      wire::Field<"ReceiveMTU", 32, &ConnectionData::receive_mtu>>;
  // clang-format on
};

/// Behind it: readers of the RFC look no further.
struct ConnectionExtension {
  static constexpr std::string_view kName = "Weft's IPoIB-CM extension";
  static constexpr std::uint32_t kMagic = 0x5745'4654;  // "WEFT"

  std::uint32_t magic{kMagic};
  bool partial_checksums{};  ///< this end takes them (partial_checksum.h)
  bool operator==(const ConnectionExtension&) const = default;

  // clang-format off
  using Wire = wire::Layout<8,
      wire::Field<"Magic", 32, &ConnectionExtension::magic>,
      wire::Reserved<31>,
      wire::Field<"PartialChecksums", 1, &ConnectionExtension::partial_checksums>>;
  // clang-format on
};

/// With the extension where there is something to say.
[[nodiscard]] std::vector<std::byte> private_data_of(const ConnectionData& data,
                                                     bool partial_checksums);
/// Not trusted. False where there is no extension, as in the private data of others.
[[nodiscard]] bool takes_partial_checksums(ByteSpan private_data);

}  // namespace weft::ipoib
