#include "daemon/ibsim/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace weft::daemon {

std::string name_in(const IbsimConnect& connect) {
  return {connect.node.begin(), std::find(connect.node.begin(), connect.node.end() - 1, '\0')};
}

void set_name(IbsimConnect& connect, std::string_view name) {
  connect.node = {};
  std::ranges::copy(name.substr(0, connect.node.size() - 1), connect.node.begin());
}

std::string ibsim_name(std::string_view base, std::string_view what,
                       std::optional<std::uint32_t> number) {
  return number ? fmt::format("{}:{}{}", base, what, *number) : fmt::format("{}:{}", base, what);
}

std::optional<Guid> guid_in_ibsim_name(std::string_view name) {
  constexpr std::size_t kPrefix = 2;
  if (!name.starts_with("H-") && !name.starts_with("S-")) {
    return std::nullopt;
  }
  const std::string_view digits = name.substr(kPrefix);
  std::uint64_t guid = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), guid, 16);
  if (error != std::errc{} || end != digits.data() + digits.size()) {
    return std::nullopt;
  }
  return Guid{guid};
}

}  // namespace weft::daemon
