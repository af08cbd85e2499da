// Requests of the `weft` command: status and captures.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/daemon_impl.h"
#include "daemon/function_report.h"
#include "daemon/qp_report.h"
#include "daemon/status.h"
#include "host/tap_record.h"
#include "os/clock.h"
#include "os/shared_memory.h"
#include "ring/spsc_ring.h"

namespace weft::daemon {
namespace {

/// Policy: how long to wait for programs to open their tap. A stopped program cannot confirm it,
/// but does not send either.
constexpr std::chrono::milliseconds kTapWaitLimit{300};

}  // namespace

void Daemon::Impl::query(Client& client, const uabi::Query& request) {
  std::vector<ProgramStatus> programs;
  for (const auto& [process, program] : programs_) {
    programs.push_back({.process = process, .pid = program->pid(), .program = program->program()});
  }
  if (request.kind == uabi::QueryKind::Faults) {
    answer(client, faults_json(view(), fabric_->faults().all(), faults_hit_));
    return;
  }
  if (request.kind == uabi::QueryKind::Functions) {
    query_functions(client);
    return;
  }
  if (request.kind == uabi::QueryKind::Decisions) {
    answer(client, decisions_json(view(), management().shared_ports(), os::now()));
    return;
  }
  if (request.kind == uabi::QueryKind::Qps) {
    query_qps(client, std::move(programs));
    return;
  }
  const auto connections = connection_statuses();
  const auto managers = manager_statuses();
  StatusReport report{.fabric = options_.fabric,
                      .log = log_.path(),
                      .programs = programs,
                      .connections = connections,
                      .managers = managers,
                      .offences = offences_.all(),
                      .shared_ports = &management().shared_ports(),
                      .unassigned_functions = fabric_->unassigned_functions()};
  fabric::CounterSum sum;
  if (request.kind == uabi::QueryKind::Counters) {
    sum = counters_->read_all();
    report.counters = &sum;
  }
  answer(client, status_json(view(), report));
}

/// Programs of the hosts that share a port are asked what they hold.
void Daemon::Impl::query_functions(Client& client) {
  const node::SharedPorts& shared = management().shared_ports();
  std::set<fabric::NodeIndex> hosts;
  for (const fabric::PortIndex physical : shared.physical_ports()) {
    hosts.insert(view().port(physical).node);
    for (const fabric::PortIndex port : shared.functions_of(physical)) {
      hosts.insert(view().port(port).node);
    }
  }
  std::vector<node::ProcessId> programs;
  for (const fabric::NodeIndex host : hosts) {
    std::ranges::copy(programs_with_devices(host), std::back_inserter(programs));
  }
  census_.take(
      programs,
      [this](node::ProcessId program, const uabi::ListObjects& question) {
        client_of(program)->send(question);
      },
      [this, asker = client.weak_from_this()](const ObjectCensus::Answers& held) {
        if (const auto waiting = asker.lock()) {
          answer(*waiting,
                 functions_json(view(), management().shared_ports(), uses_of_hosts(held)));
        }
      });
}

/// All programs with devices are asked.
void Daemon::Impl::query_qps(Client& client, std::vector<ProgramStatus> programs) {
  std::vector<node::ProcessId> asked;
  for (const ProgramStatus& program : programs) {
    if (!shared_devices_.of(program.process).empty()) {
      asked.push_back(program.process);
    }
  }
  census_.take(
      asked,
      [this](node::ProcessId program, const uabi::ListObjects& question) {
        client_of(program)->send(question);
      },
      [this, programs = std::move(programs),
       asker = client.weak_from_this()](const ObjectCensus::Answers& held) {
        const auto waiting = asker.lock();
        if (!waiting) {
          return;
        }
        std::vector<ProgramObjects> objects;
        for (const ProgramStatus& program : programs) {
          if (const auto said = held.find(program.process); said != held.end()) {
            objects.push_back({.program = program, .held = said->second});
          }
        }
        answer(*waiting, qps_json(view(), objects));
      });
}

std::map<fabric::NodeIndex, HostUse> Daemon::Impl::uses_of_hosts(
    const ObjectCensus::Answers& held) const {
  std::map<fabric::NodeIndex, HostUse> uses;
  for (const auto& [process, program] : programs_) {
    ++uses[process.host].programs;
  }
  for (const auto& [process, parts] : held) {
    for (const uabi::ObjectsHeld& part : parts) {
      uses[process.host].qps += part.qps.size();
    }
  }
  for (const auto& [host, packets] : counters_->read_all().on_management_lane) {
    uses[host].packets_on_vl15 = packets;
  }
  return uses;
}

std::vector<fabric::OwnedCounterPage> Daemon::Impl::counter_pages() const {
  std::vector<fabric::OwnedCounterPage> pages;
  for (const auto& [process, program] : programs_) {
    pages.push_back({.page = *program->counters,
                     .owner = process.host,
                     .shared = fabric_->hosts_shared_by(process.host)});
  }
  return pages;
}

/// Sends text in as many messages as necessary.
void Daemon::Impl::answer(Client& client, std::string_view text) {
  std::string_view rest = text;
  do {
    const std::string_view piece = rest.substr(0, uabi::kMaxTextBytes);
    rest.remove_prefix(piece.size());
    client.send(uabi::Text{.is_last = rest.empty(), .text = std::string{piece}});
  } while (!rest.empty());
}

void Daemon::Impl::start_capture(Client& client, const uabi::StartCapture& request) {
  const auto ports = fabric_->find_ports(request.port);
  if (!ports) {
    client.send(uabi::Refused{ports.error().reason});
    return;
  }
  for (const fabric::PortIndex port : *ports) {
    const std::uint32_t id = next_capture_++;
    Capture& capture = captures_[id];
    capture.reader = &client;
    capture.port = port;
    fabric_->tap(port);
    add_mads(id, capture);
    if (request.tunnels) {
      add_ring(capture, mad_capture_.open_tunnels(id, port));
    }
    for (const auto& [process, program] : programs_) {
      add_source(id, capture, *program);
    }
  }
  publish();
  auto timer = std::make_unique<asio::steady_timer>(loop_, kTapWaitLimit);
  timer->async_wait([this, reader = &client](const std::error_code& error) {
    if (!error) {
      send_live_if_ready(*reader, true);
    }
  });
  not_live_[&client] = std::move(timer);
  send_live_if_ready(client, false);
}

void Daemon::Impl::add_source(std::uint32_t id, Capture& capture, Client& program) {
  auto memory = os::create_shared_memory("weft-tap", ring::ring_bytes(host::kTapRingCapacity));
  if (!memory) {
    return;
  }
  const auto file = std::make_shared<const os::UniqueFd>(std::move(*memory));
  capture.not_ready.insert(&program);
  program.send(uabi::OpenTap{.capture = id, .port = capture.port.value()}, {file});
  capture.reader->send(uabi::CaptureSource{.process = address_of(*program.process)}, {file});
}

/// Adds the MADs that cross the port, which the daemon itself carries.
void Daemon::Impl::add_mads(std::uint32_t id, Capture& capture) {
  add_ring(capture, mad_capture_.open(id, capture.port));
}

/// A ring of the daemon's own.
void Daemon::Impl::add_ring(const Capture& capture, Result<os::UniqueFd> memory) {
  if (!memory) {
    log_.write(fmt::format("no MADs in a capture: {}", memory.error().reason));
    return;
  }
  const auto file = std::make_shared<const os::UniqueFd>(std::move(*memory));
  capture.reader->send(uabi::CaptureSource{.process = {}}, {file});
}

void Daemon::Impl::tap_ready(Client& client, const uabi::TapReady& message) {
  const auto found = captures_.find(message.capture);
  if (found != captures_.end() && found->second.not_ready.erase(&client) != 0) {
    send_live_if_ready(*found->second.reader, false);
  }
}

void Daemon::Impl::send_live_if_ready(Client& reader, bool time_is_up) {
  const bool all_ready = std::ranges::none_of(captures_, [&](const auto& entry) {
    return entry.second.reader == &reader && !entry.second.not_ready.empty();
  });
  if (not_live_.contains(&reader) && (all_ready || time_is_up)) {
    const auto capture = std::ranges::find_if(
        captures_, [&](const auto& entry) { return entry.second.reader == &reader; });
    reader.send(uabi::CaptureLive{.port = capture->second.port.value()});
    not_live_.erase(&reader);
  }
}

void Daemon::Impl::end_captures(Client& reader) {
  not_live_.erase(&reader);
  const bool had_some = std::erase_if(captures_, [&](const auto& entry) {
                          const auto& [id, capture] = entry;
                          if (capture.reader != &reader) {
                            return false;
                          }
                          fabric_->untap(capture.port);
                          mad_capture_.close(id);
                          for (const auto& [process, program] : programs_) {
                            program->send(uabi::CloseTap{.capture = id});
                          }
                          return true;
                        }) != 0;
  if (had_some) {
    if (const std::uint64_t missed = mad_capture_.take_missed_count(); missed != 0) {
      log_.write(fmt::format("captures have missed {} MADs since they were not read for too long",
                             missed));
    }
    publish();
  }
}

}  // namespace weft::daemon
