#include "programs/vnic/tap_facts.h"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

namespace weft::programs::vnic {
namespace {

constexpr std::size_t kMostGroups = 1'024;  // policy

[[nodiscard]] std::vector<wire::MacAddress> groups_of(const std::string& name) {
  std::vector<wire::MacAddress> groups;
  std::ifstream file{"/proc/net/dev_mcast"};
  for (std::string line; std::getline(file, line) && groups.size() < kMostGroups;) {
    std::istringstream words{line};
    std::string index;
    std::string interface;
    std::string users;
    std::string global_users;
    std::string address;
    words >> index >> interface >> users >> global_users >> address;
    std::uint64_t number = 0;
    const char* const end = address.data() + address.size();
    const auto read = std::from_chars(address.data(), end, number, 16);
    if (interface == name && read.ec == std::errc{} && read.ptr == end && address.size() == 12) {
      groups.push_back(wire::MacAddress::from_number(number));
    }
  }
  std::ranges::sort(groups);
  return groups;
}

void take(TapFacts& facts, const rtattr& attribute, const void* payload) {
  const std::size_t bytes = attribute.rta_len - RTA_LENGTH(0);
  if (attribute.rta_type == IFLA_ADDRESS && bytes == wire::MacAddress::kSize) {
    std::array<std::byte, wire::MacAddress::kSize> octets{};
    std::memcpy(octets.data(), payload, octets.size());
    facts.mac = wire::MacAddress{octets};
  } else if (attribute.rta_type == IFLA_PROMISCUITY && bytes == sizeof(std::uint32_t)) {
    std::uint32_t count = 0;
    std::memcpy(&count, payload, sizeof count);
    facts.is_promiscuous = count != 0;
  }
}

}  // namespace

std::optional<TapFacts> facts_of_tap(const std::string& name) {
  struct {
    nlmsghdr header;
    ifinfomsg interface;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.interface.ifi_index = static_cast<int>(if_nametoindex(name.c_str()));
  constexpr std::size_t kLongest = 16'384;
  std::array<std::byte, kLongest> answer{};
  const os::UniqueFd socket{::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)};
  if (request.interface.ifi_index == 0 || !socket ||
      send(socket.get(), &request, sizeof request, 0) < 0) {
    return std::nullopt;
  }
  const ssize_t received = recv(socket.get(), answer.data(), answer.size(), 0);
  constexpr std::size_t kHead = NLMSG_LENGTH(sizeof(ifinfomsg));
  nlmsghdr header{};
  if (received < static_cast<ssize_t>(kHead)) {
    return std::nullopt;
  }
  std::memcpy(&header, answer.data(), sizeof header);
  if (header.nlmsg_type != RTM_NEWLINK) {
    return std::nullopt;
  }
  ifinfomsg interface{};
  std::memcpy(&interface, answer.data() + NLMSG_LENGTH(0), sizeof interface);
  TapFacts facts{.is_up = (interface.ifi_flags & IFF_UP) != 0,
                 .is_promiscuous = false,
                 .mac = {},
                 .groups = groups_of(name)};
  const std::size_t end =
      std::min(static_cast<std::size_t>(received), std::size_t{header.nlmsg_len});
  for (std::size_t at = NLMSG_ALIGN(kHead); at + sizeof(rtattr) <= end;) {
    rtattr attribute{};
    std::memcpy(&attribute, answer.data() + at, sizeof attribute);
    if (attribute.rta_len < sizeof attribute || at + attribute.rta_len > end) {
      break;
    }
    take(facts, attribute, answer.data() + at + RTA_LENGTH(0));
    at += RTA_ALIGN(attribute.rta_len);
  }
  return facts;
}

}  // namespace weft::programs::vnic
