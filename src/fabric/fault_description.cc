#include "fabric/fault_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>

#include "wire/opcode.h"

namespace weft::fabric {
namespace {

struct KindName {
  FaultKind kind;
  std::string_view name;
};
constexpr auto kKinds = std::to_array<KindName>({
    {FaultKind::Drop,      "drop"     },
    {FaultKind::Corrupt,   "corrupt"  },
    {FaultKind::Duplicate, "duplicate"},
    {FaultKind::Reorder,   "reorder"  },
    {FaultKind::Down,      "down"     },
});

struct Unit {
  std::string_view name;
  std::int64_t nanoseconds;
};
constexpr auto kUnits = std::to_array<Unit>({
    {"ns", 1            },
    {"us", 1'000        },
    {"ms", 1'000'000    },
    {"s",  1'000'000'000},
});

template <class Number>
std::optional<Number> read_number(std::string_view text, int base = 10) {
  Number number{};
  const auto [stop, failure] =
      std::from_chars(text.data(), text.data() + text.size(), number, base);
  return failure == std::errc{} && stop == text.data() + text.size() ? std::optional{number}
                                                                     : std::nullopt;
}

/// Decimal, or hexadecimal after 0x.
std::optional<std::uint64_t> read_whole(std::string_view text) {
  return text.starts_with("0x") ? read_number<std::uint64_t>(text.substr(2), 16)
                                : read_number<std::uint64_t>(text);
}

std::optional<double> read_fraction(std::string_view text) {
  double number{};
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc{} && stop == text.data() + text.size() ? std::optional{number}
                                                                     : std::nullopt;
}

std::optional<Duration> read_time(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto count = read_number<std::int64_t>(text.substr(0, digits));
  const auto* const unit = std::ranges::find(kUnits, text.substr(digits), &Unit::name);
  constexpr std::int64_t kMost = FaultDescription::kLongestTime.nanoseconds();
  if (!count || unit == kUnits.end() || *count > kMost / unit->nanoseconds) {
    return std::nullopt;
  }
  return Duration::nanoseconds(*count * unit->nanoseconds);
}

std::string write_time(Duration time) {
  std::size_t unit = kUnits.size() - 1;
  while (time.nanoseconds() % kUnits.at(unit).nanoseconds !=
         0) {  // every time is a multiple of 1 ns
    --unit;
  }
  return fmt::format("{}{}", time.nanoseconds() / kUnits.at(unit).nanoseconds,
                     kUnits.at(unit).name);
}

/// Reduces a name to lower-case letters, digits and `*`.
std::string bare(std::string_view name) {
  std::string letters;
  for (const char letter : name) {
    if (letter != ' ' && letter != '-' && letter != '_') {
      letters.push_back(letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a')
                                                       : letter);
    }
  }
  return letters;
}

/// Parser of one rule.
class FaultReader {
 public:
  explicit FaultReader(std::string_view text) : text_(text) {}

  Result<FaultDescription> read() {
    bool has_kind = false;
    for (std::string_view rest = text_; !rest.empty();) {
      const std::size_t end = std::min(rest.find_first_of(" ,\t"), rest.size());
      const std::string_view word = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (word.empty()) {
        continue;
      }
      if (auto taken = has_kind ? take_word(word) : take_kind(word); !taken) {
        return std::unexpected(taken.error());
      }
      has_kind = true;
    }
    if (!has_kind) {
      return refuse("a fault needs a kind");
    }
    if (auto checked = check(); !checked) {
      return std::unexpected(checked.error());
    }
    return std::move(fault_);
  }

 private:
  template <class... Arguments>
  [[nodiscard]] std::unexpected<Error> refuse(fmt::format_string<Arguments...> format,
                                              Arguments&&... arguments) const {
    return fail(ErrorCode::InvalidArgument, "fault '{}': {}; a rule is {}", text_,
                fmt::format(format, std::forward<Arguments>(arguments)...), kFaultGrammar);
  }

  Result<void> take_kind(std::string_view word) {
    const auto* const found = std::ranges::find(kKinds, word, &KindName::name);
    if (found == kKinds.end()) {
      return refuse("'{}' is no kind", word);
    }
    fault_.kind = found->kind;
    return {};
  }

  Result<void> take_word(std::string_view word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals + 1 == word.size()) {
      return refuse("'{}' is no KEY=VALUE", word);
    }
    const std::string_view key = word.substr(0, equals);
    const std::string_view value = word.substr(equals + 1);
    if (key != "opcode" && std::ranges::find(seen_, key) != seen_.end()) {
      return refuse("{} is said twice", key);
    }
    seen_.push_back(key);
    if (key == "link" || key == "out" || key == "in") {
      return take_link(key, value);
    }
    if (key == "p") {
      return take_probability(value);
    }
    if (key == "opcode") {
      return take_opcode(value);
    }
    if (key == "psn") {
      return take_psns(value);
    }
    if (key == "by" || key == "for") {
      return take_time(key, value);
    }
    return take_number(key, value);
  }

  Result<void> take_link(std::string_view key, std::string_view value) {
    if (!fault_.port.empty()) {
      return refuse("only one of link, out and in names the link");
    }
    fault_.port = value;
    fault_.side = key == "link" ? FaultSide::Both : key == "out" ? FaultSide::Out : FaultSide::In;
    return {};
  }

  Result<void> take_probability(std::string_view value) {
    const auto probability = read_fraction(value);
    constexpr double kLeast = 1.0 / FaultDescription::kAlways;
    if (!probability || !(*probability >= kLeast && *probability <= 1)) {
      return refuse("p={} is no probability in 0.000001..1", value);
    }
    fault_.parts_per_million =
        static_cast<std::uint32_t>(std::llround(*probability * FaultDescription::kAlways));
    return {};
  }

  Result<void> take_opcode(std::string_view value) {
    constexpr std::size_t kMaxPatterns = 64;  // policy
    if (fault_.opcodes.size() == kMaxPatterns) {
      return refuse("a rule has at most {} patterns of opcodes", kMaxPatterns);
    }
    const auto fits_value = [&](const wire::OpcodeInfo& info) { return fits(value, info.name); };
    if (std::ranges::none_of(wire::opcode_table(), fits_value)) {
      return refuse("no opcode is called '{}': rc-send-only, *-ack* or ud* are patterns", value);
    }
    fault_.opcodes.emplace_back(value);
    return {};
  }

  Result<void> take_psns(std::string_view value) {
    const std::size_t dash = value.find('-');
    const auto first = read_whole(value.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : read_whole(value.substr(dash + 1));
    if (!first || !last || *first > Psn::kMask || *last > Psn::kMask) {
      return refuse("psn={} is no PSN or range of PSNs in 0..16777215, as 5 or 100-199", value);
    }
    fault_.psns = {.first = Psn{static_cast<std::uint32_t>(*first)},
                   .last = Psn{static_cast<std::uint32_t>(*last)}};
    return {};
  }

  Result<void> take_time(std::string_view key, std::string_view value) {
    const auto time = read_time(value);
    if (!time || *time == Duration{}) {
      return refuse("{}={} is no time of at most a day, as 200us, 5ms or 10s", key, value);
    }
    if (key == "by" && *time > FaultDescription::kLongestHold) {
      return refuse("a packet is held back by at most 1 s, not {}", value);
    }
    (key == "by" ? fault_.hold : fault_.lasts) = *time;
    return {};
  }

  Result<void> take_number(std::string_view key, std::string_view value) {
    struct Row {
      std::string_view key;
      std::uint64_t least;
      std::uint64_t most;
    };
    constexpr std::uint64_t kPackets = FaultDescription::kMaxPackets;
    static constexpr auto kRows = std::to_array<Row>({
        {"every", 1, kPackets },
        {"after", 1, kPackets },
        {"count", 1, kPackets },
        {"slid",  1, 0xEF'FFFF},
        {"dlid",  1, 0xFF'FFFF},
        {"qp",    0, 0xFF'FFFF},
        {"seed",  0, ~0ULL    },
    });
    const auto* const row = std::ranges::find(kRows, key, &Row::key);
    if (row == kRows.end()) {
      return refuse("there is no '{}'", key);
    }
    const auto number = read_whole(value);
    if (!number || *number < row->least || *number > row->most) {
      return refuse("{}={} is no whole number in {}..{}", key, value, row->least, row->most);
    }
    put(key, *number);
    return {};
  }

  void put(std::string_view key, std::uint64_t number) {
    const auto low = static_cast<std::uint32_t>(number);
    if (key == "every") {
      fault_.every = number;
    } else if (key == "after") {
      fault_.after = number;
    } else if (key == "count") {
      fault_.count = number;
    } else if (key == "slid") {
      fault_.slid = Lid{low};
    } else if (key == "dlid") {
      fault_.dlid = Lid{low};
    } else if (key == "qp") {
      fault_.dest_qp = Qpn{low};
    } else {
      fault_.seed = number;
    }
  }

  [[nodiscard]] bool says(std::string_view key) const {
    return std::ranges::find(seen_, key) != seen_.end();
  }

  Result<void> check() const {
    if (says("p") && says("every")) {
      return refuse("give p or every, not both");
    }
    if (says("seed") && !says("p")) {
      return refuse("a seed is that of p");
    }
    if (says("by") && fault_.kind != FaultKind::Reorder) {
      return refuse("'by' is how long reorder holds a packet back");
    }
    if (fault_.kind == FaultKind::Down) {
      const auto chooses = [](std::string_view key) {
        return key != "link" && key != "out" && key != "in" && key != "for";
      };
      if (const auto found = std::ranges::find_if(seen_, chooses); found != seen_.end()) {
        return refuse("down is of a whole link, both ways, and chooses no packets by {}", *found);
      }
    }
    return {};
  }

  std::string_view text_;
  FaultDescription fault_;
  std::vector<std::string_view> seen_;  // keys
};

}  // namespace

Result<FaultDescription> read_fault(std::string_view text) { return FaultReader{text}.read(); }

std::string_view name_of(FaultKind kind) {
  return std::ranges::find(kKinds, kind, &KindName::kind)->name;
}

std::string to_string(const FaultDescription& fault) {
  const FaultDescription usual;
  std::string text{name_of(fault.kind)};
  const auto say = [&](std::string_view key, const auto& value) {
    fmt::format_to(std::back_inserter(text), " {}={}", key, value);
  };
  const auto append_unless = [&](const auto& value, const auto& default_value,
                                 std::string_view key) {
    if (value != default_value) {
      say(key, value);
    }
  };
  if (fault.parts_per_million != usual.parts_per_million || fault.seed != usual.seed) {
    say("p", fault.parts_per_million / double{FaultDescription::kAlways});
    append_unless(fault.seed, usual.seed, "seed");
  }
  append_unless(fault.every, usual.every, "every");
  append_unless(fault.after, usual.after, "after");
  append_unless(fault.count, usual.count, "count");
  if (!fault.port.empty()) {
    say(fault.side == FaultSide::Both  ? "link"
        : fault.side == FaultSide::Out ? "out"
                                       : "in",
        fault.port);
  }
  for (const std::string& pattern : fault.opcodes) {
    say("opcode", pattern);
  }
  if (fault.psns) {
    say("psn", fmt::format("{}-{}", fault.psns->first.value(), fault.psns->last.value()));
  }
  if (fault.slid) {
    say("slid", fault.slid->value());
  }
  if (fault.dlid) {
    say("dlid", fault.dlid->value());
  }
  if (fault.dest_qp) {
    say("qp", fmt::format("{:#x}", fault.dest_qp->value()));
  }
  if (fault.hold != usual.hold) {
    say("by", write_time(fault.hold));
  }
  if (fault.lasts != usual.lasts) {
    say("for", write_time(fault.lasts));
  }
  return text;
}

bool fits(std::string_view pattern, std::string_view opcode_name) {
  const std::string wanted = bare(pattern);
  const std::string name = bare(opcode_name);
  // On a mismatch, the last `*` absorbs one more letter.
  std::size_t at = 0;
  std::size_t star = std::string::npos;
  std::size_t taken_to = 0;
  for (std::size_t letter = 0; letter < name.size();) {
    if (at < wanted.size() && wanted[at] == '*') {
      star = at++;
      taken_to = letter;
    } else if (at < wanted.size() && wanted[at] == name[letter]) {
      ++at;
      ++letter;
    } else if (star != std::string::npos) {
      at = star + 1;
      letter = ++taken_to;
    } else {
      return false;
    }
  }
  return wanted.find_first_not_of('*', at) == std::string::npos;
}

}  // namespace weft::fabric
