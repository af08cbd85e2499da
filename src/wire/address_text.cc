#include "wire/address_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ip_address.h"

namespace weft::wire {

std::string address_text(std::span<const std::byte, 16> address) {
  IpAddress::V6Octets octets{};
  std::ranges::copy(address, octets.begin());
  return to_string(IpAddress{octets});
}

std::string address_text(std::span<const std::byte, 4> address) {
  IpAddress::V4Octets octets{};
  std::ranges::copy(address, octets.begin());
  return to_string(IpAddress{octets});
}

std::string hex_text(std::span<const std::byte> octets, const char* separator) {
  std::string text;
  for (const std::byte octet : octets) {
    text +=
        fmt::format("{}{:02x}", text.empty() ? "" : separator, std::to_integer<unsigned>(octet));
  }
  return text;
}

}  // namespace weft::wire
