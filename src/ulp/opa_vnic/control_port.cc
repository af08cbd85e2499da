#include "ulp/opa_vnic/control_port.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "wire/opa/packet_16b.h"

namespace weft::opa_vnic {

ControlPort::ControlPort(Device& device, const TrapLimits& limits) : device_(device) {
  for (std::uint8_t port = 1; port <= device.ports(); ++port) {
    ports_.emplace_back(device, PortNumber{port}, limits);
  }
}

Result<std::unique_ptr<ControlPort>> ControlPort::add_one(Device& device,
                                                          const TrapLimits& limits) {
  if (!device.supports_vnic()) {
    return fail(ErrorCode::NotSupported, "the device carries no Ethernet in 16B packets");
  }
  std::unique_ptr<ControlPort> added{
      new ControlPort{device, limits}
  };
  if (const auto registered = added->register_agents(); !registered) {
    return std::unexpected(registered.error());
  }
  if (const auto announced = added->config_dev(true); !announced) {
    return std::unexpected(announced.error());
  }
  return added;
}

Result<void> ControlPort::register_agents() {
  for (std::uint8_t port = 1; port <= device_.ports(); ++port) {
    if (const auto registered = device_.register_agent(PortNumber{port}, {}); !registered) {
      return registered;
    }
    registered_ = port;
  }
  return {};
}

ControlPort::~ControlPort() {
  if (registered_ == ports_.size()) {
    // A port that cannot say so any more is gone, and its manager sees that.
    static_cast<void>(config_dev(false));
  }
  for (std::size_t i = 0; i < registered_; ++i) {
    ports_[i].remove_vports();
    device_.unregister_agent(PortNumber{static_cast<std::uint8_t>(i + 1)});
  }
}

Result<void> ControlPort::config_dev(bool is_enabled) {
  Result<void> result;
  for (std::uint8_t port = 1; port <= device_.ports(); ++port) {
    auto done = device_.set_ethernet_on_fabric(PortNumber{port}, is_enabled);
    if (result && !done) {
      result = std::move(done);
    }
  }
  return result;
}

VemaPort* ControlPort::get_port(PortNumber number) {
  const std::size_t index = number.value();
  return index == 0 || index > ports_.size() ? nullptr : &ports_[index - 1];
}

VirtualPort* ControlPort::get_vport(const VirtualPortName& name) {
  VemaPort* const port = get_port(name.opa_port);
  return port == nullptr ? nullptr : port->find_vport(name.number);
}

void ControlPort::handle_mad(PortNumber port, const VemaPeer& from, ByteSpan mad, Instant now) {
  if (VemaPort* const agent = get_port(port)) {
    agent->receive(from, mad, now);
  }
}

void ControlPort::handle_packet(PortNumber number, ByteSpan bytes) {
  VemaPort* const port = get_port(number);
  if (port == nullptr || port->vports().empty()) {
    return;
  }
  const auto packet = wire::parse_opa_ethernet(bytes);
  const auto vesw_id = packet ? std::optional{packet->header.vesw_id} : wire::vesw_id_of(bytes);
  VirtualPort* const vport = vesw_id ? port->find_vesw(*vesw_id) : nullptr;
  if (vport == nullptr || !packet) {
    // What belongs to nobody counts at the first virtual port.
    VirtualPort& counting = vport == nullptr ? port->vports().begin()->second : *vport;
    return counting.count(packet ? RxDrop::BadVesw : RxDrop::Damaged);
  }
  if (const auto frame = vport->receive(*packet)) {
    device_.deliver(vport->name(), *frame);
  }
}

void ControlPort::handle_port_event(PortNumber number, bool is_active, Instant now) {
  if (VemaPort* const port = get_port(number)) {
    port->set_active(is_active, now);
  }
}

void ControlPort::transmit(const VirtualPortName& name, ByteSpan frame) {
  VirtualPort* const vport = get_vport(name);
  if (vport == nullptr) {
    return;
  }
  if (auto sent = vport->transmit(frame)) {
    device_.send_packet(name.opa_port, std::move(*sent));
  }
}

void ControlPort::handle_timeout(Instant now) {
  for (VemaPort& port : ports_) {
    port.handle_timeout(now);
  }
}

Instant ControlPort::deadline() const {
  Instant first = Instant::never();
  for (const VemaPort& port : ports_) {
    first = std::min(first, port.deadline());
  }
  return first;
}

}  // namespace weft::opa_vnic
