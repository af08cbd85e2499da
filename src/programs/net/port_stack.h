#pragma once

// IPoIB on one port of a host: a UD QP, SA, in connected mode QPs of that, and the stack over them.
// Whoever has the host's packets drives it: ib0, which is one of them, and bond0, which has one for
// each of two ports. Not thread-safe.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ip_address.h"
#include "base/keys.h"
#include "base/result.h"
#include "base/time.h"
#include "programs/host/sa_port.h"
#include "programs/net/connected_port.h"
#include "programs/net/ipoib_stack.h"
#include "programs/net/ud_port.h"

namespace weft::programs::net {

class PortStack {
 public:
  struct Options {
    std::string name;              ///< of the interface, for what is said of it
    std::uint32_t port_of_host{};  ///< from 0, over all its adapters
    std::optional<PKey> partition;
    std::uint32_t mtu{};  ///< wanted; 0: the link's
    ipoib::ConnectedMode mode{ipoib::ConnectedMode::None};
  };
  [[nodiscard]] static Result<std::unique_ptr<PortStack>> open(const Options& options);

  [[nodiscard]] IpoibStack& stack() { return stack_; }
  [[nodiscard]] const IpoibStack& stack() const { return stack_; }
  [[nodiscard]] const UdPort& ud() const { return *ud_; }
  /// Null: not in connected mode.
  [[nodiscard]] const ConnectedPort* connected() const { return connected_.get(); }
  [[nodiscard]] std::uint32_t port_of_host() const { return options_.port_of_host; }
  [[nodiscard]] Guid port_guid() const { return port_guid_; }

  /// What to wait for, and that one of them is readable. False: it is none of them.
  [[nodiscard]] std::vector<int> descriptors() const;
  bool set_ready(int fd);

  /// Takes events, MADs and packets that have come. True: there is more to do at once. With the
  /// reason: the device, or the port's place in the partition, is gone.
  [[nodiscard]] Result<bool> receive(Instant now);
  /// See ConnectedPort.
  [[nodiscard]] MutableByteSpan lend(MutableByteSpan otherwise);
  void give_back();
  /// See ipoib::Interface. False while a capture would show it.
  [[nodiscard]] bool transmit_partial(ByteSpan packet, ipoib::PartialChecksum checksum,
                                      Instant now);
  /// There is room for one more packet.
  [[nodiscard]] bool has_room() const;
  /// MADs, connections and packets, but none for the host. True: the QP takes no more now, and its
  /// next completion goes on.
  [[nodiscard]] bool send_all(Instant now);
  /// The QP is as the link is: its Q_Key and groups.
  [[nodiscard]] Result<void> follow_link();
  /// Leaves the groups, in order.
  [[nodiscard]] Result<void> stop();

 private:
  struct Ready {
    bool mads{true};
    bool events{true};
    bool completions{true};
    bool connections{true};
    bool connected_completions{true};
  };

  PortStack(Options options, std::unique_ptr<UdPort> ud, SaPort sa, const sa::LocalPort& port);
  [[nodiscard]] Result<void> open_connected();
  [[nodiscard]] Result<void> take_events(Instant now);
  [[nodiscard]] Result<bool> take_mads(Instant now);

  Options options_;
  std::unique_ptr<UdPort> ud_;
  SaPort sa_;
  Guid port_guid_;
  IpoibStack stack_;
  std::unique_ptr<ConnectedPort> connected_;
  Ready ready_;
  PKey pkey_{};  // as the QP has it
  std::uint8_t reregistrations_{};
};

}  // namespace weft::programs::net
