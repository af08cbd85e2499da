#pragma once

// SA for a program: a client of it over the host's first port, libibverbs for what the port is and
// libibumad for MADs. One thread, whose loop waits for descriptors() and deadline() and then calls
// work(). Not thread-safe.

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "mad/management_interface.h"
#include "programs/host/sa_port.h"
#include "sa/sa_client.h"

namespace weft::programs {

class SaAccess {
 public:
  /// NoSuchDevice: the program is on no host of a fabric.
  [[nodiscard]] static Result<std::unique_ptr<SaAccess>> open();
  ~SaAccess();
  SaAccess(const SaAccess&) = delete;
  SaAccess& operator=(const SaAccess&) = delete;

  [[nodiscard]] sa::SaClient& client() { return client_; }
  [[nodiscard]] const sa::LocalPort& port() const { return client_.port(); }
  [[nodiscard]] std::string device() const { return ibv_get_device_name(context_->device); }

  [[nodiscard]] std::array<int, 2> descriptors() const { return {mads_.fd(), context_->async_fd}; }
  /// Takes and sends what there is. NoSuchDevice or Io: the fabric or the device is gone.
  [[nodiscard]] Result<void> work(Instant now);
  /// Sends what the client has asked since. Enough of work() while no descriptor is ready and the
  /// deadline is to come.
  void send(Instant now);
  [[nodiscard]] Instant deadline() const {
    return std::min(client_.deadline(), interface_.deadline());
  }

  /// As SaClient::watch_gids(). False: another program of this host receives SA's reports, so that
  /// paths are forgotten by age and by changes() alone.
  bool watch_gids(sa::GidHandler handler);

  /// How often what SA said before may have become wrong: another subnet manager, or one that asks
  /// to register again, another LID, GID or partition.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }

 private:
  SaAccess(ibv_context& context, SaPort mads);
  [[nodiscard]] Result<void> follow_port(Instant now);

  ibv_context* context_;
  SaPort mads_;
  mad::ManagementInterface interface_{mad::InterfaceKind::Gsi};
  sa::SaClient client_;
  std::uint8_t reregistrations_{};
  std::uint64_t changes_{};
};

}  // namespace weft::programs
