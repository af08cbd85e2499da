#pragma once

// The namespaces of a fabric's hosts, as the daemon keeps them: descriptors, with which they live,
// and the files that their /sys/class and /dev/infiniband show.

#include <array>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "daemon/client.h"
#include "daemon/namespaces/function_file_system.h"
#include "daemon/namespaces/live_files.h"
#include "daemon/namespaces/sys_files.h"
#include "fabric/tables.h"
#include "host_view/host_view.h"
#include "os/namespace_fd.h"
#include "os/unique_fd.h"
#include "uabi/messages.h"

namespace weft::daemon {

/// Used on the daemon's thread only.
class KeptNamespaces {
 public:
  struct Handlers {
    /// What a host's kernel shows now, with or without counters.
    std::function<host_view::HostView(fabric::NodeIndex, bool has_counters)> view;
    /// The file in a port's issm device's place; empty: none.
    std::function<std::string(fabric::NodeIndex, const std::string& device, std::uint32_t port)>
        is_sm_path;
    /// What becomes of a text that is written to a file of /sys/class/weft: 0, or an errno.
    std::function<int(fabric::NodeIndex, const std::string& path, std::string_view text)>
        write_function_file;
    std::function<void(std::string_view)> log;
  };

  KeptNamespaces(asio::io_context& loop, Handlers handlers);

  /// The namespace that all hosts share; none: nobody has made one yet.
  [[nodiscard]] const std::optional<os::NamespaceId>& user_namespace() const { return user_id_; }
  /// User namespace and hub.
  [[nodiscard]] const std::vector<SharedFd>& fabric_descriptors() const { return fabric_; }
  /// User, mount, network and UTS namespace of a host; empty: nobody has made them yet.
  [[nodiscard]] std::vector<SharedFd> host_descriptors(fabric::NodeIndex host) const;

  /// Keeps what a command has made, unless there is one already. InvalidArgument: the descriptors
  /// are not what they must be.
  [[nodiscard]] Result<void> keep_fabric(std::array<os::UniqueFd, 2> descriptors);
  /// Likewise; they must belong to the fabric's user namespace. Then the host's files are there.
  [[nodiscard]] Result<void> keep_host(
      fabric::NodeIndex host, std::array<os::UniqueFd, uabi::kKeepHostDescriptors> descriptors);

  /// Lets a host go, which was removed from the fabric; returns its mount namespace.
  std::optional<os::NamespaceId> drop_host(fabric::NodeIndex host);
  [[nodiscard]] std::vector<fabric::NodeIndex> hosts() const;

  /// Writes what has changed in the hosts' files.
  void tables_changed();

 private:
  struct Host {
    SharedFd mount;
    SharedFd network;
    SharedFd uts;
    os::NamespaceId mount_id;
    SysFiles sys;
    os::UniqueFd dev;
    // /sys/class/weft: one of the two
    std::unique_ptr<FunctionFileSystem> functions;
    std::optional<SysFiles> read_only_functions;  // on a machine without FUSE
    host_view::HostView shown{};                  // without counters
  };

  void fill(fabric::NodeIndex host, Host& kept);
  void show_functions(Host& kept, const host_view::HostView& view) const;
  void make_device_files(fabric::NodeIndex host, const Host& kept,
                         const host_view::HostView& view) const;
  void write_unkept_later();
  void write_unkept();

  asio::io_context& loop_;
  Handlers handlers_;
  LiveFiles live_files_;
  asio::steady_timer every_second_;
  bool writes_unkept_{};
  std::optional<os::NamespaceId> user_id_;
  std::vector<SharedFd> fabric_;
  std::map<fabric::NodeIndex, Host> hosts_;
};

}  // namespace weft::daemon
