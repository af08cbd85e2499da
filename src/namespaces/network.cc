#include "namespaces/network.h"

#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netlink/addr.h>
#include <netlink/errno.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/bridge.h>
#include <netlink/route/link/veth.h>
#include <netlink/route/route.h>
#include <netlink/socket.h>
#include <sched.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <string_view>

#include "namespaces/user_namespace.h"

namespace weft::namespaces {
namespace {

constexpr const char* kBridge = "hub";
constexpr const char* kInterface = "eth0";

template <auto kFree>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Socket = std::unique_ptr<nl_sock, Freed<nl_socket_free>>;
using Link = std::unique_ptr<rtnl_link, Freed<rtnl_link_put>>;
using Address = std::unique_ptr<nl_addr, Freed<nl_addr_put>>;
using InterfaceAddress = std::unique_ptr<rtnl_addr, Freed<rtnl_addr_put>>;

[[nodiscard]] std::unexpected<Error> refused(std::string_view what, int error) {
  if (error == -NLE_PERM || error == -NLE_NOACCESS) {
    return std::unexpected(forbidden(what, EPERM));
  }
  if (error == -NLE_OPNOTSUPP) {
    return fail(ErrorCode::NotSupported,
                "{}: this kernel has no such interfaces (modules veth and bridge)", what);
  }
  return fail(ErrorCode::Io, "{}: {}", what, nl_geterror(error));
}

/// In the network namespace that the process is in now.
[[nodiscard]] Result<Socket> open_socket() {
  Socket socket{nl_socket_alloc()};
  if (!socket) {
    return fail(ErrorCode::OutOfMemory, "no memory for a netlink socket");
  }
  if (const int error = nl_connect(socket.get(), NETLINK_ROUTE); error < 0) {
    return refused("rtnetlink", error);
  }
  return socket;
}

[[nodiscard]] Result<void> bring_up(nl_sock* socket, const char* name, const char* master) {
  const Link was{rtnl_link_alloc()};
  const Link change{rtnl_link_alloc()};
  rtnl_link_set_name(was.get(), name);
  rtnl_link_set_ifindex(was.get(), static_cast<int>(if_nametoindex(name)));
  rtnl_link_set_flags(change.get(), IFF_UP);
  if (master != nullptr) {
    rtnl_link_set_master(change.get(), static_cast<int>(if_nametoindex(master)));
  }
  if (const int error = rtnl_link_change(socket, was.get(), change.get(), 0); error < 0) {
    return refused(fmt::format("interface {}", name), error);
  }
  return {};
}

[[nodiscard]] Result<void> change_address(nl_sock* socket, const char* interface,
                                          const std::string& text, bool is_added) {
  nl_addr* parsed = nullptr;
  if (const int error = nl_addr_parse(text.c_str(), AF_UNSPEC, &parsed); error < 0) {
    return refused(text, error);
  }
  const Address local{parsed};
  const InterfaceAddress address{rtnl_addr_alloc()};
  rtnl_addr_set_ifindex(address.get(), static_cast<int>(if_nametoindex(interface)));
  rtnl_addr_set_local(address.get(), local.get());
  if (nl_addr_get_family(local.get()) == AF_INET6) {
    rtnl_addr_set_flags(address.get(), IFA_F_NODAD);
  }
  const int error = is_added ? rtnl_addr_add(socket, address.get(), 0)
                             : rtnl_addr_delete(socket, address.get(), 0);
  if (error < 0 && error != -NLE_EXIST && error != -NLE_NOADDR) {
    return refused(fmt::format("address {} of {}", text, interface), error);
  }
  return {};
}

/// A switch of the network namespace; without IPv6 those of IPv6 are missing.
void set(const std::string& path, const char* value) {
  std::ofstream{"/proc/sys/net/" + path} << value;
}

[[nodiscard]] Result<void> enter_network(const os::UniqueFd& fd) {
  if (setns(fd.get(), CLONE_NEWNET) != 0) {
    return std::unexpected(forbidden("the network namespace", errno));
  }
  return {};
}

/// The loopback interface without the addresses that are hosts': 127.64.0.0/10 leads to eth0.
[[nodiscard]] Result<void> set_up_loopback(nl_sock* socket) {
  if (auto up = bring_up(socket, "lo", nullptr); !up) {
    return up;
  }
  if (auto added = change_address(socket, "lo", "127.0.0.1/10", true); !added) {
    return added;
  }
  return change_address(socket, "lo", "127.0.0.1/8", false);
}

}  // namespace

Result<void> make_hub() {
  auto socket = open_socket();
  if (!socket) {
    return std::unexpected(std::move(socket.error()));
  }
  const Link bridge{rtnl_link_bridge_alloc()};
  rtnl_link_set_name(bridge.get(), kBridge);
  if (const int error = rtnl_link_add(socket->get(), bridge.get(), NLM_F_CREATE | NLM_F_EXCL);
      error < 0) {
    return refused("the bridge between the hosts", error);
  }
  set("ipv6/conf/all/disable_ipv6", "1");  // of the hub: it forwards frames and has no addresses
  return bring_up(socket->get(), kBridge, nullptr);
}

Result<void> connect_host(const os::UniqueFd& hub, std::uint32_t index,
                          const std::vector<std::string>& addresses) {
  auto socket = open_socket();
  if (!socket) {
    return std::unexpected(std::move(socket.error()));
  }
  if (auto up = set_up_loopback(socket->get()); !up) {
    return up;
  }
  const std::string port = fmt::format("p{}", index);
  const Link link{rtnl_link_veth_alloc()};
  rtnl_link* const peer = rtnl_link_veth_get_peer(link.get());
  rtnl_link_set_name(link.get(), kInterface);
  rtnl_link_set_name(peer, port.c_str());
  rtnl_link_set_ns_fd(peer, hub.get());
  const int error = rtnl_link_add(socket->get(), link.get(), NLM_F_CREATE | NLM_F_EXCL);
  rtnl_link_put(peer);
  if (error < 0) {
    return refused("the interface between host and hub", error);
  }
  set("ipv4/conf/eth0/route_localnet", "1");  // 127.77.0.1 may come and go by it
  set("ipv6/conf/eth0/accept_dad", "0");
  if (auto up = bring_up(socket->get(), kInterface, nullptr); !up) {
    return up;
  }
  for (const std::string& address : addresses) {
    // With a prefix in which other hosts' addresses lie: the kernel makes the route.
    const char* const prefix = address.contains('/') ? "" : address.contains(':') ? "/64" : "/10";
    if (auto added = change_address(socket->get(), kInterface, address + prefix, true); !added) {
      return added;
    }
  }
  const os::UniqueFd own{open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)};
  if (auto entered = enter_network(hub); !entered) {
    return entered;
  }
  auto in_hub = open_socket();
  if (!in_hub) {
    return std::unexpected(std::move(in_hub.error()));
  }
  if (auto up = bring_up(in_hub->get(), port.c_str(), kBridge); !up) {
    return up;
  }
  return enter_network(own);
}

}  // namespace weft::namespaces
