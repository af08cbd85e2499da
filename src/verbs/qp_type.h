#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::verbs {

/// Transport service type of a QP (IBTA vol 1 §9.2, §10.2.4), with the verbs API's numbers.
/// Smi and Gsi are QP0 and QP1, which the stack's own users have (IBTA vol 1 §10.2.4.4, §13.5.1).
enum class QpType : std::uint8_t {
  Smi = 0,
  Gsi = 1,
  Rc = 2,
  Uc = 3,
  Ud = 4,
  RawPacket = 8,
  XrcInitiator = 9,
  XrcTarget = 10
};

/// XRC (IBTA vol 1 annex A14) is RC with halves in QPs of their own: an initiator has only a send
/// queue, a target none at all; what a target receives goes to the SRQ that each request names.
[[nodiscard]] constexpr bool is_xrc(QpType type) {
  return type == QpType::XrcInitiator || type == QpType::XrcTarget;
}

/// The type with this number of the verbs API; none for a type that programs cannot have here.
[[nodiscard]] constexpr std::optional<QpType> qp_type_of(std::uint32_t number) {
  switch (number) {
    case 2:
      return QpType::Rc;
    case 3:
      return QpType::Uc;
    case 4:
      return QpType::Ud;
    case 9:
      return QpType::XrcInitiator;
    case 10:
      return QpType::XrcTarget;
    default:
      return std::nullopt;
  }
}

[[nodiscard]] constexpr std::string_view name_of(QpType type) {
  switch (type) {
    case QpType::Smi:
      return "SMI";
    case QpType::Gsi:
      return "GSI";
    case QpType::RawPacket:
      return "raw packet";
    case QpType::Rc:
      return "RC";
    case QpType::Uc:
      return "UC";
    case QpType::Ud:
      return "UD";
    case QpType::XrcInitiator:
      return "XRC initiator";
    case QpType::XrcTarget:
      return "XRC target";
  }
  return "no type";
}

}  // namespace weft::verbs
