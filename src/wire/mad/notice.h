#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/layout.h"

namespace weft::wire {

/// Notice types (IBTA vol 1 §13.4.8.2).
enum class NoticeType : std::uint8_t {
  Fatal = 0,
  Urgent = 1,
  Security = 2,
  SubnetManagement = 3,
  Informational = 4,
  Empty = 0x7F,
};

/// Trap numbers of subnet management (IBTA vol 1 §14.2.5.1).
enum class Trap : std::uint16_t {
  GidInService = 64,
  GidOutOfService = 65,
  MulticastGroupCreated = 66,
  MulticastGroupDeleted = 67,
  LinkStateChange = 128,
  LocalLinkIntegrity = 129,
  ExcessiveBufferOverrun = 130,
  FlowControlUpdate = 131,
  CapabilityMaskChange = 144,
  SystemImageGuidChange = 145,
  BadMKey = 256,
  BadPKey = 257,
  BadQKey = 258,
  BadPKeyAtSwitch = 259,
};

inline constexpr std::size_t kNoticeDetailsBytes = 54;

/// Notice (IBTA vol 1 §13.4.8.2), the content of a trap. The trap number determines the format of
/// the details: notice_details.h.
struct Notice {
  static constexpr std::string_view kName = "Notice";

  bool is_generic{true};
  NoticeType type{};
  std::uint32_t
      producer_type{};  ///< generic: a NodeType, or 4 for a class manager; otherwise the vendor ID
  std::uint16_t trap_number{};  ///< generic; otherwise the device ID
  Lid issuer_lid{};
  bool toggle{};
  std::uint16_t count{};
  std::array<std::byte, 54> details{};
  bool operator==(const Notice&) const = default;

  // clang-format off
  using Wire = Layout<64,
      Field<"IsGeneric", 1, &Notice::is_generic>,
      Field<"Type", 7, &Notice::type>,
      Field<"ProducerType", 24, &Notice::producer_type>,
      Field<"TrapNumber", 16, &Notice::trap_number>,
      Field<"IssuerLID", 16, &Notice::issuer_lid>,
      Field<"NoticeToggle", 1, &Notice::toggle>,
      Field<"NoticeCount", 15, &Notice::count>,
      Octets<"DataDetails", 54, &Notice::details>>;
  // clang-format on
};

/// A notice as forwarded by SA (IBTA vol 1 §15.4.1): followed by the GID of the issuer.
struct SaNotice {
  static constexpr std::string_view kName = "Notice with issuer";

  Notice notice{};
  Gid issuer_gid{};
  bool operator==(const SaNotice&) const = default;

  // clang-format off
  using Wire = Layout<80,
      Nested<&SaNotice::notice>,
      Octets<"IssuerGID", 16, &SaNotice::issuer_gid>>;
  // clang-format on
};

}  // namespace weft::wire
