#pragma once

// An IPoIB interface of one host, until it is told to end: a TUN in the host's network namespace,
// and what carries its packets on one port, or on two, of which one is active at a time
// (programs/net/active_backup.h). One thread, which sleeps while nothing happens.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/keys.h"
#include "base/result.h"
#include "os/netlink_socket.h"
#include "os/unique_fd.h"
#include "programs/control/control.h"
#include "programs/host/kernel_addresses.h"
#include "programs/net/ipoib_stack.h"
#include "programs/net/port_stack.h"
#include "programs/net/tun.h"
#include "ulp/offload/coalescer.h"
#include "ulp/offload/segmenter.h"

namespace weft::programs::net {

inline constexpr std::size_t kMostPorts = 2;  ///< of an interface; policy

struct ServiceOptions {
  std::string name{};
  std::string service{};                ///< of the control socket (programs/control/control.h)
  std::vector<std::uint32_t> ports{0};  ///< of the host, from 0; two: one is active at a time
  std::optional<PKey> partition;        ///< of a child; else the port's first
  std::string parent{};  ///< of a child: the interface whose MTU is the most that it has
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
    std::vector<InterfaceAddress> addresses;
  };
  /// Calls `on_up` when the interface is up. Ends in order by a signal; or with the
  /// reason: the link does not come up in time, the fabric has gone.
  [[nodiscard]] Result<void> run(const std::function<void(const Up&)>& on_up);

 private:
  /// What start() opens.
  struct Parts {
    Tun tun;
    std::vector<std::unique_ptr<PortStack>> ports;
    Control control;
    os::NetlinkSocket interfaces;
  };
  Service(ServiceOptions options, Parts parts);
  [[nodiscard]] Result<void> watch();
  [[nodiscard]] Result<bool> work(Instant now);
  [[nodiscard]] bool take_packets(Instant now);
  [[nodiscard]] bool take_packet(Instant now);
  void run_stacks(Instant now);
  [[nodiscard]] bool send_all(Instant now);
  [[nodiscard]] bool transmit_partial(const Tun::Sent& sent, Instant now);
  void deliver(const PortStack& port, ByteSpan packet, ipoib::PartialChecksum checksum = {});
  void take_output();
  [[nodiscard]] Result<void> follow_link();
  void follow_ports(Instant now);
  [[nodiscard]] Result<void> follow_mtu();
  void follow_host(Instant now);
  void tell_kernel();
  [[nodiscard]] Result<void> tell_addresses(std::span<const InterfaceAddress> addresses);
  void answer_kernel(Instant now);
  void hold_groups();
  void watch_tun(bool is_watched);
  [[nodiscard]] Result<void> watch_control();
  [[nodiscard]] std::string answer(std::string_view line) const;
  [[nodiscard]] Instant deadline() const;
  [[nodiscard]] Result<bool> wait(Instant until);

  [[nodiscard]] PortStack& active() { return *ports_[active_]; }
  [[nodiscard]] const PortStack& active() const { return *ports_[active_]; }
  [[nodiscard]] IpoibStack& stack() { return active().stack(); }
  [[nodiscard]] const IpoibStack& stack() const { return active().stack(); }

  /// What epoll has found since it was looked at.
  struct Ready {
    bool questions{true};
    bool interfaces{true};
    bool kernel{true};
  };

  ServiceOptions options_;
  Tun tun_;
  std::vector<std::unique_ptr<PortStack>> ports_;
  std::size_t active_{};
  Control control_;
  os::NetlinkSocket interfaces_;           // of the host
  std::optional<KernelAddresses> kernel_;  // RDMA-CM's
  std::vector<Gid> held_;                  // groups, as the daemon knows
  os::UniqueFd signals_;
  os::UniqueFd poll_;
  std::vector<std::byte> buffer_;
  offload::Segmenter segmenter_;
  offload::Coalescer coalescer_;
  std::function<void(const Up&)> on_up_;
  Ready ready_;
  bool is_stuck_{};  // the QP takes no more packets until it completes some
  bool was_up_{};
  bool is_made_{};       // the TUN has MTU and addresses
  Up made_;              // with which; others may have come meanwhile
  bool is_told_{};       // and they can be used, as who waits for it knows
  std::uint32_t mtu_{};  // as the TUN has it
};

}  // namespace weft::programs::net
