// The network interfaces that a program sees once it has asked for devices.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <net/if.h>

#include <map>
#include <string>

#include "verbs_fixture.h"

namespace {

struct Interface {
  unsigned int flags{};
  std::string address;
};

[[nodiscard]] std::string text_of(const sockaddr* address) {
  if (address == nullptr || address->sa_family != AF_INET) {
    return "";
  }
  char text[INET_ADDRSTRLEN] = "";
  const void* const generic = address;
  inet_ntop(AF_INET, &static_cast<const sockaddr_in*>(generic)->sin_addr, text, sizeof text);
  return text;
}

/// By name; of each the IPv4 address.
[[nodiscard]] std::map<std::string, Interface> interfaces() {
  ifaddrs* list = nullptr;
  EXPECT_EQ(getifaddrs(&list), 0);
  std::map<std::string, Interface> found;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    Interface& interface = found[one->ifa_name];
    interface.flags = one->ifa_flags;
    interface.address += text_of(one->ifa_addr);
  }
  freeifaddrs(list);
  return found;
}

/// libfabric looks for one that is up and not the loopback.
TEST_F(Verbs, ThePortsOfTheHostAreInterfacesForWhoAskedForTheList) {
  ibv_free_device_list(ibv_get_device_list(nullptr));
  const auto found = interfaces();
  ASSERT_TRUE(found.contains("ib0"));
  EXPECT_EQ(found.at("ib0").address, "127.77.0.1");
  EXPECT_EQ(found.at("ib0").flags & (IFF_UP | IFF_LOOPBACK), static_cast<unsigned int>(IFF_UP));
  EXPECT_FALSE(found.contains("ib1")) << "the host has one port";
  EXPECT_TRUE(found.contains("lo")) << "the machine's own are listed, too";
}

TEST_F(Verbs, AnEmptyListOfInterfacesIsFreed) { freeifaddrs(nullptr); }

}  // namespace
