#include "programs/srp/status_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "ulp/srp/channel_state.h"
#include "ulp/srp/port_name.h"
#include "wire/address_text.h"
#include "wire/srp/srp_codes.h"

namespace weft::programs::srp {
namespace {

using Json = nlohmann::ordered_json;
using weft::srp::ChannelCounters;
using weft::srp::ChannelStatus;
using weft::srp::to_string;

[[nodiscard]] Json json_of(const ChannelCounters& counters) {
  return {
      {"commands",            counters.commands           },
      {"reads",               counters.reads              },
      {"read_bytes",          counters.read_bytes         },
      {"writes",              counters.writes             },
      {"written_bytes",       counters.written_bytes      },
      {"aborts",              counters.aborts             },
      {"resets",              counters.resets             },
      {"refused_descriptors", counters.refused_descriptors},
      {"failed_reads",        counters.failed_reads       },
      {"failed_writes",       counters.failed_writes      },
      {"violations",          counters.violations         }
  };
}

[[nodiscard]] Json json_of(const ChannelStatus& channel) {
  return {
      {"channel",     channel.id.value()                 },
      {"state",       std::string{name_of(channel.state)}},
      {"limit",       channel.limit                      },
      {"credits",     channel.credits                    },
      {"outstanding", channel.outstanding                },
      {"waiting",     channel.waiting                    },
      {"counters",    json_of(channel.counters)          }
  };
}

[[nodiscard]] std::string device_of(const TargetStatus& target, const ChannelStatus& channel) {
  const auto port = std::ranges::find(target.ports, channel.port, &TargetPortStatus::name);
  return port == target.ports.end() ? std::string{} : port->device;
}

/// Channels of one initiator port to one port of a target are one session (SRP r16a §4.4).
[[nodiscard]] Json sessions_of(const TargetStatus& target) {
  Json sessions = Json::array();
  for (const ChannelStatus& channel : target.channels) {
    const std::string id = to_string(channel.initiator.port_id);
    const std::string device = device_of(target, channel);
    auto session = std::find_if(sessions.begin(), sessions.end(), [&](const Json& one) {
      return one.at("initiator").get<std::string>() == id &&
             one.at("device").get<std::string>() == device;
    });
    if (session == sessions.end()) {
      Json made = {
          {"initiator", id           },
          {"device",    device       },
          {"channels",  Json::array()}
      };
      if (channel.initiator.gid) {
        made["gid"] = wire::address_text(channel.initiator.gid->octets());
      }
      if (channel.initiator.ip) {
        made["ip"] = to_string(*channel.initiator.ip);
      }
      sessions.push_back(std::move(made));
      session = sessions.end() - 1;
    }
    (*session)["channels"].push_back(json_of(channel));
  }
  return sessions;
}

[[nodiscard]] Json json_of(const TargetStatus& target) {
  Json units = Json::array();
  for (const UnitStatus& unit : target.units) {
    units.push_back({
        {"lun",         unit.lun        },
        {"disk",        unit.disk       },
        {"bytes",       unit.bytes      },
        {"block_bytes", unit.block_bytes},
        {"read_only",   unit.read_only  }
    });
  }
  Json refusals = Json::object();
  for (const auto& [reason, count] : target.counters.refusals) {
    refusals[std::string{name_of(reason)}] = count;
  }
  Json ports = Json::array();
  for (const TargetPortStatus& port : target.ports) {
    ports.push_back({
        {"id",     to_string(port.id)},
        {"device", port.device       }
    });
  }
  return {
      {"ports",    std::move(ports)                 },
      {"units",    std::move(units)                 },
      {"sessions", sessions_of(target)              },
      {"logins",   target.counters.logins           },
      {"refusals", std::move(refusals)              },
      {"counters", json_of(target.counters.channels)}
  };
}

[[nodiscard]] Json json_of(const TargetDeviceStatus& device) {
  Json shared;
  if (device.shared) {
    shared = {
        {"buffers",      device.shared->buffers     },
        {"posted",       device.shared->posted      },
        {"limit_events", device.shared->limit_events},
        {"errors",       device.shared->errors      }
    };
  }
  return {
      {"name", device.name      },
      {"srq",  std::move(shared)}
  };
}

[[nodiscard]] std::string text_of_counters(const Json& counters) {
  std::string text = fmt::format(
      "{} commands, {} reads of {} octets, {} writes of {} octets, {} aborts, {} resets",
      counters.at("commands").get<std::uint64_t>(), counters.at("reads").get<std::uint64_t>(),
      counters.at("read_bytes").get<std::uint64_t>(), counters.at("writes").get<std::uint64_t>(),
      counters.at("written_bytes").get<std::uint64_t>(), counters.at("aborts").get<std::uint64_t>(),
      counters.at("resets").get<std::uint64_t>());
  for (const auto& [name, what] : {
           std::pair{"refused_descriptors", "lists of descriptors refused"},
           std::pair{"failed_reads",        "READs of the target failed"  },
           std::pair{"failed_writes",       "WRITEs of the target failed" },
           std::pair{"violations",          "violations of the protocol"  }
  }) {
    if (const auto count = counters.at(name).get<std::uint64_t>(); count != 0) {
      text += fmt::format(", {} {}", count, what);
    }
  }
  return text;
}

void print_session(std::string& text, const Json& session, bool with_device) {
  const std::string from = session.contains("ip")    ? session["ip"].get<std::string>()
                           : session.contains("gid") ? session["gid"].get<std::string>()
                                                     : std::string{"an unknown port"};
  text += fmt::format("  session of {} from {}{}\n", session.at("initiator").get<std::string>(),
                      from, with_device ? " on " + session.at("device").get<std::string>() : "");
  for (const Json& channel : session.at("channels")) {
    text += fmt::format(
        "    channel {}: {}, {} credits of {}, {} commands under way\n      {}\n",
        channel.at("channel").get<std::uint64_t>(), channel.at("state").get<std::string>(),
        channel.at("credits").get<std::int64_t>(), channel.at("limit").get<std::int64_t>(),
        channel.at("outstanding").get<std::int64_t>(), text_of_counters(channel.at("counters")));
  }
}

/// How logins reach the targets, if there is a device.
void print_devices(std::string& text, const Json& process, bool with_names) {
  const auto portals = process.at("portals").get<std::vector<std::string>>();
  if (!process.at("devices").empty()) {
    text += fmt::format("  listens on {}, and by service ID {}\n", fmt::join(portals, ", "),
                        process.at("service_id").get<std::string>());
  }
  for (const Json& device : process.at("devices")) {
    if (const Json& shared = device.at("srq"); !shared.is_null()) {
      text += fmt::format("  shared receives{}: {} buffers, {} posted, few were left {} times\n",
                          with_names ? " of " + device.at("name").get<std::string>() : "",
                          shared.at("buffers").get<std::uint64_t>(),
                          shared.at("posted").get<std::uint64_t>(),
                          shared.at("limit_events").get<std::uint64_t>());
    }
  }
}

void print_target(std::string& text, const Json& process, const Json& target) {
  for (const Json& port : target.at("ports")) {
    const auto device = port.at("device").get<std::string>();
    text += fmt::format("target {} of process {} {}\n", port.at("id").get<std::string>(),
                        process.at("pid").get<pid_t>(),
                        device.empty() ? "waits for an RDMA device" : "on " + device);
  }
  const bool has_several = process.at("devices").size() > 1;
  print_devices(text, process, has_several);
  for (const Json& unit : target.at("units")) {
    text += fmt::format("  LUN {}: {}, {} octets in blocks of {}{}\n",
                        unit.at("lun").get<std::uint16_t>(), unit.at("disk").get<std::string>(),
                        unit.at("bytes").get<std::uint64_t>(),
                        unit.at("block_bytes").get<std::uint32_t>(),
                        unit.at("read_only").get<bool>() ? ", read-only" : "");
  }
  for (const Json& session : target.at("sessions")) {
    print_session(text, session, has_several);
  }
  if (const auto left_out = process.at("left_out").get<std::uint64_t>(); left_out != 0) {
    text += fmt::format("  {} channels of this process are not shown\n", left_out);
  }
  text += fmt::format("  in all: {} logins, {}\n", target.at("logins").get<std::uint64_t>(),
                      text_of_counters(target.at("counters")));
  for (const auto& [reason, count] : target.at("refusals").items()) {
    text += fmt::format("  refused: {} logins: {}\n", count.get<std::uint64_t>(), reason);
  }
}

void print_attached(std::string& text, const Json& process) {
  text += fmt::format("attached LUN {} by process {}: {} commands\n",
                      process.at("lun").get<std::uint16_t>(), process.at("pid").get<pid_t>(),
                      process.at("commands").get<std::uint64_t>());
  for (const Json& path : process.at("paths")) {
    text += fmt::format(
        "  path to {} of {}, as {}\n    {}{}, {} credits, {} commands under way, {} waiting, {} "
        "logins, {} lost\n",
        path.at("target").get<std::string>(), path.at("where").get<std::string>(),
        path.at("initiator").get<std::string>(), path.at("state").get<std::string>(),
        path.at("in_use").get<bool>() ? ", in use" : "", path.at("credits").get<std::int64_t>(),
        path.at("outstanding").get<std::uint64_t>(), path.at("queued").get<std::uint64_t>(),
        path.at("logins").get<std::uint64_t>(), path.at("losses").get<std::uint64_t>());
    if (const auto failure = path.at("last_failure").get<std::string>(); !failure.empty()) {
      text += fmt::format("    last failure: {}\n", failure);
    }
  }
}

}  // namespace

std::string to_json(TargetReport report) {
  Json targets = Json::array();
  std::size_t room = kMostChannels;
  std::size_t left_out = 0;
  for (TargetStatus& target : report.targets) {
    const std::size_t told = std::min(room, target.channels.size());
    left_out += target.channels.size() - told;
    room -= told;
    target.channels.resize(told);
    targets.push_back(json_of(target));
  }
  Json devices = Json::array();
  for (const TargetDeviceStatus& device : report.devices) {
    devices.push_back(json_of(device));
  }
  const Json whole = {
      {"role", "target"},
      {"pid", report.pid},
      {"devices", std::move(devices)},
      {"service_id", fmt::format("{:016x}", report.service_id)},
      {"portals", report.portals},
      {"left_out", left_out},
      {"targets", std::move(targets)}
  };
  return whole.dump() + "\n";
}

std::string to_json(const AttachReport& report) {
  Json paths = Json::array();
  for (std::size_t i = 0; i < report.paths.size(); ++i) {
    const PathStatus& path = report.paths[i];
    const bool has_initiator = i < report.initiators.size();
    paths.push_back({
        {"target",       to_string(path.target)                              },
        {"where",        path.where                                          },
        {"initiator",    has_initiator ? to_string(report.initiators[i]) : ""},
        {"state",        std::string{name_of(path.state)}                    },
        {"in_use",       path.is_in_use                                      },
        {"credits",      path.credits                                        },
        {"outstanding",  path.outstanding                                    },
        {"queued",       path.queued                                         },
        {"logins",       path.logins                                         },
        {"losses",       path.losses                                         },
        {"last_failure", path.last_failure                                   }
    });
  }
  const Json whole = {
      {"role",     "attach"        },
      {"pid",      report.pid      },
      {"lun",      report.lun      },
      {"commands", report.commands },
      {"paths",    std::move(paths)}
  };
  return whole.dump() + "\n";
}

Result<std::string> status_text(std::string_view json) {
  const Json process = Json::parse(json, nullptr, false);
  std::string text;
  try {
    if (process.at("role") == "attach") {
      print_attached(text, process);
    } else {
      for (const Json& target : process.at("targets")) {
        print_target(text, process, target);
      }
    }
  } catch (const Json::exception&) {
    return fail(ErrorCode::Io, "what a process says of itself is of another version of Weft");
  }
  return text;
}

}  // namespace weft::programs::srp
