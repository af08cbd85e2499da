#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/srp/srp_codes.h"

namespace weft::programs::srp {

/// A logical unit of an SRP target: srp://HOST[:PORT]/TARGET/LUN. TARGET is the target's port
/// identifier in 32 hexadecimal digits, or 16 digits where extension and GUID are the same.
struct TargetUrl {
  std::string address{};  ///< HOST:PORT; the port is kDefaultPort if there is none
  wire::SrpPortId port_id{};
  std::uint16_t lun{};
};

[[nodiscard]] Result<TargetUrl> parse_target_url(std::string_view text);

}  // namespace weft::programs::srp
