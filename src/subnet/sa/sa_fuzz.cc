// An SA with clients that send arbitrary requests, while their ports appear, disappear and change
// partitions. Checks limits, consistency of registrations, and that each response belongs to a
// request.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "mad/testing/script.h"
#include "subnet/testing/sa_lab.h"
#include "wire/mad/inform_info.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/path_record.h"
#include "wire/mad/service_record.h"

namespace weft::subnet {
namespace {

using mad::require;
using wire::MadMethod;
using wire::SaAttribute;

constexpr SaOptions kOptions{
    .groups = {.mlids = 5, .groups = 6, .memberships_per_requester = 3},
    .services = {.services = 5, .services_of_port = 3},
    .subscriptions = {.subscriptions = 5, .subscriptions_of_port = 3},
    .answer_bytes = 4096,
    .report_retries = 1
};
constexpr mad::Limits kMadLimits{
    .transactions = 8, .in_flight = 4, .served_exchanges = 4, .queued_mads = 64};
constexpr std::array kMethods = {MadMethod::Get,      MadMethod::Set,    MadMethod::GetTable,
                                 MadMethod::GetMulti, MadMethod::Delete, MadMethod::GetTraceTable};
constexpr std::array kAttributes = {SaAttribute::ClassPortInfo,
                                    SaAttribute::InformInfo,
                                    SaAttribute::NodeRecord,
                                    SaAttribute::PortInfoRecord,
                                    SaAttribute::SlToVlMappingTableRecord,
                                    SaAttribute::SwitchInfoRecord,
                                    SaAttribute::LinearForwardingTableRecord,
                                    SaAttribute::MulticastForwardingTableRecord,
                                    SaAttribute::SmInfoRecord,
                                    SaAttribute::LinkRecord,
                                    SaAttribute::GuidInfoRecord,
                                    SaAttribute::ServiceRecord,
                                    SaAttribute::PKeyTableRecord,
                                    SaAttribute::PathRecord,
                                    SaAttribute::VlArbitrationTableRecord,
                                    SaAttribute::McMemberRecord,
                                    SaAttribute::TraceRecord,
                                    SaAttribute::MultiPathRecord,
                                    SaAttribute::InformInfoRecord};

/// An SA with the network of its port.
struct Lab {
  explicit Lab(const LabSubnet& subnet)
      : h1(subnet.h1), h2(subnet.h2), h3(subnet.h3), h4(subnet.h4), s1(subnet.s1) {
    control.model = subnet.model;
    control.sm = h1;
    require(sa.start().has_value());
    sa.state_changed(wire::SmState::Master, Instant{});
  }
  [[nodiscard]] Gid gid(PortId port) const { return control.model.gid_of(port); }

  PortId h1, h2, h3, h4;
  NodeId s1;
  TestControl control;
  mad::ManagementInterface server{mad::InterfaceKind::Gsi, kMadLimits};
  SubnetAdministration sa{control, server, kOptions};
};

[[nodiscard]] const LabSubnet& lab_subnet() {
  static const LabSubnet subnet;
  return subnet;
}

class Game {
 public:
  explicit Game(mad::Script& script) : script_(script), lab_(lab_subnet()) {}

  void play() {
    constexpr unsigned kLook = 4;  // checking everything costs as much as a move
    for (unsigned moves = 1; !script_.is_over() && moves < 200; ++moves) {
      move();
      transmit();
      if (moves % kLook == 0) {
        check();
      }
    }
    check();
  }

 private:
  void move() {
    switch (script_.next() % 10) {
      case 0:
        now_ = now_ + Duration::milliseconds(script_.next() * 20);
        lab_.server.handle_timeout(now_);
        lab_.sa.handle_timeout(now_);
        return;
      case 1:
        return change_subnet();
      case 2:
        return lab_.sa.trap_received({.type = wire::NoticeType::Urgent,
                                      .producer_type = 2,
                                      .trap_number = script_.next(),
                                      .issuer_lid = Lid{script_.next() % 10U}},
                                     now_);
      case 3:
        lab_.control.sm_state =
            script_.next() % 8 == 0 ? wire::SmState::Standby : wire::SmState::Master;
        return lab_.sa.state_changed(lab_.control.sm_state, now_);
      default:
        return ask();
    }
  }

  void change_subnet() {
    Subnet& subnet = lab_.control.model;
    const std::array hosts = {lab_.h1, lab_.h2, lab_.h3, lab_.h4};
    const PortId host = hosts[script_.next() % hosts.size()];
    SubnetAdministration::Change change;
    switch (script_.next() % 4) {
      case 0:
        change.disappeared.push_back(lab_.gid(host));
        subnet.set_lids(host, Lid{}, 0);
        break;
      case 1:
        change.appeared.push_back(lab_.gid(host));
        subnet.set_lids(host, Lid{10U + host.node.value() * 4}, script_.next() % 3);
        break;
      case 2:
        subnet.port(host).pkeys[script_.next() % 4] =
            PKey{static_cast<std::uint16_t>(script_.next() << 15 | script_.next() % 3)};
        break;
      default:
        subnet.node(lab_.s1).forwarding[script_.next() % 9] = PortNumber{script_.next()};
        break;
    }
    ++subnet.generation;
    lab_.sa.subnet_changed(change, now_);
  }

  /// A mask with few low bits, or random.
  [[nodiscard]] std::uint64_t mask() {
    std::uint64_t mask = 0;
    for (unsigned i = 0; i < 3; ++i) {
      mask = mask << 8 | script_.next();
    }
    return script_.next() % 4 == 0 ? ~mask : mask;
  }

  void ask() {
    mad::MadBytes bytes{};
    wire::SaHeader header{.sm_key = script_.next() % 4 == 0 ? 1U : 0U};
    header.header.method = kMethods[script_.next() % kMethods.size()];
    header.header.attribute_id =
        static_cast<std::uint16_t>(kAttributes[script_.next() % kAttributes.size()]);
    header.header.transaction_id = script_.next();
    header.header.attribute_modifier = script_.next() % 4 == 0 ? ~0U : 0U;
    const MutableByteSpan data = std::span{bytes}.subspan(56);
    if (script_.next() % 2 == 0) {
      header.component_mask = mask();
      fill(data);
    } else {
      header.component_mask = fill_sensibly(header.header.attribute_id, data);
    }
    wire::pack(header, std::span{bytes}.first<56>());
    const Lid lids[] = {LabSubnet::kH1, LabSubnet::kH2, LabSubnet::kH3, LabSubnet::kH4,
                        Lid{10},        Lid{14},        Lid{18}};
    lab_.server.handle_mad({.lid = lids[script_.next() % std::size(lids)]}, bytes, now_);
  }

  [[nodiscard]] Gid any_host() {
    const std::array hosts = {lab_.h1, lab_.h2, lab_.h3, lab_.h4};
    return lab_.gid(hosts[script_.next() % hosts.size()]);
  }
  [[nodiscard]] PKey any_pkey() {
    return script_.next() % 2 == 0 ? kDefaultPKey : LabSubnet::kOtherPKey;
  }

  /// Fills in a valid record for attributes with many constraints, with one component added or
  /// removed; returns the mask.
  [[nodiscard]] std::uint64_t fill_sensibly(std::uint16_t attribute, MutableByteSpan data) {
    const std::uint64_t change = std::uint64_t{1} << script_.next() % 64;
    switch (static_cast<SaAttribute>(attribute)) {
      case SaAttribute::McMemberRecord: {
        using Record = wire::McMemberRecord;
        const std::uint8_t number = script_.next() % 4;
        const Record record{
            .mgid = number == 0 ? Gid{}
                  : Gid{0xFF12'0000'0000'0000, Guid{number}},
            .port_gid = any_host(),
            .mlid = Lid{0xC000U + script_.next() % 7},
            .pkey = any_pkey(),
            .join_state = Flags<wire::JoinState>::from_bits(script_.next() % 16)
        };
        copy_bytes(data, wire::pack(record));
        constexpr std::uint64_t kCreate = 0x1'30CF;  // without selectors
        return kCreate & (script_.next() % 4 == 0 ? change : ~change);
      }
      case SaAttribute::InformInfo: {
        const wire::InformInfo info{
            .lid_range_begin = kPermissiveLid,
            .is_generic = 1,
            .subscribe = static_cast<std::uint8_t>(script_.next() % 2),
            .type = 0xFFFF,
            .trap_number = static_cast<std::uint16_t>(script_.next() % 2 == 0 ? 0xFFFF : 66),
            .producer_type = 0xFF'FFFF};
        copy_bytes(data, wire::pack(info));
        return 0;
      }
      case SaAttribute::ServiceRecord: {
        const wire::ServiceRecord record{
            .service_id = script_.next() % 4U,
            .service_gid = any_host(),
            .service_pkey = any_pkey(),
            .service_lease = script_.next() % 8U,
            .service_key = {static_cast<std::byte>(script_.next() % 2)}};
        copy_bytes(data, wire::pack(record));
        return 0b11'0111 ^ change;
      }
      default:
        break;
    }
    const wire::PathRecord record{
        .dgid = script_.next() % 4 == 0 ? Gid{0xFF12'0000'0000'0000, Guid{1}}
                : any_host(),
        .sgid = any_host()
    };
    copy_bytes(data, wire::pack(record));
    return 0b1100 ^ change;
  }

  /// Bytes from the input, with existing GIDs in some places.
  void fill(MutableByteSpan data) {
    const std::array gids = {
        lab_.gid(lab_.h1),
        lab_.gid(lab_.h2),
        lab_.gid(lab_.h3),
        lab_.gid(lab_.h4),
        ipoib_broadcast_mgid(kDefaultPKey),
        Gid{0xFF12'0000'0000'0000, Guid{1}}
    };
    std::size_t at = 0;
    while (at < data.size()) {
      const std::uint8_t next = script_.next();
      if (next >= 0xF0 && at + Gid::kSize <= data.size()) {
        copy_bytes(data.subspan(at), gids[next % gids.size()].octets());
        at += Gid::kSize;
      } else if (next >= 0xE0) {
        at += next & 0xFU;
      } else {
        data[at++] = static_cast<std::byte>(next);
      }
      if (script_.is_over()) {
        return;
      }
    }
  }

  void transmit() {
    for (unsigned sent = 0; sent < 256; ++sent) {
      const auto packet = lab_.server.poll_transmit(now_);
      if (!packet) {
        break;
      }
      const auto header = wire::unpack<wire::MadHeader>(
          std::span{packet->bytes}.first<wire::kSizeOf<wire::MadHeader>>());
      require(header.method == MadMethod::Report || wire::is_response(header.method));
    }
  }

  void check() {
    lab_.server.check_invariants();
    const SaGroups& groups = lab_.sa.groups();
    require(groups.groups().size() <= kOptions.groups.groups);
    for (const auto& [mgid, group] : groups.groups()) {
      require(mgid == group.properties.mgid && mgid.is_multicast());
      require(group.properties.mlid.value() - kFirstMulticastLid.value() < kOptions.groups.mlids);
      require(group.properties.pkey.is_valid());
      bool has_full_member = group.is_permanent;
      for (const auto& [guid, member] : group.members) {
        require(!member.join_state.empty());
        has_full_member |= is_full(member.join_state);
      }
      require(has_full_member);
    }
    for (const PortId port : {lab_.h1, lab_.h2, lab_.h3, lab_.h4}) {
      const Guid guid = lab_.control.model.port(port).guid;
      require(groups.memberships_requested_by(guid) <= kOptions.groups.memberships_per_requester);
      require(lab_.sa.subscriptions().count_of(guid) <=
              kOptions.subscriptions.subscriptions_of_port);
    }
    require(!groups.has_changes());
    require(lab_.sa.services().all().size() <= kOptions.services.services);
    require(lab_.sa.subscriptions().all().size() <= kOptions.subscriptions.subscriptions);
  }

  mad::Script& script_;
  Lab lab_;
  Instant now_;
};

}  // namespace
}  // namespace weft::subnet

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::mad::Script script{
      std::span{data, size}
  };
  weft::subnet::Game{script}.play();
  return 0;
}
