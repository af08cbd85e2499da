#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "core/device.h"
#include "core/mad/mad_port.h"

namespace weft::core::testing {

/// Carries MADs between the ports that are attached, by LID and without delay: time passes in
/// timeouts only.
class MadNetwork final : public MadCarrier {
 public:
  void attach(MadPort& port) { ports_.push_back(&port); }
  void detach(MadPort& port) { std::erase(ports_, &port); }

  void transmit(MadPort& from, const mad::MadPacket& packet) override {
    sent.push_back({.from = &from, .packet = packet});
    if (filter && !filter(from, packet)) {
      return;
    }
    mad::MadAddress source = packet.address;
    source.lid = lid_of(from);
    const auto to = std::ranges::find_if(ports_, [&](const MadPort* port) {
      return port->kind() == from.kind() && lid_of(*port) == packet.address.lid;
    });
    if (to != ports_.end()) {
      (*to)->receive(source, packet.bytes);
    }
  }

  struct Sent {
    MadPort* from{};
    mad::MadPacket packet;
  };
  std::vector<Sent> sent;  ///< all of them, also what was lost
  /// False: the MAD is lost.
  std::function<bool(const MadPort& from, const mad::MadPacket& packet)> filter;

 private:
  [[nodiscard]] static Lid lid_of(const MadPort& port) {
    return port.device().cache(port.number()).lid();
  }

  std::vector<MadPort*> ports_;
};

}  // namespace weft::core::testing
