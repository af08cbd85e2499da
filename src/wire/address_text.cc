#include "wire/address_text.h"

#include <fmt/format.h>

namespace weft::wire {

std::string address_text(std::span<const std::byte, 16> address) {
  std::array<unsigned, 8> groups{};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i] = std::to_integer<unsigned>(address[2 * i]) << 8 |
                std::to_integer<unsigned>(address[2 * i + 1]);
  }
  std::size_t zeros_at = groups.size();
  std::size_t zeros = 1;  // a single zero group stays
  for (std::size_t start = 0; start < groups.size(); ++start) {
    std::size_t end = start;
    while (end < groups.size() && groups[end] == 0) {
      ++end;
    }
    if (end - start > zeros) {
      zeros_at = start;
      zeros = end - start;
    }
  }
  std::string text;
  for (std::size_t i = 0; i < groups.size();) {
    if (i == zeros_at) {
      text += "::";
      i += zeros;
      continue;
    }
    text += text.empty() || text.back() == ':' ? "" : ":";
    text += fmt::format("{:x}", groups[i]);
    ++i;
  }
  return text;
}

std::string address_text(std::span<const std::byte, 4> address) {
  return fmt::format("{}.{}.{}.{}", std::to_integer<unsigned>(address[0]),
                     std::to_integer<unsigned>(address[1]), std::to_integer<unsigned>(address[2]),
                     std::to_integer<unsigned>(address[3]));
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
