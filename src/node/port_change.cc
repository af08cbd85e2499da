#include "node/port_change.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace weft::node {

using wire::LinkState;
using wire::PhysicalState;

namespace {

struct Bit {
  std::string_view name;
  std::uint8_t bit;
};
constexpr std::array<Bit, 5> kWidths = {
    {{"1x", 1}, {"2x", 16}, {"4x", 2}, {"8x", 4}, {"12x", 8}}
};
constexpr std::array<Bit, 3> kSpeeds = {
    {{"sdr", 1}, {"ddr", 2}, {"qdr", 4}}
};
constexpr std::array<Bit, 4> kExtended = {
    {{"fdr", 1}, {"edr", 2}, {"hdr", 4}, {"ndr", 8}}
};
// Values in Set(PortInfo): everything the port supports, without extended speeds.
constexpr std::uint8_t kAllWidths = 0xFF;
constexpr std::uint8_t kAllSpeeds = 0x0F;
constexpr std::uint8_t kAllExtended = 0x1F;
constexpr std::uint8_t kNoExtended = 0x1E;

/// Splits off the text up to `separator`.
std::string_view next_piece(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view piece = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return piece;
}

template <std::size_t kCount>
[[nodiscard]] std::uint8_t bit_of(const std::array<Bit, kCount>& bits, std::string_view name) {
  const auto found = std::ranges::find(bits, name, &Bit::name);
  return found == bits.end() ? std::uint8_t{0} : found->bit;
}

[[nodiscard]] bool read_widths(std::string_view list, agents::PortSettings& settings) {
  if (list == "all") {
    settings.width_enabled = kAllWidths;
    return true;
  }
  while (!list.empty()) {
    const std::uint8_t bit = bit_of(kWidths, next_piece(list, ','));
    if (bit == 0) {
      return false;
    }
    settings.width_enabled |= bit;
  }
  return settings.width_enabled != 0;
}

[[nodiscard]] bool read_speeds(std::string_view list, agents::PortSettings& settings) {
  if (list == "all") {
    settings.speed_enabled = kAllSpeeds;
    settings.extended_enabled = kAllExtended;
    return true;
  }
  while (!list.empty()) {
    const std::string_view name = next_piece(list, ',');
    const std::uint8_t speed = bit_of(kSpeeds, name);
    const std::uint8_t extended = bit_of(kExtended, name);
    if (speed == 0 && extended == 0) {
      return false;
    }
    settings.speed_enabled |= speed;
    settings.extended_enabled |= extended;
  }
  if (settings.extended_enabled == 0) {
    settings.extended_enabled = kNoExtended;
  }
  return settings.speed_enabled != 0 || settings.extended_enabled != kNoExtended;
}

[[nodiscard]] bool read_word(std::string_view word, PortChange& change) {
  agents::PortSettings& settings = change.settings;
  constexpr std::string_view kWidth = "width=";
  constexpr std::string_view kSpeed = "speed=";
  if (word.starts_with(kWidth)) {
    return read_widths(word.substr(kWidth.size()), settings);
  }
  if (word.starts_with(kSpeed)) {
    return read_speeds(word.substr(kSpeed.size()), settings);
  }
  if (word == "plug" || word == "unplug") {
    change.is_plugged = word == "plug";
  } else if (word == "disable") {
    settings.physical = PhysicalState::Disabled;
  } else if (word == "enable") {
    change.enables = true;
  } else if (word == "reset") {
    settings.physical = PhysicalState::Polling;
  } else if (word == "down") {
    settings.state = LinkState::Down;
  } else if (word == "arm") {
    settings.state = LinkState::Armed;
  } else if (word == "active") {
    settings.state = LinkState::Active;
  } else {
    return false;
  }
  return true;
}

}  // namespace

Result<PortChange> read_port_change(std::string_view text) {
  PortChange change;
  bool has_words = false;
  while (!text.empty()) {
    const std::string_view word = next_piece(text, ' ');
    if (word.empty()) {
      continue;
    }
    has_words = true;
    if (!read_word(word, change)) {
      return fail(ErrorCode::InvalidArgument, "'{}' is not a change of a port: {}", word,
                  kPortChangeGrammar);
    }
  }
  if (!has_words) {
    return fail(ErrorCode::InvalidArgument, "no change of the port is named: {}",
                kPortChangeGrammar);
  }
  agents::PortSettings& settings = change.settings;
  const bool changes_speed =
      settings.width_enabled != 0 || settings.speed_enabled != 0 || settings.extended_enabled != 0;
  if (changes_speed && settings.state == LinkState::NoChange &&
      settings.physical == PhysicalState::NoChange) {
    settings.physical = PhysicalState::Polling;
  }
  return change;
}

}  // namespace weft::node
