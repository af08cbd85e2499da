#include "ulp/srp/port_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace weft::srp {
namespace {

[[nodiscard]] std::optional<unsigned> digit(char c) {
  if (c >= '0' && c <= '9') {
    return static_cast<unsigned>(c - '0');
  }
  if (c >= 'a' && c <= 'f') {
    return static_cast<unsigned>(c - 'a') + 10;
  }
  if (c >= 'A' && c <= 'F') {
    return static_cast<unsigned>(c - 'A') + 10;
  }
  return std::nullopt;
}

/// Four groups of four digits.
[[nodiscard]] std::optional<Guid> parse_guid(std::string_view name) {
  constexpr std::size_t kLength = 19;
  if (name.size() != kLength) {
    return std::nullopt;
  }
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kLength; ++i) {
    if (i % 5 == 4) {
      if (name[i] != ':') {
        return std::nullopt;
      }
      continue;
    }
    const auto one = digit(name[i]);
    if (!one) {
      return std::nullopt;
    }
    value = value << 4 | *one;
  }
  return Guid{value};
}

}  // namespace

Result<wire::SrpPortId> parse_port_id(std::string_view name) {
  std::string_view digits = name;
  if (digits.starts_with("0x") || digits.starts_with("0X")) {
    digits.remove_prefix(2);
  }
  wire::SrpPortId id{};
  if (digits.empty() || digits.size() % 2 != 0 || digits.size() > 2 * id.size()) {
    return fail(ErrorCode::InvalidArgument,
                "'{}' is no port identifier: an even number of hexadecimal digits, 32 at most",
                name);
  }
  std::size_t at = id.size() - digits.size() / 2;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const auto high = digit(digits[i]);
    const auto low = digit(digits[i + 1]);
    if (!high || !low) {
      return fail(ErrorCode::InvalidArgument, "'{}' has digits that are not hexadecimal", name);
    }
    id[at++] = static_cast<std::byte>(*high << 4 | *low);
  }
  return id;
}

std::string to_string(const wire::SrpPortId& id) {
  std::string text = "0x";
  for (const std::byte octet : id) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(octet));
  }
  return text;
}

wire::SrpPortId with_halves_swapped(const wire::SrpPortId& id) {
  wire::SrpPortId swapped;
  std::ranges::rotate_copy(id, id.begin() + id.size() / 2, swapped.begin());
  return swapped;
}

Result<AccessName> parse_access_name(std::string_view name) {
  if (const auto guid = parse_guid(name)) {
    return AccessName{*guid};
  }
  if (const auto ip = parse_ip_address(name)) {
    return AccessName{*ip};
  }
  const auto id = parse_port_id(name);
  if (!id) {
    return fail(ErrorCode::InvalidArgument,
                "'{}' is neither a port identifier, nor a GUID of four groups, nor an IP address",
                name);
  }
  return AccessName{*id};
}

bool matches(const AccessName& name, const Initiator& initiator) {
  if (const auto* const id = std::get_if<wire::SrpPortId>(&name)) {
    return *id == initiator.port_id;
  }
  if (const auto* const guid = std::get_if<Guid>(&name)) {
    return initiator.gid && initiator.gid->interface_id() == *guid;
  }
  return initiator.ip == std::get<IpAddress>(name);
}

Result<void> AccessList::allow(const AccessName& name) {
  if (std::ranges::find(names_, name) != names_.end()) {
    return fail(ErrorCode::Exists, "the name is on the list");
  }
  names_.push_back(name);
  return {};
}

Result<void> AccessList::withdraw(const AccessName& name) {
  const auto found = std::ranges::find(names_, name);
  if (found == names_.end()) {
    return fail(ErrorCode::NotFound, "the name is not on the list");
  }
  names_.erase(found);
  return {};
}

bool AccessList::allows(const Initiator& initiator) const {
  return anybody_ || std::ranges::any_of(
                         names_, [&](const AccessName& name) { return matches(name, initiator); });
}

}  // namespace weft::srp
