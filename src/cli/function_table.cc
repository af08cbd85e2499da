#include "cli/function_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/fabric_client.h"
#include "cli/terminal.h"

namespace weft::cli {
namespace {

using nlohmann::json;

[[nodiscard]] std::string text_of(const json& value) { return value.get<std::string>(); }
[[nodiscard]] std::uint64_t number_of(const json& value) { return value.get<std::uint64_t>(); }

/// Use of a quota, as "2 of 8" or "2".
[[nodiscard]] std::string use_of(std::uint64_t used, std::uint64_t most) {
  return most == 0 ? fmt::format("{}", used) : fmt::format("{} of {}", used, most);
}

/// "0x8005 (1)": the key and its entry in the port's table, in the order of the function's own.
[[nodiscard]] std::string pkeys_of(const json& function) {
  std::vector<std::string> texts;
  for (const json& entry : function["pkeys"]) {
    texts.push_back(fmt::format("{} ({})", text_of(entry["pkey"]), number_of(entry["physical"])));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

void print_port(const json& port) {
  fmt::print("{} LID {} P_Keys {}\n", text_of(port["port"]), number_of(port["lid"]),
             fmt::join(port["pkeys"].get<std::vector<std::string>>(), ", "));
  fmt::print("  {:>2} {:<14} {:<10} {:<28} {:<9} {:<10} {:>5} {:>5} {:>6} {:>8}\n", "VF", "HOST",
             "STATE", "GID", "GROUPS", "PROGRAMS", "QPS", "CONNS", "MADS/S", "DROPPED");
  for (const json& function : port["functions"]) {
    const bool is_physical = number_of(function["number"]) == 0;
    const std::uint64_t rate = is_physical ? 0 : number_of(function["quotas"]["mads_per_second"]);
    fmt::print(
        "  {:>2} {:<14} {:<10} {:<28} {:<9} {:<10} {:>5} {:>5} {:>6} {:>8}\n",
        is_physical ? "PF" : fmt::format("{}", number_of(function["number"])),
        text_of(function["host"]), is_physical ? "" : text_of(function["state"]),
        is_physical || function["gid"].is_null() ? "" : text_of(function["gid"]),
        is_physical ? "" : use_of(function["groups"].size(), number_of(function["most_groups"])),
        use_of(number_of(function["programs"]),
               is_physical ? 0 : number_of(function["most_programs"])),
        number_of(function["qps"]), number_of(function["connections"]),
        rate == 0 ? "-" : fmt::format("{}", rate), number_of(function["mads"]["dropped"]));
  }
}

void print_function(const json& port, const json& function) {
  const auto row = [](std::string_view name, std::string_view value) {
    fmt::print("  {:<13} {}\n", name, value);
  };
  fmt::print("{}: VF {} of {}\n", text_of(function["host"]), number_of(function["number"]),
             text_of(port["port"]));
  row("state", text_of(function["state"]));
  row("LID", fmt::format("{}", number_of(function["lid"])));
  row("GID", function["gid"].is_null() ? "none" : text_of(function["gid"]));
  row("alias GUID",
      fmt::format("{} {}", text_of(function["guid"]), text_of(function["guid_state"])));
  row("node GUID", text_of(function["node_guid"]));
  row("policy", text_of(function["policy"]));
  row("trust", function["trusted"].get<bool>() ? "on" : "off");
  row("P_Keys", pkeys_of(function) + " (entries of the port's table)");
  const std::uint64_t rate = number_of(function["quotas"]["mads_per_second"]);
  row("MADs a second", rate == 0 ? "no limit" : fmt::format("at most {}", rate));
  row("programs", use_of(number_of(function["programs"]), number_of(function["most_programs"])));
  row("QPs", fmt::format("{}", number_of(function["qps"])));
  for (const json& dropped : function["dropped_packets"]) {
    row("dropped", fmt::format("{} packets of its QPs: {}", number_of(dropped["count"]),
                               text_of(dropped["reason"])));
  }
  row("connections", fmt::format("{}", number_of(function["connections"])));
  row("groups", use_of(function["groups"].size(), number_of(function["most_groups"])));
  for (const json& group : function["groups"]) {
    row("", fmt::format("{} MLID {:#06x} JoinState {:#x}", text_of(group["mgid"]),
                        number_of(group["mlid"]), number_of(group["join_state"])));
  }
  fmt::print("  MADs\n");
  for (const json& count : function["counters"]) {
    fmt::print("  {:>12}  {}: {}\n", number_of(count["count"]), text_of(count["action"]),
               text_of(count["reason"]));
  }
}

}  // namespace

int show_functions(const std::string& fabric, const std::string& name, bool as_json) {
  const auto answer = ask(fabric, uabi::QueryKind::Functions);
  if (!answer) {
    return print_error(answer.error());
  }
  const json ports = json::parse(*answer);
  if (name.empty()) {
    if (as_json) {
      fmt::print("{}\n", *answer);
      return 0;
    }
    for (const json& port : ports) {
      print_port(port);
    }
    return 0;
  }
  for (const json& port : ports) {
    for (const json& function : port["functions"]) {
      if (text_of(function["host"]) != name || number_of(function["number"]) == 0) {
        continue;
      }
      if (as_json) {
        fmt::print("{}\n", function.dump());
      } else {
        print_function(port, function);
      }
      return 0;
    }
  }
  return print_error({ErrorCode::NotFound,
                      fmt::format("{} is no virtual function; `weft vf list` has them", name)});
}

}  // namespace weft::cli
