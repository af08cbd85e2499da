#include "compat/ibverbs/interfaces.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "base/ip_address.h"
#include "compat/ibverbs/links.h"
#include "compat/ibverbs/objects.h"

namespace weft::compat {
namespace {

/// Covers 127/8, as the resolver assumes (fabric/addresses.h).
constexpr std::uint32_t kNetmask = 0xFF00'0000;
constexpr unsigned int kFlags = IFF_UP | IFF_RUNNING | IFF_BROADCAST | IFF_MULTICAST;

/// One of our interfaces in a list; ifa_data marks it as ours.
struct Interface {
  ifaddrs entry;
  sockaddr_in address;
  sockaddr_in netmask;
  sockaddr_in broadcast;
  char name[IFNAMSIZ];
};
char mark;

[[nodiscard]] sockaddr_in socket_address(std::uint32_t address) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(address);
  return out;
}

[[nodiscard]] sockaddr* generic(sockaddr_in& address) {
  return static_cast<sockaddr*>(static_cast<void*>(&address));
}

[[nodiscard]] std::vector<std::uint32_t> own_addresses() {
  std::vector<std::uint32_t> found;
  const auto attachment = hold_attachment();
  if (host::Process* const program = process()) {
    for (const host::HostHca& hca : program->hcas()) {
      for (const IpAddress& address : hca.addresses) {
        std::uint32_t number = 0;
        for (const std::byte octet : address.octets()) {
          number = number << 8 | std::to_integer<std::uint32_t>(octet);
        }
        found.push_back(number);
      }
    }
  }
  return found;
}

/// Lists ours, in one block, before the machine's.
int list_interfaces(ifaddrs** list) noexcept {
  ifaddrs* machines = nullptr;
  if (const int status = getifaddrs(&machines); status != 0) {
    return status;
  }
  *list = machines;
  const std::vector<std::uint32_t> addresses = own_addresses();
  auto* const block = static_cast<Interface*>(std::calloc(addresses.size(), sizeof(Interface)));
  if (addresses.empty() || block == nullptr) {
    std::free(block);
    return 0;
  }
  const std::span ours{block, addresses.size()};
  for (std::size_t i = 0; i < ours.size(); ++i) {
    Interface& one = ours[i];
    one.address = socket_address(addresses[i]);
    one.netmask = socket_address(kNetmask);
    one.broadcast = socket_address(addresses[i] | ~kNetmask);
    *fmt::format_to_n(one.name, sizeof one.name - 1, "ib{}", i).out = '\0';
    one.entry.ifa_name = one.name;
    one.entry.ifa_flags = kFlags;
    one.entry.ifa_addr = generic(one.address);
    one.entry.ifa_netmask = generic(one.netmask);
    one.entry.ifa_broadaddr = generic(one.broadcast);
    one.entry.ifa_data = &mark;
    one.entry.ifa_next = i + 1 < ours.size() ? &ours[i + 1].entry : machines;
  }
  *list = &ours.front().entry;
  return 0;
}

/// Frees a list. Modules that list by our function also free by it; an older list contains none of
/// ours.
void free_interfaces(ifaddrs* list) noexcept {
  ifaddrs* machines = list;
  while (machines != nullptr && machines->ifa_data == &mark) {
    machines = machines->ifa_next;
  }
  if (machines != list) {
    std::free(list);  // the block starts with its first entry
  }
  freeifaddrs(machines);
}

}  // namespace

void answer_for_interfaces(const void* address) {
  const Replacement replacements[] = {
      {"getifaddrs",  reinterpret_cast<std::uintptr_t>(&list_interfaces)},
      {"freeifaddrs", reinterpret_cast<std::uintptr_t>(&free_interfaces)},
  };
  lead_links_of(address, replacements);
}

}  // namespace weft::compat
