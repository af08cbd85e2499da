#pragma once

#include <cstdint>

namespace weft::verbs {

/// Protection information in one domain, memory or wire (`struct ib_sig_domain`; T10 SBC-3 §4.22).
struct T10DifDomain {
  enum class Guard : std::uint8_t { Crc, IpChecksum };
  Guard guard{Guard::Crc};
  std::uint16_t protection_interval{512};  ///< bytes of data that one tuple protects
  std::uint16_t guard_seed{};
  std::uint16_t application_tag{};
  std::uint32_t reference_tag{};
  bool remaps_reference_tag{};  ///< it grows by one with each interval
  bool application_escape{};    ///< an application tag of FFFF: the interval is not checked
  bool reference_escape{};      ///< with a reference tag of FFFFFFFF besides
  std::uint16_t application_check_mask{0xFFFF};
  bool operator==(const T10DifDomain&) const = default;
};

enum class SignatureType : std::uint8_t { None, T10Dif };

struct SignatureDomain {
  SignatureType type{SignatureType::None};
  T10DifDomain dif;
};

/// Which parts of a tuple are checked: the bits of SignatureAttributes::check_mask, each of a byte
/// of the tuple (`enum ib_signature_check_mask`).
inline constexpr std::uint8_t kCheckGuard = 0xC0;
inline constexpr std::uint8_t kCheckApplicationTag = 0x30;
inline constexpr std::uint8_t kCheckReferenceTag = 0x0F;

/// What an integrity region does to data on its way (`struct ib_sig_attrs`): with protection
/// information on the wire alone it is inserted, in memory alone stripped, in both passed.
struct SignatureAttributes {
  std::uint8_t check_mask{};
  SignatureDomain memory{};
  SignatureDomain wire{};
  std::uint64_t metadata_length{};  ///< bytes; as mapped
};

enum class SignatureError : std::uint8_t { BadGuard, BadReferenceTag, BadApplicationTag };

/// What a check found (`struct ib_mr_status`).
struct SignatureStatus {
  bool failed{};
  SignatureError error{};
  std::uint32_t expected{};
  std::uint32_t actual{};
  /// Bytes, as if each interval were followed by its tuple: divided by interval + 8, the interval.
  std::uint64_t offset{};
  std::uint32_t key{};
};

}  // namespace weft::verbs
