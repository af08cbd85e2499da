// Virtual functions by the files in a host's /sys: a write asks for what `weft vf` asks for.

#include <fmt/format.h>

#include <cerrno>
#include <string>
#include <utility>

#include "daemon/daemon_impl.h"
#include "host_view/function_files.h"
#include "node/node_change.h"
#include "os/clock.h"
#include "os/error_numbers.h"

namespace weft::daemon {
namespace {

using What = host_view::FunctionWrite::What;

/// As a kernel and mlx5 refuse it.
[[nodiscard]] int error_number_of(host_view::WriteFault fault) {
  switch (fault) {
    case host_view::WriteFault::BadText:
      return EINVAL;
    case host_view::WriteFault::TooMany:
      return ERANGE;
    case host_view::WriteFault::HasOthers:
      return EBUSY;
    case host_view::WriteFault::ReadOnly:
      return EACCES;
    case host_view::WriteFault::NoSuchFile:
      return ENODEV;
  }
  return EINVAL;
}

[[nodiscard]] node::NodeChange change_of(const host_view::FunctionWrite& write, std::string name) {
  node::NodeChange change;
  change.action = node::NodeChange::Action::Set;
  change.name = std::move(name);
  change.is_function = true;
  if (write.what == What::NodeGuid) {
    change.guids.node = write.guid;
  } else if (write.what == What::PortGuid) {
    change.guids.port = write.guid;
  } else {
    change.function.policy = write.policy;
  }
  return change;
}

}  // namespace

host_view::HostView Daemon::Impl::view_host(fabric::NodeIndex host,
                                            node::WithCounters counters) const {
  return node::view_host({.tables = fabric_->builder(),
                          .agents = fabric_->management().agents(),
                          .counters = *counters_,
                          .shared_ports = fabric_->management().shared_ports()},
                         host, os::now(), counters);
}

Result<void> Daemon::Impl::change_functions(fabric::NodeIndex host,
                                            const host_view::FunctionWrite& write) {
  const fabric::TablesBuilder& tables = fabric_->builder();
  const fabric::HcaIndex hca{tables.node(host).first_hca.value() + write.device};
  if (write.what == What::Count) {
    return fabric_->set_function_count(hca, write.count, os::now());
  }
  const fabric::PortIndex port = management().shared_ports().functions_of_hca(hca)[write.function];
  const std::string name{tables.name(tables.node(tables.port(port).node))};
  return fabric_->change_node(change_of(write, name), os::now());
}

/// Returns 0, or the errno for the writer.
int Daemon::Impl::write_function_file(fabric::NodeIndex host, const std::string& path,
                                      std::string_view text) {
  if (is_stopping_) {
    return ESHUTDOWN;
  }
  const auto write = host_view::read_write(view_host(host, node::WithCounters::No), path, text);
  if (!write) {
    return error_number_of(write.error());
  }
  const std::string file =
      fmt::format("/sys/class/weft/{} of {}", path, view().name(view().node(host)));
  const auto changed = change_functions(host, *write);
  if (!changed) {
    log_.write(fmt::format("{}: {}", file, changed.error().reason));
    return os::error_number_of(changed.error().code);
  }
  log_.write(fmt::format("{} was written", file));
  follow_change_of_nodes();
  return 0;
}

}  // namespace weft::daemon
