#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weft::programs::iscsi {

/// A logical unit as libiscsi and QEMU name it: iscsi://HOST[:PORT]/IQN/LUN. Accounts are no part:
/// secrets are not for command lines.
struct TargetUrl {
  std::string scheme{};   ///< "iscsi", "iser"
  std::string address{};  ///< HOST:PORT; the port is 3260 if there is none
  std::string target{};
  std::uint16_t lun{};
};

[[nodiscard]] Result<TargetUrl> parse_target_url(std::string_view text);

/// HOST with a port: HOST:3260 if it has none.
[[nodiscard]] std::string with_port(std::string_view host);

}  // namespace weft::programs::iscsi
