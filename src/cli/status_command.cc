// weft status.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/fabric_client.h"
#include "cli/fabric_name.h"
#include "cli/terminal.h"

namespace weft::cli {
namespace {

using nlohmann::json;

[[nodiscard]] std::string peer_of(const json& port) {
  const json& peer = port["peer"];
  return peer.is_null() ? std::string{"-"} : peer["name"].get<std::string>();
}

/// Formats ", 0.1 Gb/s, 200000 ns"; empty for a link without rate and delay.
[[nodiscard]] std::string times_of(const json& port) {
  std::string text;
  if (const auto rate = port["rate_mbps"].get<std::uint64_t>(); rate != 0) {
    constexpr double kMegabits = 1'000;
    text += fmt::format(", {} Gb/s", static_cast<double>(rate) / kMegabits);
  }
  if (const auto delay = port["delay_ns"].get<std::int64_t>(); delay != 0) {
    text += fmt::format(", {} ns", delay);
  }
  return text;
}

[[nodiscard]] std::string state_of(const json& port) {
  constexpr unsigned kRed = 0;
  constexpr unsigned kGreen = 1;
  const std::string state = port["state"];
  const std::string padded = fmt::format("{:<8}", state);
  return coloured(padded, state == "Active" ? kGreen : kRed, STDOUT_FILENO);
}

/// What the multiplexers of ports with virtual functions did with MADs.
void print_shared_ports(const json& status) {
  for (const json& shared : status["shared_ports"]) {
    const auto names = shared["functions"].get<std::vector<std::string>>();
    const json& mads = shared["mads"];
    fmt::print("  {} shared by {}: MADs", shared["port"].get<std::string>(),
               names.empty() ? "nobody now" : fmt::format("{}", fmt::join(names, ", ")));
    for (const auto& [action, count] : mads.items()) {
      fmt::print(" {} {}", action, count.get<std::uint64_t>());
    }
    fmt::print("\n");
  }
}

/// In hex for Omni-Path, as its tools have LIDs.
[[nodiscard]] std::string lid_of(const json& port) {
  const auto lid = port["lid"].get<std::uint32_t>();
  return port["link"] == "opa" ? fmt::format("{:#08x}", lid) : fmt::format("{}", lid);
}

void print_ports(const json& status, bool counters) {
  const bool has_omni_path =
      std::ranges::any_of(status["ports"], [](const json& port) { return port["link"] == "opa"; });
  const int lid_width = has_omni_path ? 8 : 5;
  fmt::print("{:<14} {:<8} {:>{}} {:<14}", "PORT", "STATE", "LID", lid_width, "PEER");
  if (counters) {
    fmt::print(" {:>12} {:>14} {:>12} {:>14} {:>8} {:>8} {:>6}", "XmitPkts", "XmitData", "RcvPkts",
               "RcvData", "Discards", "RcvErrs", "Downed");
  }
  fmt::print("\n");
  for (const json& port : status["ports"]) {
    if (port["kind"] == "switch" && port["port"] == 0) {
      continue;
    }
    fmt::print("{:<14} {} {:>{}} {:<14}", port["name"].get<std::string>(), state_of(port),
               lid_of(port), lid_width, peer_of(port));
    if (counters) {
      const json& c = port["counters"];
      const auto number = [&](const char* name) { return c[name].get<std::uint64_t>(); };
      fmt::print(" {:>12} {:>14} {:>12} {:>14} {:>8} {:>8} {:>6}", number("xmit_packets"),
                 number("xmit_data"), number("rcv_packets"), number("rcv_data"),
                 number("xmit_discards"), number("rcv_errors"), number("link_downed"));
    }
    fmt::print("{}\n", times_of(port));
  }
}

int status(const std::string& name, bool counters, bool as_json) {
  const auto answer = ask(name, counters ? uabi::QueryKind::Counters : uabi::QueryKind::Status);
  if (!answer) {
    return print_error(answer.error());
  }
  if (as_json) {
    fmt::print("{}\n", *answer);
    return 0;
  }
  const json parsed = json::parse(*answer);
  fmt::print("fabric {}, {} programs\n", parsed["fabric"].get<std::string>(),
             parsed["programs"].size());
  for (const json& program : parsed["programs"]) {
    fmt::print("  {} slot {} process {}\n", program["host"].get<std::string>(),
               program["slot"].get<int>(), program["pid"].get<int>());
  }
  for (const json& connection : parsed["connections"]) {
    fmt::print("  {} process {} {} {} to {}\n", connection["host"].get<std::string>(),
               connection["pid"].get<int>(), connection["state"].get<std::string>(),
               connection["source"].get<std::string>(),
               connection["destination"].get<std::string>());
  }
  for (const json& offence : parsed["offences"]) {
    fmt::print("  {} {} (process {}): {} {}\n", coloured("offence:", 0, STDOUT_FILENO),
               offence["host"].get<std::string>(), offence["pid"].get<int>(),
               offence["count"].get<std::uint64_t>(), offence["what"].get<std::string>());
  }
  print_shared_ports(parsed);
  print_ports(parsed, counters);
  return 0;
}

/// The QPs of all programs, and which way the long WRITEs and READs of connected ones go.
int qps(const std::string& name, bool as_json) {
  const auto answer = ask(name, uabi::QueryKind::Qps);
  if (!answer) {
    return print_error(answer.error());
  }
  if (as_json) {
    fmt::print("{}\n", *answer);
    return 0;
  }
  fmt::print("{:<8} {:>8} {:<16} {:>10} {:<13} {:<5} {:>10} {:<8} {}\n", "HOST", "PROCESS",
             "PROGRAM", "QP", "TYPE", "STATE", "TO", "WAY", "WHY");
  for (const json& qp : json::parse(*answer)) {
    fmt::print("{:<8} {:>8} {:<16} {:>#10x} {:<13} {:<5} {:>#10x} {:<8} {}\n",
               qp["host"].get<std::string>(), qp["pid"].get<int>(), qp["name"].get<std::string>(),
               qp["number"].get<std::uint32_t>(), qp["type"].get<std::string>(),
               qp["state"].get<std::string>(), qp.value("destination", 0U),
               qp.value("way", "packets"), qp.value("why", "not an RC QP"));
  }
  return 0;
}

}  // namespace

void add_status(CLI::App& app, Outcome& outcome) {
  auto* const command = app.add_subcommand("status", "Show nodes, ports, programs and counters");
  const auto name = add_fabric_name(*command);
  auto counters = std::make_shared<bool>(false);
  auto with_qps = std::make_shared<bool>(false);
  auto as_json = std::make_shared<bool>(false);
  command->add_flag("--counters", *counters, "Packets and data (in 4-byte words) of every port");
  command->add_flag("--qps", *with_qps,
                    "The QPs of all programs instead, and which way their long RDMA WRITEs and "
                    "READs go: by packets, or by the hand of who asks for them");
  command->add_flag("--json", *as_json, "For scripts");
  command->callback([=, &outcome] {
    outcome.status = *with_qps ? qps(*name, *as_json) : status(*name, *counters, *as_json);
  });
}

}  // namespace weft::cli
