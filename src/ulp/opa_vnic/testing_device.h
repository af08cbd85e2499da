#pragma once

// A device for tests: keeps what the room gives it.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ulp/opa_vnic/device.h"

namespace weft::opa_vnic::testing {

class FakeDevice : public Device {
 public:
  struct SentMad {
    PortNumber port{};
    VemaPeer to{};
    std::vector<std::byte> mad{};
    [[nodiscard]] wire::VemaMad parsed() const { return wire::parse<wire::VemaMad>(mad).value(); }
  };

  [[nodiscard]] std::uint8_t ports() const override { return port_count; }
  [[nodiscard]] bool supports_vnic() const override { return is_opa; }
  Result<void> register_agent(PortNumber port, const AgentRegistration& agent) override {
    if (port.value() == refused_port) {
      return fail(ErrorCode::Busy, "another agent has the class");
    }
    agents[port] = agent;
    log.push_back("register " + std::to_string(port.value()));
    return {};
  }
  void unregister_agent(PortNumber port) override {
    agents.erase(port);
    log.push_back("unregister " + std::to_string(port.value()));
  }
  Result<void> set_ethernet_on_fabric(PortNumber port, bool is_supported) override {
    announced[port] = is_supported;
    return {};
  }
  [[nodiscard]] PKey management_pkey(PortNumber /*port*/) const override { return pkey; }
  void send_mad(PortNumber port, const VemaPeer& to, std::vector<std::byte> mad) override {
    mads.push_back({port, to, std::move(mad)});
  }
  void send_packet(PortNumber /*port*/, VirtualPort::Sent packet) override {
    packets.push_back(std::move(packet));
  }
  [[nodiscard]] wire::MacAddress hardware_mac(const VirtualPortName& name) const override {
    return wire::MacAddress::from_number(0x0011'7500'0000U + name.opa_port.value() * 256U +
                                         name.number);
  }
  [[nodiscard]] bool add_interface(const VirtualPortName& name) override {
    log.push_back("add " + std::to_string(name.number));
    return has_room && interfaces.insert(name).second;
  }
  void interface_changed(const VirtualPort& /*vport*/) override { ++changes; }
  void remove_interface(const VirtualPortName& name) override {
    log.push_back("remove " + std::to_string(name.number));
    interfaces.erase(name);
  }
  void deliver(const VirtualPortName& name, ByteSpan frame) override {
    delivered.emplace_back(name, std::vector<std::byte>{frame.begin(), frame.end()});
  }

  std::uint8_t port_count{1};
  bool is_opa{true};
  bool has_room{true};
  unsigned refused_port{};
  PKey pkey{kDefaultPKey};
  std::map<PortNumber, AgentRegistration> agents;
  std::map<PortNumber, bool> announced;
  std::set<VirtualPortName> interfaces;
  std::vector<std::string> log;
  std::vector<SentMad> mads;
  std::vector<VirtualPort::Sent> packets;
  std::vector<std::pair<VirtualPortName, std::vector<std::byte>>> delivered;
  unsigned changes{};
};

}  // namespace weft::opa_vnic::testing
