#include "programs/host/sa_access.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "os/clock.h"
#include "programs/host/port.h"

namespace weft::programs {
namespace {

constexpr std::uint8_t kPort = 1;
constexpr int kMadsOfTurn = 64;  // policy

/// Whether paths may differ; a port that only goes down and comes back has the same ones.
[[nodiscard]] bool is_other_subnet(const sa::LocalPort& before, const sa::LocalPort& after) {
  return before.sm_lid != after.sm_lid || before.lid != after.lid || before.gids != after.gids ||
         before.pkeys != after.pkeys || before.reregistrations != after.reregistrations;
}

}  // namespace

Result<std::unique_ptr<SaAccess>> SaAccess::open() {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  ibv_context* const context =
      devices != nullptr && count > 0 ? ibv_open_device(devices[0]) : nullptr;
  if (devices != nullptr) {
    ibv_free_device_list(devices);
  }
  if (context == nullptr) {
    return fail(ErrorCode::NoSuchDevice,
                "there is no RDMA device here; run it on a host of a fabric (weft exec --ns h1 -- "
                "..., or --host h1)");
  }
  auto mads = SaPort::open(ibv_get_device_name(context->device), kPort);
  if (!mads) {
    ibv_close_device(context);
    return std::unexpected(std::move(mads.error()));
  }
  std::unique_ptr<SaAccess> access{
      new SaAccess{*context, *std::move(mads)}
  };
  if (auto followed = access->follow_port(os::now()); !followed) {
    return std::unexpected(std::move(followed.error()));
  }
  return access;
}

SaAccess::SaAccess(ibv_context& context, SaPort mads)
    : context_(&context), mads_(std::move(mads)), client_(interface_) {}

SaAccess::~SaAccess() { ibv_close_device(context_); }

bool SaAccess::watch_gids(sa::GidHandler handler) {
  if (!mads_.take_reports()) {
    return false;
  }
  client_.watch_gids(std::move(handler));
  return true;
}

Result<void> SaAccess::follow_port(Instant now) {
  auto port = port_attributes(*context_, kPort);
  if (!port) {
    return std::unexpected(std::move(port.error()));
  }
  port->reregistrations = reregistrations_;
  if (is_other_subnet(client_.port(), *port)) {
    ++changes_;
  }
  client_.set_port(*port, now);
  return {};
}

Result<void> SaAccess::work(Instant now) {
  bool has_changed = false;
  for (PortEvent event = take_port_event(*context_); event != PortEvent::None;
       event = take_port_event(*context_)) {
    if (event == PortEvent::Gone) {
      return fail(ErrorCode::NoSuchDevice, "the fabric or the device is gone");
    }
    reregistrations_ =
        static_cast<std::uint8_t>(reregistrations_ + (event == PortEvent::Reregister ? 1 : 0));
    has_changed = true;
  }
  if (has_changed) {
    if (auto followed = follow_port(now); !followed) {
      return followed;
    }
  }
  for (int turn = 0; turn < kMadsOfTurn; ++turn) {
    const auto received = mads_.receive();
    if (!received) {
      return std::unexpected(received.error());
    }
    if (!*received) {
      break;
    }
    interface_.handle_mad((*received)->address, (*received)->bytes, now);
  }
  interface_.handle_timeout(now);
  client_.handle_timeout(now);
  send(now);
  return {};
}

void SaAccess::send(Instant now) {
  while (const auto mad = interface_.poll_transmit(now)) {
    mads_.send(*mad);
  }
}

}  // namespace weft::programs
