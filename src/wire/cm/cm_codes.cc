#include "wire/cm/cm_codes.h"

#include <array>
#include <span>

namespace weft::wire {
namespace {

[[nodiscard]] std::string_view find(std::span<const std::string_view> names, std::size_t number) {
  return number < names.size() ? names[number] : std::string_view{};
}

}  // namespace

std::string_view name_of(CmAttribute attribute) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"});
  // Numbers below the first one wrap around to a large index.
  return find(kNames,
              static_cast<std::size_t>(attribute) - static_cast<std::size_t>(CmAttribute::Req));
}

std::string_view name_of(RejectReason reason) {
  static constexpr auto kNames = std::to_array<std::string_view>({
      "",
      "no QP available",
      "no EEC available",
      "no resources available",
      "timeout",
      "unsupported request",
      "invalid communication ID",
      "invalid communication instance",
      "invalid service ID",
      "invalid transport service type",
      "stale connection",
      "RDC does not exist",
      "primary remote GID rejected",
      "primary remote LID rejected",
      "invalid primary SL",
      "invalid primary traffic class",
      "invalid primary hop limit",
      "invalid primary packet rate",
      "alternate remote GID rejected",
      "alternate remote LID rejected",
      "invalid alternate SL",
      "invalid alternate traffic class",
      "invalid alternate hop limit",
      "invalid alternate packet rate",
      "port and CM redirection",
      "port redirection",
      "invalid path MTU",
      "insufficient responder resources",
      "consumer reject",
      "RNR retry count reject",
      "duplicate local communication ID",
      "invalid class version",
      "invalid primary flow label",
      "invalid alternate flow label",
      "",
      "vendor option not supported",
  });
  return find(kNames, static_cast<std::size_t>(reason));
}

std::string_view name_of(AprStatus status) {
  static constexpr auto kNames = std::to_array<std::string_view>({
      "alternate path loaded",
      "invalid communication ID",
      "alternate paths not supported",
      "failover port rejected",
      "redirect",
      "path is the current one",
      "QPN does not match",
      "LID rejected",
      "GID rejected",
      "flow label rejected",
      "traffic class rejected",
      "hop limit rejected",
      "packet rate rejected",
      "SL rejected",
  });
  return find(kNames, static_cast<std::size_t>(status));
}

std::string_view name_of(SidrStatus status) {
  static constexpr auto kNames = std::to_array<std::string_view>({
      "valid QPN",
      "service ID not supported",
      "rejected by service provider",
      "no QP available",
      "redirect",
      "version not supported",
  });
  return find(kNames, static_cast<std::size_t>(status));
}

}  // namespace weft::wire
