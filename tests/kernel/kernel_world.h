#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "core/mad/mad_service.h"
#include "core/registry.h"
#include "core/sa/sa_service.h"
#include "core/testing/engine_network.h"
#include "core/testing/mad_network.h"
#include "core/testing/manual_environment.h"
#include "core/testing/sa_server.h"
#include "kernel/host.h"
#include "kernel/ib_cm_service.h"

namespace weft::kernel {

/// Two hosts' devices in one registry, used from C, on one thread and a virtual clock. There is one
/// at a time.
class KernelWorld {
 public:
  KernelWorld() {
    running = this;
    environment_.world = [this] { return network_.step(); };
    install_host({.registry = &registry_, .sa = &sa_, .ib_cm = &ib_cm_});
    for (unsigned i = 0; i < 2; ++i) {
      core::Device& device = network_.add_host(registry_, {.node_guid = Guid{0x51 + i}}).device();
      mad_network_.attach(**mads_.port(device, PortNumber{1}, mad::InterfaceKind::Gsi));
    }
    server_.emplace(mads_, network_.host(0).device(), PortNumber{1});
  }
  ~KernelWorld() {
    server_.reset();
    network_.unregister_all();
    remove_host();
    running = nullptr;
  }
  KernelWorld(const KernelWorld&) = delete;
  KernelWorld& operator=(const KernelWorld&) = delete;

  void run() {
    environment_.wait_until([] { return false; }, environment_.now() + Duration::seconds(1));
  }
  /// A second GID for each device, of which its events tell.
  void add_gids() {
    for (unsigned i = 0; i < 2; ++i) {
      core::engine::Engine& engine = network_.host(i);
      verbs::PortAttributes port = engine.hca().port(PortNumber{1});
      port.gids.emplace_back(kDefaultGidPrefix, Guid{0x200 + i});
      engine.hca().set_port(PortNumber{1}, port);
      engine.report_port_event(PortNumber{1}, verbs::AsyncEventType::GidChange);
    }
    run();
  }
  void answer(const std::function<bool(mad::MadMessage&)>& how) { server_->answer = how; }

  static inline KernelWorld* running{};

 private:
  core::testing::ManualEnvironment environment_;
  core::Registry registry_{environment_};
  core::testing::EngineNetwork network_{environment_};
  core::testing::MadNetwork mad_network_;
  core::MadService mads_{registry_, mad_network_};
  core::SaService sa_{mads_};
  IbCmService ib_cm_{mads_, 7};
  std::optional<core::testing::SaServer> server_;  // on the first host, for both
};

}  // namespace weft::kernel
