// weft explain: why the fabric did what it did. Of MADs at ports that virtual functions share,
// which the multiplexer translates, steers or drops.

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "cli/fabric_client.h"
#include "cli/fabric_name.h"
#include "cli/terminal.h"

namespace weft::cli {
namespace {

using nlohmann::json;

struct ExplainOptions {
  std::shared_ptr<std::string> fabric;
  std::string host;            // empty: of all
  std::string transaction_id;  // empty: all
  std::size_t last{20};
  bool only_dropped{};
  bool as_json{};
};

[[nodiscard]] std::optional<std::uint64_t> read_transaction_id(std::string_view text) {
  constexpr int kHexadecimal = 16;
  const bool is_hexadecimal = text.starts_with("0x");
  text.remove_prefix(is_hexadecimal ? 2 : 0);
  std::uint64_t value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value,
                                            is_hexadecimal ? kHexadecimal : 10);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{value}
                                                                  : std::nullopt;
}

/// Whether the ID is the MAD's before or after its translation, or its lower half, which is all
/// that a program chooses.
[[nodiscard]] bool has_transaction_id(const json& decision, std::uint64_t wanted) {
  for (const char* const member : {"transaction_id", "transaction_id_after"}) {
    const auto found = read_transaction_id(decision[member].get<std::string>());
    const bool is_half = wanted >> 32 == 0 && found && (*found & 0xFFFF'FFFF) == wanted;
    if (found == wanted || is_half) {
      return true;
    }
  }
  return false;
}

[[nodiscard]] json matching(const json& decisions, const ExplainOptions& options,
                            std::optional<std::uint64_t> transaction_id) {
  json found = json::array();
  for (const json& decision : decisions) {
    const bool is_of_host = options.host.empty() || decision["host"] == options.host;
    const bool is_of_transaction = !transaction_id || has_transaction_id(decision, *transaction_id);
    if (is_of_host && is_of_transaction &&
        (!options.only_dropped || decision["action"] == "dropped")) {
      found.push_back(decision);
    }
  }
  if (found.size() > options.last) {
    found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(options.last));
  }
  return found;
}

int explain_mads(const ExplainOptions& options) {
  const auto transaction_id = read_transaction_id(options.transaction_id);
  if (!options.transaction_id.empty() && !transaction_id) {
    return print_error(
        {ErrorCode::InvalidArgument,
         fmt::format("'{}' is no transaction ID, as 0x100000007 or 7", options.transaction_id)});
  }
  const auto answer = ask(*options.fabric, uabi::QueryKind::Decisions);
  if (!answer) {
    return print_error(answer.error());
  }
  const json found = matching(json::parse(*answer), options, transaction_id);
  if (options.as_json) {
    fmt::print("{}\n", found.dump());
    return 0;
  }
  for (const json& decision : found) {
    constexpr double kMicrosecondsPerSecond = 1e6;
    const json& host = decision["host"];
    fmt::print("{:>10.3f} s ago  {:<8} {:<10} {}\n",
               decision["microseconds_ago"].get<double>() / kMicrosecondsPerSecond,
               decision["port"].get<std::string>(),
               host.is_null() ? "(gone)" : host.get<std::string>(),
               decision["text"].get<std::string>());
  }
  if (found.empty()) {
    fmt::print(
        "no such MAD lately; the last 512 of each port that virtual functions share are "
        "remembered\n");
  }
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, Outcome& outcome) {
  auto* const command = app.add_subcommand("explain", "Why something went as it did");
  command->require_subcommand(1);
  auto options = std::make_shared<ExplainOptions>();
  options->fabric = add_fabric_name(*command);
  auto* const mad = command->add_subcommand(
      "mad", "Where MADs of ports with virtual functions went, and why; the latest last");
  mad->fallthrough();
  mad->add_option("host", options->host, "A function's, or the one whose port it shares");
  mad->add_option("--tid", options->transaction_id,
                  "Only MADs with this transaction ID, before or after translation");
  mad->add_option("--last", options->last, "How many, at most")->capture_default_str();
  mad->add_flag("--dropped", options->only_dropped, "Only what was dropped");
  mad->add_flag("--json", options->as_json, "For scripts");
  mad->footer("As: weft explain mad v1 --dropped");
  mad->callback([=, &outcome] { outcome.status = explain_mads(*options); });
}

}  // namespace weft::cli
