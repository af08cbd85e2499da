#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
// Version 3.3 asserts what it then checks and reports itself; "[&" would abort the program.
#define TOML_ASSERT(expr) static_assert(true)
#include "programs/iscsi/configuration.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "scsi/lun.h"
#include "scsi/ram_device.h"

namespace weft::programs::iscsi {

using weft::iscsi::ChapAccount;
using weft::iscsi::ChapPolicy;

namespace {

[[nodiscard]] Result<std::string> read_file(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  if (!file) {
    return fail(ErrorCode::NotFound, "{}: {}", path, std::strerror(errno));
  }
  return std::string{std::istreambuf_iterator<char>{file}, {}};
}

[[nodiscard]] Result<void> check_keys(const toml::table& table,
                                      std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : table) {
    if (std::ranges::find(known, key.str()) == known.end()) {
      return fail(ErrorCode::InvalidArgument, "line {}: unknown key '{}'",
                  value.source().begin.line, key.str());
    }
  }
  return {};
}

[[nodiscard]] Result<std::vector<std::string>> texts(const toml::table& table,
                                                     std::string_view key) {
  std::vector<std::string> values;
  const toml::node* const node = table.get(key);
  const toml::array* const array = node != nullptr ? node->as_array() : nullptr;
  if (node != nullptr && array == nullptr) {
    return fail(ErrorCode::InvalidArgument, "line {}: {} is a list of texts",
                node->source().begin.line, key);
  }
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    const auto value = (*array)[i].value<std::string>();
    if (!value) {
      return fail(ErrorCode::InvalidArgument, "line {}: {} is a list of texts",
                  node->source().begin.line, key);
    }
    values.push_back(*value);
  }
  return values;
}

// "type1", as of a file.
[[nodiscard]] std::optional<scsi::ProtectionType> protection_of(std::string_view text) {
  using enum scsi::ProtectionType;
  constexpr std::array kTypes{None, Type1, Type2, Type3};
  constexpr std::array<std::string_view, kTypes.size()> kNames{"none", "type1", "type2", "type3"};
  const auto found = std::ranges::find(kNames, text);
  return found == kNames.end()
             ? std::nullopt
             : std::optional{kTypes[static_cast<std::size_t>(found - kNames.begin())]};
}

[[nodiscard]] Result<UnitConfiguration> checked(UnitConfiguration unit) {
  if (!unit.path.empty() && unit.protection != scsi::ProtectionType::None) {
    return fail(ErrorCode::InvalidArgument,
                "{}: a file has no place for protection information; a disk in memory (ram:SIZE) "
                "has",
                unit.path);
  }
  return unit;
}

[[nodiscard]] Result<UnitConfiguration> parse_unit_table(const toml::table& table,
                                                         std::uint16_t lun) {
  if (auto known =
          check_keys(table, {"lun", "path", "ram", "block-size", "read-only", "protection"});
      !known) {
    return std::unexpected(known.error());
  }
  const auto line = table.source().begin.line;
  const auto path = table["path"].value<std::string>();
  const auto ram = table["ram"].value<std::string>();
  if (path.has_value() == ram.has_value()) {
    return fail(ErrorCode::InvalidArgument, "line {}: a lun has either a path or ram", line);
  }
  const auto number = table["lun"].value_or(std::int64_t{lun});
  const auto block = table["block-size"].value_or(std::int64_t{512});
  if (number < 0 || number > scsi::kMaxLun || (block != 512 && block != 4096)) {
    return fail(ErrorCode::InvalidArgument,
                "line {}: a lun is 0 to {}, and its blocks have 512 or 4096 octets", line,
                scsi::kMaxLun);
  }
  UnitConfiguration unit{.lun = static_cast<std::uint16_t>(number),
                         .path = path.value_or(""),
                         .block_bytes = static_cast<std::uint32_t>(block),
                         .read_only = table["read-only"].value_or(false)};
  const auto protection = protection_of(table["protection"].value_or(std::string{"none"}));
  if (!protection) {
    return fail(ErrorCode::InvalidArgument,
                "line {}: protection is \"none\", \"type1\", \"type2\" or \"type3\"", line);
  }
  unit.protection = *protection;
  if (ram) {
    const auto bytes = scsi::parse_size(*ram);
    if (!bytes) {
      return std::unexpected(bytes.error());
    }
    unit.ram_bytes = *bytes;
  }
  return checked(std::move(unit));
}

[[nodiscard]] Result<TargetConfiguration> parse_target(const toml::table& table) {
  if (auto checked = check_keys(table, {"name", "alias", "initiators", "chap-file", "lun"});
      !checked) {
    return std::unexpected(checked.error());
  }
  auto initiators = texts(table, "initiators");
  if (!initiators) {
    return std::unexpected(initiators.error());
  }
  TargetConfiguration target{.name = table["name"].value_or(std::string{}),
                             .alias = table["alias"].value_or(std::string{}),
                             .units = {},
                             .initiators = *std::move(initiators),
                             .chap_file = table["chap-file"].value_or(std::string{})};
  if (target.name.empty()) {
    return fail(ErrorCode::InvalidArgument, "line {}: a target has a name",
                table.source().begin.line);
  }
  const toml::array* const luns = table["lun"].as_array();
  for (std::size_t i = 0; luns != nullptr && i < luns->size(); ++i) {
    const toml::table* const one = (*luns)[i].as_table();
    if (one == nullptr) {
      return fail(ErrorCode::InvalidArgument, "a lun of {} is no table", target.name);
    }
    auto unit = parse_unit_table(*one, static_cast<std::uint16_t>(i));
    if (!unit) {
      return std::unexpected(unit.error());
    }
    target.units.push_back(*unit);
  }
  return target;
}

}  // namespace

Result<UnitConfiguration> parse_unit(std::string_view text, std::uint16_t lun) {
  UnitConfiguration unit{.lun = lun};
  std::size_t comma = text.find(',');
  const std::string_view what = text.substr(0, comma);
  if (what.starts_with("ram:")) {
    const auto bytes = scsi::parse_size(what.substr(4));
    if (!bytes) {
      return std::unexpected(bytes.error());
    }
    unit.ram_bytes = *bytes;
  } else if (what.empty()) {
    return fail(ErrorCode::InvalidArgument, "a lun is ram:SIZE or a path");
  } else {
    unit.path = what;
  }
  while (comma != text.npos) {
    text.remove_prefix(comma + 1);
    comma = text.find(',');
    const std::string_view option = text.substr(0, comma);
    if (option == "ro") {
      unit.read_only = true;
    } else if (option == "bs=512" || option == "bs=4096") {
      unit.block_bytes = option == "bs=512" ? 512 : 4096;
    } else if (const auto type = option.starts_with("pi=")
                                     ? protection_of(fmt::format("type{}", option.substr(3)))
                                     : std::nullopt) {
      unit.protection = *type;
    } else {
      return fail(ErrorCode::InvalidArgument,
                  "'{}' is no option of a lun: ro, bs=512, bs=4096, pi=1, pi=2, pi=3", option);
    }
  }
  return checked(std::move(unit));
}

Result<Configuration> parse_configuration(std::string_view text, const std::string& name) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return fail(ErrorCode::InvalidArgument, "{}:{}: {}", name, parsed.error().source().begin.line,
                parsed.error().description());
  }
  const auto in_file = [&](const Error& error) {
    return fail(error.code, "{}: {}", name, error.reason);
  };
  const toml::table& table = parsed.table();
  if (auto checked = check_keys(table, {"portals", "target"}); !checked) {
    return in_file(checked.error());
  }
  auto portals = texts(table, "portals");
  if (!portals) {
    return in_file(portals.error());
  }
  Configuration configuration{.portals = *std::move(portals), .targets = {}};
  const toml::array* const targets = table["target"].as_array();
  for (std::size_t i = 0; targets != nullptr && i < targets->size(); ++i) {
    const toml::table* const one = (*targets)[i].as_table();
    if (one == nullptr) {
      return fail(ErrorCode::InvalidArgument, "{}: a target is a table: [[target]]", name);
    }
    auto target = parse_target(*one);
    if (!target) {
      return in_file(target.error());
    }
    configuration.targets.push_back(*std::move(target));
  }
  return configuration;
}

Result<Configuration> read_configuration(const std::string& path) {
  const auto text = read_file(path);
  return text ? parse_configuration(*text, path) : std::unexpected(text.error());
}

Result<ChapPolicy> parse_chap(std::string_view text, ChapEnd end) {
  ChapPolicy policy;
  std::istringstream lines{std::string{text}};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words{line};
    std::string kind;
    ChapAccount account;
    std::string more;
    if (!(words >> kind) || kind.starts_with('#')) {
      continue;
    }
    const bool is_whole =
        static_cast<bool>(words >> account.name >> account.secret) && !(words >> more);
    const bool is_own = kind == "own" && !policy.own;
    if (!is_whole || (kind != "peer" && !is_own)) {  // never says what stands there
      return fail(ErrorCode::InvalidArgument,
                  "line {}: a line is 'peer NAME SECRET' or, once, 'own NAME SECRET'", number);
    }
    if (is_own) {
      policy.own = std::move(account);
    } else {
      policy.peers.push_back(std::move(account));
    }
  }
  if (end == ChapEnd::Initiator && !policy.own) {
    return fail(ErrorCode::InvalidArgument, "there is no account of this end: no line 'own'");
  }
  if (end == ChapEnd::Target && !policy.is_required()) {
    return fail(ErrorCode::InvalidArgument, "nobody may log in: there is no line 'peer'");
  }
  if (auto checked = weft::iscsi::check_chap_policy(policy); !checked) {
    return std::unexpected(checked.error());
  }
  return policy;
}

Result<ChapPolicy> read_chap_file(const std::string& path, ChapEnd end) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) {
    return fail(ErrorCode::NotFound, "{}: {}", path, std::strerror(errno));
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return fail(ErrorCode::PermissionDenied,
                "{} has secrets, and others than its owner may use it: chmod 600", path);
  }
  const auto text = read_file(path);
  if (!text) {
    return std::unexpected(text.error());
  }
  auto policy = parse_chap(*text, end);
  if (!policy) {
    return fail(policy.error().code, "{}: {}", path, policy.error().reason);
  }
  return policy;
}

}  // namespace weft::programs::iscsi
