#include "cli/host_namespaces.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <cstdio>
#include <span>
#include <utility>
#include <vector>

#include "cli/fabric_client.h"
#include "daemon/namespaces/process_ender.h"
#include "host/control_socket.h"
#include "namespaces/host_namespaces.h"
#include "os/namespace_fd.h"
#include "os/run_directory.h"
#include "uabi/messages.h"

namespace weft::cli {
namespace {

/// The daemon's part in it, as one conversation (uabi/namespace_messages.h).
class NamespaceRequest {
 public:
  NamespaceRequest(host::ControlSocket socket, std::string host)
      : socket_(std::move(socket)), host_(std::move(host)) {}

  /// Asks, makes what is missing, enters, and asks once more: a host that was removed meanwhile has
  /// had its processes ended before this one was among them.
  [[nodiscard]] Result<void> run() {
    auto kept = keep();
    if (!kept) {
      return std::unexpected(std::move(kept.error()));
    }
    const auto entered = os::identify_namespace(kept->at(kMount).get(), os::NamespaceKind::Mount);
    if (auto done = enter_kept(std::move(*kept)); !done) {
      return done;
    }
    kept = keep();
    if (!kept) {
      return std::unexpected(std::move(kept.error()));
    }
    const auto now = os::identify_namespace(kept->at(kMount).get(), os::NamespaceKind::Mount);
    if (!entered || !now || *entered != *now) {
      return fail(ErrorCode::Refused, "host {} was removed and made anew meanwhile", host_);
    }
    return {};
  }

 private:
  static constexpr std::size_t kUser = 0;  // of the descriptors of HostKept
  static constexpr std::size_t kMount = 1;
  static constexpr std::size_t kNetwork = 2;
  static constexpr std::size_t kUts = 3;

  /// The host's namespaces as the daemon keeps them, kHostKeptDescriptors of them.
  [[nodiscard]] Result<std::vector<os::UniqueFd>> keep() {
    if (auto asked = socket_.send(uabi::AskNamespaces{.version = uabi::kVersion, .host = host_});
        !asked) {
      return std::unexpected(std::move(asked.error()));
    }
    constexpr int kMostAnswers = 4;  // FabricWanted, HostWanted, HostKept
    for (int answers = 0; answers < kMostAnswers; ++answers) {
      auto received = socket_.receive(kWaitLimit);
      if (!received) {
        return std::unexpected(std::move(received.error()));
      }
      if (received->message.holds<uabi::HostKept>()) {
        return std::move(received->descriptors);
      }
      if (auto made = make_wanted(std::move(*received)); !made) {
        return std::unexpected(std::move(made.error()));
      }
    }
    return fail(ErrorCode::Io, "the fabric's daemon does not keep the host's namespaces");
  }

  [[nodiscard]] Result<void> make_wanted(host::Received received) {
    if (const auto* refused = received.message.get_if<uabi::Refused>()) {
      return fail(ErrorCode::Refused, "{}", refused->reason);
    }
    if (received.message.holds<uabi::FabricWanted>()) {
      return make_fabric();
    }
    if (const auto* wanted = received.message.get_if<uabi::HostWanted>()) {
      return make_host(wanted->plan, std::move(received.descriptors));
    }
    return fail(ErrorCode::Io, "the fabric's daemon answers something else");
  }

  [[nodiscard]] Result<void> make_fabric() {
    const auto made = namespaces::make_fabric_namespaces();
    if (!made) {
      return std::unexpected(made.error());
    }
    return socket_.send(uabi::KeepFabricNamespaces{.version = uabi::kVersion, .host = host_},
                        std::array{made->user.get(), made->hub.get()});
  }

  [[nodiscard]] Result<void> make_host(const uabi::HostPlan& plan,
                                       std::vector<os::UniqueFd> descriptors) {
    const namespaces::FabricNamespaces fabric{.user = std::move(descriptors.at(0)),
                                              .hub = std::move(descriptors.at(1))};
    const auto made =
        namespaces::make_host_namespaces(fabric, {.name = host_,
                                                  .addresses = plan.addresses,
                                                  .index = plan.hub_port,
                                                  .hosts_file = plan.hosts_file,
                                                  .run_directory = os::run_directory_path(),
                                                  .fabric_id = plan.fabric_id});
    if (!made) {
      return std::unexpected(made.error());
    }
    return socket_.send(
        uabi::KeepHostNamespaces{.version = uabi::kVersion, .host = host_},
        std::array{made->mount.get(), made->network.get(), made->uts.get(), made->sys_class.get(),
                   made->dev_infiniband.get(), made->functions.get()});
  }

  [[nodiscard]] static Result<void> enter_kept(std::vector<os::UniqueFd> descriptors) {
    const os::UniqueFd user = std::move(descriptors.at(kUser));
    const namespaces::HostNamespaces kept{.mount = std::move(descriptors.at(kMount)),
                                          .network = std::move(descriptors.at(kNetwork)),
                                          .uts = std::move(descriptors.at(kUts)),
                                          .sys_class = {},
                                          .dev_infiniband = {},
                                          .functions = {}};
    return namespaces::enter(user, kept);
  }

  host::ControlSocket socket_;
  std::string host_;
};

/// In namespaces that were made for a fabric of that name, but for this one.
[[nodiscard]] std::vector<os::RunningProcess> left_processes(const std::string& fabric) {
  auto found = os::processes_that_see("/run/weft-fabric",
                                      os::fabric_directory(os::run_directory_path(), fabric));
  std::erase_if(found, [](const os::RunningProcess& left) { return left.pid == getpid(); });
  return found;
}

}  // namespace

Result<void> enter_namespaces(const std::string& fabric, const std::string& host) {
  auto socket = connect_to(fabric);
  if (!socket) {
    return std::unexpected(std::move(socket.error()));
  }
  return NamespaceRequest{std::move(*socket), host}.run();
}

void report_left_processes(const std::string& fabric) {
  std::string list;
  for (const os::RunningProcess& left : left_processes(fabric)) {
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", left.pid, left.name);
  }
  if (!list.empty()) {
    fmt::print(stderr,
               "weft: an earlier fabric {}, whose daemon died, has left processes on its hosts, "
               "which no longer reach one another's devices: {}\n",
               fabric, list);
  }
}

std::string end_left_processes(const std::string& fabric) {
  asio::io_context loop;
  daemon::ProcessEnder ender{loop};
  std::string words;
  ender.end([&fabric] { return left_processes(fabric); },
            [&words](const daemon::ProcessEnder::Ended& ended) {
              words = ended.asked != 0 ? daemon::ProcessEnder::describe(ended) : "";
            });
  loop.run();
  return words;
}

}  // namespace weft::cli
