// Hosts, two virtual switches and a manager over a network that loses and delays MADs and packets,
// while links flap, drivers are loaded anew, addresses change and the manager is killed. No frame
// may come twice, or to anybody but its addressee; in the end all tables are right, and every pair
// of hosts reaches each other. The bugs of planted_bug.h are each found.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ulp/opa_vnic/planted_bug.h"
#include "ulp/opa_vnic/testing_fabric.h"

namespace weft::opa_vnic {
namespace {

using testing::Fabric;
using testing::FabricOptions;
using testing::kLongInterval;
using wire::MacAddress;

class World {
 public:
  World(std::uint64_t seed, const FabricOptions& options) : fabric_(seed, options) {}

  std::vector<std::string> run(unsigned moves) {
    for (unsigned i = 0; i < moves; ++i) {
      move();
      send_some();
      fabric_.run_for(
          Duration::milliseconds(static_cast<std::int64_t>(fabric_.random.below(3000))));
    }
    settle();
    check();
    change_unheard();
    check();
    return fabric_.findings;
  }

 private:
  [[nodiscard]] Fabric::Host& any_host() {
    return *fabric_.hosts[fabric_.random.below(fabric_.hosts.size())];
  }
  [[nodiscard]] std::vector<MacAddress> any_macs() {
    std::vector<MacAddress> macs;
    const std::uint64_t count = fabric_.random.chance(1, 4) ? 340 : fabric_.random.below(4);
    const std::uint64_t first = 0x0011'7600'0000U + fabric_.random.below(1000) * 0x1000U;
    for (std::uint64_t i = 0; i < count; ++i) {
      macs.push_back(MacAddress::from_number(first + i));
    }
    return macs;
  }

  void move() {
    Fabric::Host& host = any_host();
    switch (fabric_.random.below(8)) {
      case 0:
        return fabric_.set_link(host, !host.link_up);
      case 1:  // the driver is loaded anew, and nobody looks at the port in between
        host.unload();
        return host.load();
      case 2:
        fabric_.kill_manager();
        return;
      case 3:
        if (fabric_.manager == nullptr) {
          fabric_.start_manager();
        }
        return;
      default:
        return fabric_.set_macs(host, static_cast<std::uint8_t>(fabric_.random.below(2)),
                                any_macs());
    }
  }

  void send_some() {
    for (int i = 0; i < 10; ++i) {
      Fabric::Host& from = any_host();
      const auto vport = static_cast<std::uint8_t>(fabric_.random.below(2));
      const bool is_broadcast = fabric_.random.chance(1, 5);
      fabric_.send(from, vport,
                   is_broadcast ? MacAddress::from_number(0xFFFF'FFFF'FFFF)
                                : Fabric::base_mac(any_host().lid(), vport));
    }
  }

  void settle() {
    fabric_.options.mad_loss = 0;
    fabric_.options.data_loss = 0;
    fabric_.options.most_delay_us = 50'000;
    for (const auto& host : fabric_.hosts) {
      fabric_.set_link(*host, true);
    }
    if (fabric_.manager == nullptr) {
      fabric_.start_manager();
    }
    fabric_.run_for(Duration::seconds(60));
  }

  /// The first trap of a change is lost: it has to be sent again.
  void change_unheard() {
    fabric_.options.mad_loss = 100;
    fabric_.set_macs(*fabric_.hosts[1], 0, {MacAddress::from_number(0x0011'7700'0001)});
    fabric_.run_for(Duration::seconds(1));
    fabric_.options.mad_loss = 0;
    fabric_.run_for(Duration::seconds(15));
  }

  void expect(bool holds, const std::string& what) {
    if (!holds) {
      fabric_.findings.push_back(what);
    }
  }

  void check() {
    expect(fabric_.manager->is_settled(), "the manager is not done");
    for (const SwitchConfig& one : fabric_.config.switches) {
      for (const MemberConfig& member : one.members) {
        check_port(one, member);
      }
    }
    check_reach();
  }

  /// The table of a port has exactly the addresses of the others.
  void check_port(const SwitchConfig& one, const MemberConfig& member) {
    const VirtualPort* const port = fabric_.hosts[member.port.value() - 1]->vport(member.vport);
    if (port == nullptr || !port->is_forwarding()) {
      return expect(false, "a port does not forward");
    }
    const auto stranger = MacAddress::from_number(0x0011'7FFF'FFFF);
    expect(port->mac_table().refuses_source(stranger) == one.filters_sources,
           "sources are not filtered as configured");
    std::map<MacAddress, std::uint32_t> expected;
    for (const MemberConfig& other : one.members) {
      Fabric::Host& host = *fabric_.hosts[other.port.value() - 1];
      if (other.port != member.port) {
        for (const MacAddress& mac : host.interface_macs[other.vport]) {
          expected.emplace(mac, host.lid());
        }
        expected[other.mac] = host.lid();
      }
    }
    std::map<MacAddress, std::uint32_t> found;
    for (const auto& entry : port->mac_table().block(0, 2048).entries) {
      if (!entry.mac.is_zero() && !entry.is_source()) {
        found.emplace(entry.mac, entry.dlid);
      }
    }
    // Two hosts may report the same address; then either is right.
    expect(found.size() == expected.size(), "a MAC table has other addresses than the hosts");
    for (const auto& [mac, lid] : expected) {
      expect(found.contains(mac), "an address is not in a MAC table");
    }
  }

  void check_reach() {
    std::vector<std::pair<std::uint32_t, std::set<std::uint32_t>>> expected;
    for (const SwitchConfig& one : fabric_.config.switches) {
      for (const MemberConfig& from : one.members) {
        std::set<std::uint32_t> others;
        for (const MemberConfig& to : one.members) {
          if (from.port == to.port) {
            continue;
          }
          const auto lid = static_cast<std::uint32_t>(to.port.value());
          others.insert(lid);
          fabric_.send(*fabric_.hosts[from.port.value() - 1], from.vport, to.mac);
          expected.push_back({fabric_.frames_sent, {lid}});
        }
        fabric_.send(*fabric_.hosts[from.port.value() - 1], from.vport,
                     MacAddress::from_number(0xFFFF'FFFF'FFFF));
        expected.emplace_back(fabric_.frames_sent, others);
      }
    }
    fabric_.run_for(Duration::seconds(1));
    for (const auto& [frame, receivers] : expected) {
      expect(fabric_.sent[frame].deliveries == receivers, "a frame did not arrive");
    }
  }

  Fabric fabric_;
};

const std::array<FabricOptions, 4> kScenarios{
    {
     {},
     {.mad_loss = 20, .data_loss = 10},
     {.mad_loss = 10, .most_delay_us = 1'500'000},  // longer than the manager waits
        {.mad_loss = 40, .interval = kLongInterval},   // what changes is learned by traps alone
    }
};

std::vector<std::string> run_all(std::uint64_t seeds, unsigned moves) {
  std::vector<std::string> findings;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    for (std::size_t i = 0; i < kScenarios.size(); ++i) {
      for (const std::string& finding : World{seed, kScenarios[i]}.run(moves)) {
        findings.push_back("seed " + std::to_string(seed) + ", scenario " + std::to_string(i) +
                           ": " + finding);
      }
    }
  }
  return findings;
}

TEST(OpaVnicFabric, TablesAreRightAndFramesArriveOnce) {
  const auto findings = run_all(2, 25);
  for (std::size_t i = 0; i < findings.size() && i < 10; ++i) {
    ADD_FAILURE() << findings[i];
  }
}

#ifdef WEFT_PLANTED_BUGS
bool is_found(std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    for (const FabricOptions& options : kScenarios) {
      if (!World{seed, options}.run(25).empty()) {
        return true;
      }
    }
  }
  return false;
}

class OpaVnicPlantedBug : public ::testing::TestWithParam<PlantedBug> {
 protected:
  void TearDown() override { planted_bug = PlantedBug::None; }
};

TEST_P(OpaVnicPlantedBug, IsFound) {
  planted_bug = GetParam();
  EXPECT_TRUE(is_found(4));
}

std::vector<PlantedBug> all_bugs() {
  std::vector<PlantedBug> bugs;
  for (auto bug = 1U; bug <= static_cast<unsigned>(kLastBug); ++bug) {
    bugs.push_back(static_cast<PlantedBug>(bug));
  }
  return bugs;
}

INSTANTIATE_TEST_SUITE_P(Each, OpaVnicPlantedBug, ::testing::ValuesIn(all_bugs()));
#endif

}  // namespace
}  // namespace weft::opa_vnic
