// Fault rules: those of the topology, those added by `weft fault`, and their expiry.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "daemon/daemon_impl.h"
#include "os/clock.h"

namespace weft::daemon {
namespace {

[[nodiscard]] Result<void> check_version(std::uint32_t version) {
  if (version != uabi::kVersion) {
    return fail(ErrorCode::NotSupported,
                "this weft uses version {} of the control protocol, the daemon {}", version,
                uabi::kVersion);
  }
  return {};
}

}  // namespace

/// Adds a rule; the caller publishes the tables.
Result<std::uint32_t> Daemon::Impl::begin_fault(const fabric::FaultDescription& fault) {
  const auto number = fabric_->add_fault(fault, os::now());
  if (!number) {
    return number;
  }
  const node::FaultRule& rule = fabric_->faults().all().back();
  faults_hit_.clear(rule.slot);
  if (fault.kind == fabric::FaultKind::Down) {
    for (std::size_t links = fabric_->faults().links_of(rule).size(); links != 0; --links) {
      faults_hit_.count_outage(rule.slot);
    }
  }
  log_.write(fmt::format("fault {}: {}", *number, fabric::to_string(fault)));
  return number;
}

Result<void> Daemon::Impl::begin_faults() {
  for (const fabric::FaultDescription& fault : options_.topology.faults) {
    if (const auto begun = begin_fault(fault); !begun) {
      return std::unexpected(begun.error());
    }
  }
  if (!options_.topology.faults.empty()) {
    publish();
    wait_for_end_of_faults();
  }
  return {};
}

void Daemon::Impl::add_fault(Client& client, const uabi::AddFault& request) {
  if (const auto checked = check_version(request.version); !checked) {
    client.refuse(checked.error().reason);
    return;
  }
  const auto fault = fabric::read_fault(request.rule);
  const auto number = fault ? begin_fault(*fault) : std::unexpected(fault.error());
  if (!number) {
    client.refuse(number.error().reason);
    return;
  }
  publish();
  run_management();  // lets traps be sent
  wait_for_end_of_faults();
  answer(client, fmt::format("{}", *number));
}

void Daemon::Impl::clear_faults(Client& client, const uabi::ClearFaults& request) {
  if (const auto checked = check_version(request.version); !checked) {
    client.refuse(checked.error().reason);
    return;
  }
  if (request.number == 0) {
    fabric_->faults().remove_all(os::now());
  } else if (const auto removed = fabric_->faults().remove(request.number, os::now()); !removed) {
    client.refuse(removed.error().reason);
    return;
  }
  publish();
  run_management();  // lets traps be sent
  wait_for_end_of_faults();
  answer(client, "");
}

void Daemon::Impl::wait_for_end_of_faults() {
  const Instant next = fabric_->faults().next_end();
  if (next == Instant::never()) {
    fault_timer_.cancel();
    return;
  }
  const Duration left = std::max(next - os::now(), Duration{});
  fault_timer_.expires_after(std::chrono::nanoseconds{left.nanoseconds()});
  fault_timer_.async_wait([this](const std::error_code& error) {
    if (error) {
      return;
    }
    if (fabric_->faults().end_due(os::now())) {
      publish();
      run_management();
    }
    wait_for_end_of_faults();
  });
}

}  // namespace weft::daemon
