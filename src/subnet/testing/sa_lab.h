#pragma once

// For tests: a small subnet as an SM would have discovered it, its SA, and clients that ask it over
// a network in virtual time.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "mad/testing/network.h"
#include "mad/testing/script.h"
#include "subnet/rate.h"
#include "subnet/sa/administration.h"
#include "verbs/mtu.h"

namespace weft::subnet {

/// A subnet manager that has done its work: forwarding tables are walked, wishes are noted.
class TestControl final : public SubnetControl {
 public:
  [[nodiscard]] const Subnet& subnet() const override { return model; }
  [[nodiscard]] wire::SmState state() const override { return sm_state; }
  [[nodiscard]] PortId sm_port() const override { return sm; }
  [[nodiscard]] wire::SmInfo sm_info() const override {
    return {.guid = model.port(sm).guid,
            .sm_key = key,
            .act_count = 7,
            .priority = 5,
            .state = wire::SmState::Master};
  }
  [[nodiscard]] std::span<const OtherManager> other_managers() const override { return others; }
  [[nodiscard]] std::uint64_t sm_key() const override { return key; }
  [[nodiscard]] std::uint64_t mkey() const override { return 0; }
  [[nodiscard]] std::uint32_t multicast_capacity() const override { return capacity; }

  [[nodiscard]] std::optional<PathFacts> path(Lid source, Lid destination) const override {
    const auto from = model.find_lid(source);
    const auto to = model.find_lid(destination);
    if (!from || !to) {
      return std::nullopt;
    }
    PathFacts facts{.source = *from, .destination = *to, .rate = 21, .packet_life_time = 16};
    ++paths_walked;
    for (PortId at = *from; at.node != to->node;) {
      const SubnetNode& node = model.node(at.node);
      const PortId out{at.node, node.is_switch() ? node.forward(destination) : at.number};
      if (out.number.value() >= node.ports.size() || facts.steps.size() > 64) {
        return std::nullopt;
      }
      const SubnetPort& port = model.port(out);
      if (!model.contains(port.peer.node)) {
        return std::nullopt;
      }
      facts.mtu = std::min(facts.mtu, port.info.neighbor_mtu);
      if (rate_hundreds_of_mbps(rate_of(port.info)) < rate_hundreds_of_mbps(facts.rate)) {
        facts.rate = rate_of(port.info);
      }
      facts.steps.push_back({.port = out, .is_egress = true});
      at = port.peer;
      facts.steps.push_back({.port = at, .is_egress = false});
    }
    return facts;
  }

  Result<void> set_multicast_members(Lid mlid, std::span<const MulticastMember> members,
                                     Instant) override {
    ++trees_written;
    trees[mlid].assign(members.begin(), members.end());
    return {};
  }
  [[nodiscard]] std::vector<Guid> guids_of(PortId port) const override {
    const auto asked = asked_guids.find(port);
    return asked == asked_guids.end() ? model.port(port).guids : asked->second;
  }
  std::map<PortId, std::vector<Guid>> asked_guids;  // that are not written yet
  Result<void> set_guids(PortId port, std::vector<Guid> guids, Instant) override {
    if (refuses_guids) {
      return fail(ErrorCode::Io, "the port did not answer");
    }
    model.port(port).guids = std::move(guids);
    ++model.generation;
    return {};
  }

  Subnet model;
  PortId sm{};
  wire::SmState sm_state{wire::SmState::Master};
  std::uint64_t key{1};
  std::uint32_t capacity{1024};
  std::vector<OtherManager> others;
  std::map<Lid, std::vector<MulticastMember>> trees;
  int trees_written{};
  bool refuses_guids{};
  mutable std::uint64_t paths_walked{};
};

inline constexpr std::uint64_t kPortGuid = 0x10'0000;  // of host N: this and N
inline constexpr std::uint64_t kNodeGuid = 0x20'0000;
inline constexpr std::uint64_t kSwitchGuid = 0x30'0000;

/// Adds an HCA of one port to a subnet.
inline PortId add_host(Subnet& subnet, unsigned number, Lid lid, std::uint8_t lmc = 0) {
  const Guid guid{kPortGuid + number};
  const NodeId node = subnet.add_node({.port_count = 1,
                                       .system_image_guid = Guid{kNodeGuid + number},
                                       .node_guid = Guid{kNodeGuid + number},
                                       .port_guid = guid,
                                       .partition_cap = 32,
                                       .local_port = PortNumber{1}});
  const PortId id{node, PortNumber{1}};
  SubnetPort& port = subnet.port(id);
  port.info.port_state = wire::LinkState::Active;
  port.info.neighbor_mtu = port.info.mtu_cap = verbs::Mtu::Mtu4096;
  port.info.link_width_active = 2;
  port.info.link_speed_active = 4;
  port.info.guid_cap = 16;
  port.info.mkey = 0xABCD;
  port.pkeys.assign(32, PKey{});
  port.pkeys[0] = kDefaultPKey;
  port.guids.assign(16, Guid{});
  port.guids[0] = guid;
  subnet.set_lids(id, lid, lmc);
  const std::string name = "h" + std::to_string(number);
  std::transform(name.begin(), name.end(), subnet.node(node).description.text.begin(),
                 [](char each) { return static_cast<std::byte>(each); });
  return id;
}

inline NodeId add_switch(Subnet& subnet, unsigned number, Lid lid, std::uint8_t ports) {
  const Guid guid{kSwitchGuid + number};
  const NodeId node = subnet.add_node({.node_type = wire::NodeType::Switch,
                                       .port_count = ports,
                                       .system_image_guid = guid,
                                       .node_guid = guid,
                                       .port_guid = guid,
                                       .partition_cap = 8});
  for (SubnetPort& port : subnet.node(node).ports) {
    port.info.port_state = wire::LinkState::Active;
    port.info.neighbor_mtu = port.info.mtu_cap = verbs::Mtu::Mtu4096;
    port.info.link_width_active = 2;
    port.info.link_speed_active = 4;
  }
  subnet.node(node).ports[0].pkeys = {kDefaultPKey};
  subnet.node(node).switch_info =
      wire::SwitchInfo{.linear_fdb_cap = 0xBFFF, .multicast_fdb_cap = 1024};
  subnet.set_lids({node, PortNumber{}}, lid, 0);
  return node;
}

/// A response to a client.
struct Reported {
  bool is_answered{};
  SaStatusCode status{};
  wire::SaHeader header{};
  std::vector<std::byte> data{};

  template <wire::WireType T>
  [[nodiscard]] std::vector<T> records() const {
    std::vector<T> all;
    const std::size_t step = std::size_t{header.attribute_offset} * 8;
    for (std::size_t at = 0; step != 0 && at + wire::kSizeOf<T> <= data.size(); at += step) {
      all.push_back(*wire::parse<T>(ByteSpan{data}.subspan(at)));
    }
    return all;
  }
  template <wire::WireType T>
  [[nodiscard]] T record() const {
    return *wire::parse<T>(data);
  }
};

/// h1 and h2 at switch s1, h3 (LMC 1) and h4 at s2, two cables between the switches; h2 is also in
/// partition 0x8001, h4 in no other. The SM is at h1.
struct LabSubnet {
  static constexpr Lid kH1{1};
  static constexpr Lid kH2{2};
  static constexpr Lid kH3{4};
  static constexpr Lid kH4{6};
  static constexpr Lid kS1{7};
  static constexpr Lid kS2{8};
  static constexpr PKey kOtherPKey{0x8001};

  LabSubnet() {
    h1 = add_host(model, 1, kH1);
    h2 = add_host(model, 2, kH2);
    h3 = add_host(model, 3, kH3, 1);
    h4 = add_host(model, 4, kH4);
    s1 = add_switch(model, 1, kS1, 4);
    s2 = add_switch(model, 2, kS2, 4);
    model.port(h2).pkeys[1] = kOtherPKey;
    model.port(h4).pkeys[0] = kOtherPKey;
    model.connect(h1, {s1, PortNumber{1}});
    model.connect(h2, {s1, PortNumber{2}});
    model.connect(h3, {s2, PortNumber{1}});
    model.connect(h4, {s2, PortNumber{2}});
    model.connect({s1, PortNumber{3}}, {s2, PortNumber{3}});
    model.connect({s1, PortNumber{4}}, {s2, PortNumber{4}});
    // By LID 0 .. 8; the two LIDs of h3 come by different cables.
    const auto ports = [](std::initializer_list<int> list) {
      std::vector<PortNumber> made;
      for (const int each : list) {
        made.emplace_back(static_cast<std::uint8_t>(each));
      }
      return made;
    };
    model.node(s1).forwarding = ports({255, 1, 2, 255, 3, 4, 3, 0, 3});
    model.node(s2).forwarding = ports({255, 3, 4, 255, 1, 1, 2, 3, 0});
    model.generation = 1;
  }

  Subnet model;
  PortId h1, h2, h3, h4;
  NodeId s1, s2;
};

/// The SA of that subnet, and clients that ask it.
class SaLab : private LabSubnet {
 public:
  using LabSubnet::h1, LabSubnet::h2, LabSubnet::h3, LabSubnet::h4, LabSubnet::s1, LabSubnet::s2;
  using LabSubnet::kH1, LabSubnet::kH2, LabSubnet::kH3, LabSubnet::kH4, LabSubnet::kS1,
      LabSubnet::kS2, LabSubnet::kOtherPKey;

  explicit SaLab(const SaOptions& options = {}, const mad::Limits& limits = {})
      : server(mad::InterfaceKind::Gsi, limits), sa(control, server, options) {
    control.model = std::move(model);
    control.sm = h1;
    mad::require(sa.start().has_value());
    network.attach(kH1, server);
    for (const Lid lid : {kH2, kH3, kH4, Lid{40}}) {
      auto [place, is_new] = clients.try_emplace(lid, mad::InterfaceKind::Gsi);
      network.attach(lid, place->second);
      agents[lid] = *place->second.register_agent(
          mad::registration_of(wire::ManagementClass::SubnAdm, {wire::MadMethod::Report}),
          &reports[lid]);
    }
    agents[kH1] = *server.register_agent(
        {.mgmt_class = wire::ManagementClass::SubnAdm, .class_version = wire::kSaClassVersion},
        nullptr);
    sa.state_changed(wire::SmState::Master, network.now);
  }

  /// Stores reports and answers them.
  class ReportLog final : public mad::MadHandler {
   public:
    const mad::MadMessage* handle(mad::MadRequest& request) override {
      notices.push_back(*wire::parse<wire::SaNotice>(ByteSpan{request.message.mad}.subspan(56)));
      return is_silent ? nullptr : &request.message;
    }
    std::vector<wire::SaNotice> notices;
    bool is_silent{};
  };

  [[nodiscard]] Reported ask(Lid from, wire::MadMethod method, wire::SaAttribute attribute,
                             ByteSpan record = {}, std::uint64_t mask = 0, std::uint64_t sm_key = 0,
                             std::uint32_t modifier = 0) {
    mad::MadMessage request;
    wire::SaHeader header{.sm_key = sm_key, .component_mask = mask};
    header.header.method = method;
    header.header.attribute_id = static_cast<std::uint16_t>(attribute);
    header.header.attribute_modifier = modifier;
    wire::pack(header, std::span{request.mad}.first<56>());
    if (record.size() > wire::kSaDataBytes) {
      request.is_rmpp = true;
      request.data.assign(record.begin(), record.end());
    } else {
      copy_bytes(std::span{request.mad}.subspan(56), record);
    }
    mad::Listener listener;
    mad::ManagementInterface& client = from == kH1 ? server : clients.at(from);
    mad::require(client
                     .send(agents.at(from), {.lid = kH1}, std::move(request),
                           {.timeout = Duration::milliseconds(50), .retries = 0},
                           listener.handler(), network.now)
                     .has_value());
    network.run(network.now + Duration::milliseconds(200));
    if (listener.reported.empty() ||
        listener.reported[0].status != mad::TransactionStatus::Answered) {
      return {};
    }
    const mad::MadMessage& answer = listener.reported[0].answer;
    Reported reported{.is_answered = true, .status = answer.status()};
    reported.header = wire::unpack<wire::SaHeader>(std::span{answer.mad}.first<56>());
    reported.data = answer.is_rmpp
                        ? answer.data
                        : std::vector<std::byte>(answer.mad.begin() + 56, answer.mad.end());
    return reported;
  }

  template <wire::WireType T>
  [[nodiscard]] Reported get(Lid from, wire::SaAttribute attribute, const T& wanted,
                             std::uint64_t mask, std::uint64_t sm_key = 0) {
    return ask(from, wire::MadMethod::Get, attribute, wire::pack(wanted), mask, sm_key);
  }
  template <wire::WireType T>
  [[nodiscard]] Reported table(Lid from, wire::SaAttribute attribute, const T& wanted = {},
                               std::uint64_t mask = 0, std::uint64_t sm_key = 0) {
    return ask(from, wire::MadMethod::GetTable, attribute, wire::pack(wanted), mask, sm_key);
  }
  template <wire::WireType T>
  [[nodiscard]] Reported set(Lid from, wire::SaAttribute attribute, const T& wanted,
                             std::uint64_t mask = 0, std::uint64_t sm_key = 0) {
    return ask(from, wire::MadMethod::Set, attribute, wire::pack(wanted), mask, sm_key);
  }
  template <wire::WireType T>
  [[nodiscard]] Reported remove(Lid from, wire::SaAttribute attribute, const T& wanted,
                                std::uint64_t mask, std::uint64_t sm_key = 0) {
    return ask(from, wire::MadMethod::Delete, attribute, wire::pack(wanted), mask, sm_key);
  }

  void pass(Duration span) {
    network.run(network.now + span);
    sa.handle_timeout(network.now);
  }
  [[nodiscard]] Gid gid(PortId port) const { return control.model.gid_of(port); }

  TestControl control;
  mad::TestNetwork network;
  std::map<Lid, ReportLog> reports;  // these outlive the interfaces
  mad::ManagementInterface server;
  std::map<Lid, mad::ManagementInterface> clients;
  std::map<Lid, mad::AgentId> agents;
  SubnetAdministration sa;
};

}  // namespace weft::subnet
