#pragma once

// weft-iwpm on one host, until it is told to end: a netlink socket in the group of port mappers, a
// UDP socket at the well-known port and one to ask from, and a TCP socket for each port that is
// reserved. It is spoken to as rdma-core's iwpmd is, and answers `status`. One thread.

#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "iwpm/mapper.h"
#include "os/netlink_socket.h"
#include "os/unique_fd.h"
#include "programs/control/control.h"

namespace weft::programs::iwpm {

inline constexpr const char* kServiceName = "iwpm";

class Service final : public weft::iwpm::MapperServices {
 public:
  /// Blocks SIGTERM and SIGINT, which end run(). Exists: a port mapper runs on this host.
  [[nodiscard]] static Result<std::unique_ptr<Service>> start();

  /// Ends in order by a signal, or with the reason: the fabric has gone.
  [[nodiscard]] Result<void> run();

 private:
  using PeerSocket = weft::iwpm::PeerSocket;
  using SocketAddress = weft::iwpm::SocketAddress;
  /// One family's sockets; IPv6 may be missing.
  struct Peers {
    std::uint16_t family{};
    os::UniqueFd server;
    os::UniqueFd client;
  };

  Service(os::NetlinkSocket netlink, Control control);

  Result<ReservedPort> reserve_port(IpFamily family, std::uint16_t wanted) override;
  void release_port(weft::iwpm::PortHandle handle) override;
  [[nodiscard]] bool owns_address(const IpAddress& address) const override;
  void send_to_kernel(std::vector<std::byte> datagram) override;
  void send_to_peer(PeerSocket socket, const SocketAddress& peer,
                    std::vector<std::byte> datagram) override;
  void log(std::string line) override;

  [[nodiscard]] Result<void> open_peers();
  [[nodiscard]] std::vector<pollfd> watched() const;
  [[nodiscard]] Result<void> take_netlink(Instant now);
  void take_peers(Instant now);
  [[nodiscard]] std::string answer(std::string_view line) const;

  os::NetlinkSocket netlink_;
  Control control_;
  os::UniqueFd signals_;
  std::vector<Peers> peers_;
  std::map<weft::iwpm::PortHandle, os::UniqueFd> ports_;
  weft::iwpm::PortHandle last_handle_{};
  weft::iwpm::Mapper mapper_;
};

}  // namespace weft::programs::iwpm
