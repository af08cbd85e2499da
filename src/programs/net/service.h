#pragma once

// ib0 of one host, until it is told to end: a TUN in the host's network namespace, a UD QP, SA, and
// the stack between them. One thread, which sleeps while nothing happens.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "base/keys.h"
#include "base/result.h"
#include "os/netlink_socket.h"
#include "os/unique_fd.h"
#include "programs/control/control.h"
#include "programs/host/kernel_addresses.h"
#include "programs/host/sa_port.h"
#include "programs/net/connected_port.h"
#include "programs/net/ipoib_stack.h"
#include "programs/net/tun.h"
#include "programs/net/ud_port.h"
#include "ulp/offload/coalescer.h"
#include "ulp/offload/segmenter.h"

namespace weft::programs::net {

/// Of the control socket of ib0 (programs/control/control.h); a child has a name of its own.
inline constexpr std::string_view kServiceName = "net";

struct ServiceOptions {
  std::string name{"ib0"};
  std::string service{kServiceName};
  std::optional<PKey> partition;  ///< of a child; else the port's first
  std::string parent{};           ///< of a child: the interface whose MTU is the most that it has
  std::vector<InterfaceAddress> addresses{};  ///< beside the link-local one
  std::uint32_t mtu{};                        ///< wanted; 0: the link's
  ipoib::ConnectedMode mode{ipoib::ConnectedMode::None};
};

class Service {
 public:
  /// Blocks SIGTERM and SIGINT, which end run().
  [[nodiscard]] static Result<std::unique_ptr<Service>> start(const ServiceOptions& options);

  struct Up {
    std::uint32_t mtu{};
    std::span<const InterfaceAddress> addresses{};
  };
  /// Calls `on_up` when the interface is up. Ends in order by a signal; or with the
  /// reason: the link does not come up in time, the fabric has gone.
  [[nodiscard]] Result<void> run(const std::function<void(const Up&)>& on_up);

 private:
  /// What start() opens.
  struct Parts {
    Tun tun;
    std::unique_ptr<UdPort> ud;
    SaPort sa;
    sa::LocalPort port;
    Control control;
    os::NetlinkSocket interfaces;
  };
  Service(ServiceOptions options, Parts parts);
  [[nodiscard]] Result<void> open_connected();
  [[nodiscard]] Result<void> watch();
  [[nodiscard]] Result<bool> work(Instant now);
  [[nodiscard]] Result<bool> take_mads(Instant now);
  [[nodiscard]] Result<void> take_events(Instant now);
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] bool take_packets(Instant now);
  [[nodiscard]] bool send_all(Instant now);
  [[nodiscard]] Result<void> follow_link();
  [[nodiscard]] Result<void> follow_mtu();
  void follow_host(Instant now);
  void tell_kernel();
  void answer_kernel(Instant now);
  void hold_groups();
  void watch_tun(bool is_watched);
  [[nodiscard]] Result<void> watch_control();
  [[nodiscard]] std::string answer(std::string_view line) const;
  [[nodiscard]] Result<bool> wait(Instant until);

  /// What epoll has found since it was looked at.
  struct Ready {
    bool mads{true};
    bool events{true};
    bool completions{true};
    bool connections{true};
    bool connected_completions{true};
    bool questions{true};
    bool interfaces{true};
    bool kernel{true};
  };

  ServiceOptions options_;
  std::unique_ptr<UdPort> ud_;
  SaPort sa_;
  Tun tun_;
  sa::LocalPort port_;
  IpoibStack stack_;
  Control control_;
  os::NetlinkSocket interfaces_;              // of the host
  std::optional<KernelAddresses> kernel_;     // RDMA-CM's
  std::vector<Gid> held_;                     // groups, as the daemon knows
  std::unique_ptr<ConnectedPort> connected_;  // in connected mode
  os::UniqueFd signals_;
  os::UniqueFd poll_;
  std::vector<std::byte> buffer_;
  offload::Segmenter segmenter_;
  offload::Coalescer coalescer_;
  std::function<void(const Up&)> on_up_;
  Ready ready_;
  bool is_stuck_{};  // the QP takes no more packets until it completes some
  bool was_up_{};
  PKey pkey_{};          // as the QP has it
  bool is_made_{};       // the TUN has MTU and addresses
  std::uint32_t mtu_{};  // as the TUN has it
  std::uint8_t reregistrations_{};
};

}  // namespace weft::programs::net
