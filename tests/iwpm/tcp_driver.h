#pragma once

// The driver of an iWARP device whose connections are plain TCP: it stands for an adapter, since
// Weft has none, to test the port mapper. Registered with the core as any driver; what it connects
// goes by the ports that the host's port mapper says (R-IWPM-18). There is no MPA on them, and no
// verbs.

#include <memory>

#include "base/result.h"
#include "core/registry.h"
#include "core/testing/fake_driver.h"
#include "os/unique_fd.h"
#include "programs/iwpm/driver.h"

namespace weft::testing {

/// A TCP connection, or a listener, and the addresses that the port mapper has for it.
struct TcpEnd {
  os::UniqueFd socket;
  wire::iwpm::ConnectionInfo info;
};

/// The device itself, which has no objects, is the fake driver's.
class TcpDriver final : public core::testing::FakeDriver {
 public:
  /// NotSupported: this is no host. Registers its device with `registry`, which it leaves with it.
  [[nodiscard]] static Result<std::unique_ptr<TcpDriver>> open(core::Registry& registry);
  ~TcpDriver();
  /// The driver of a device of the registry; null: another's.
  [[nodiscard]] static TcpDriver* of(core::Device& device);

  [[nodiscard]] Result<TcpEnd> listen(const wire::iwpm::SocketAddress& local);
  /// Waits for a connection; its `info` says from whom, as far as the port mapper knows.
  [[nodiscard]] Result<TcpEnd> accept(const TcpEnd& listener);
  [[nodiscard]] Result<TcpEnd> connect(const wire::iwpm::SocketAddress& local,
                                       const wire::iwpm::SocketAddress& remote);
  [[nodiscard]] Result<void> unmap(const wire::iwpm::SocketAddress& local);

 private:
  TcpDriver(core::Registry& registry, programs::iwpm::Driver driver);

  core::Registry& registry_;
  programs::iwpm::Driver mapper_;
};

}  // namespace weft::testing
