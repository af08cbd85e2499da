#pragma once

// weft-resolver on one host, until it is told to end: a netlink socket in the group of local
// services, SA for what it does not know, and `status` and `watch`. One thread.

#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/netlink_socket.h"
#include "os/unique_fd.h"
#include "programs/control/control.h"
#include "programs/host/published_paths.h"
#include "programs/host/sa_access.h"
#include "resolver/resolver.h"

namespace weft::programs::resolver {

inline constexpr const char* kServiceName = "resolver";

struct ServiceOptions {
  weft::resolver::ResolverOptions resolver{};
  weft::resolver::Preload preload{};
  std::uint32_t kernel_timeout_ms{};  ///< how long the kernel is to wait; 0: as it does
  bool shows_paths{true};             ///< in shared memory, besides telling them
};

class Service final : public weft::resolver::ResolverServices {
 public:
  /// Blocks SIGTERM and SIGINT, which end run(). Exists: a resolver runs on this host.
  [[nodiscard]] static Result<std::unique_ptr<Service>> start(const ServiceOptions& options);

  /// Ends in order by a signal, or with the reason: the fabric has gone.
  [[nodiscard]] Result<void> run();

 private:
  Service(const ServiceOptions& options, os::NetlinkSocket netlink, Control control,
          std::unique_ptr<SaAccess> sa);

  void send(std::uint32_t port, std::vector<std::byte> datagram) override;
  bool ask_sa(weft::resolver::SaQuestion question, const sa::PathQuery& wanted) override;
  [[nodiscard]] Gid own_gid() const override;

  /// Who has something to read.
  struct Ready {
    bool netlink{};
    bool sa{};
    bool control{};
  };

  [[nodiscard]] std::vector<pollfd> watched() const;
  [[nodiscard]] Ready ready(std::span<const pollfd> waits) const;
  [[nodiscard]] Result<void> work(const Ready& ready, Instant now);
  [[nodiscard]] Result<bool> take_netlink(Instant now);
  void flush(std::uint32_t port);
  void flush_all();
  void take_path(weft::resolver::SaQuestion question, const sa::PathQuery& wanted,
                 const sa::Answer<wire::PathRecord>& path, Instant now);
  [[nodiscard]] std::string answer(std::string_view line) const;

  os::NetlinkSocket netlink_;
  Control control_;
  std::unique_ptr<SaAccess> sa_;
  os::UniqueFd signals_;
  std::optional<ShownPaths> shown_;  // before the resolver, which writes there
  weft::resolver::Resolver resolver_;
  std::uint64_t changes_seen_;
  std::uint64_t overruns_{};
  std::map<std::uint32_t, std::vector<std::byte>> answers_;  // of this turn, by who asked
  bool has_more_{};
  bool hears_gids_{};  // of SA; otherwise another program of this host has its reports
};

}  // namespace weft::programs::resolver
