#include "programs/vnic/announcement.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "wire/mad/component_mask.h"

namespace weft::programs::vnic {
namespace {

using wire::kComponent;
using wire::McMemberRecord;
using wire::ServiceRecord;

constexpr std::uint32_t kMostQpn = 0xFF'FFFF;
constexpr std::uint8_t kLowestRate = 2;  // 2.5 Gb/s, so that no port is too slow to join
constexpr std::uint64_t kGroupPrefix = 0xFF12'016B'0000'0000;  // a transient group of this link

[[nodiscard]] bool is_qpn(std::uint32_t number) { return number > 1 && number < kMostQpn; }

}  // namespace

bool is_host_name(std::string_view name) {
  return !name.empty() && name.size() < sizeof(ServiceRecord::service_name) &&
         std::ranges::all_of(
             name,
             [](char letter) {
               return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                      (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' ||
                      letter == '.';
             });
}

ServiceRecord to_record(const Announcement& port, PKey pkey) {
  ServiceRecord record{.service_id = kServiceId,
                       .service_gid = port.gid,
                       .service_pkey = pkey,
                       .service_lease = static_cast<std::uint32_t>(kLease.milliseconds() / 1'000)};
  std::ranges::copy(std::as_bytes(std::span{port.host}), record.service_name.begin());
  record.service_data32 = {port.lid.value(), port.mad_qp.value(), port.packet_qp.value(), 0};
  return record;
}

std::uint64_t registered_components() {
  constexpr std::uint64_t kAllData32 = 0b1111;
  return kComponent<ServiceRecord, "ServiceID"> | kComponent<ServiceRecord, "ServiceGID"> |
         kComponent<ServiceRecord, "ServiceP_Key"> | kComponent<ServiceRecord, "ServiceLease"> |
         kComponent<ServiceRecord, "ServiceName"> |
         kComponent<ServiceRecord, "ServiceData32"> * kAllData32;
}

std::optional<Announcement> from_record(const ServiceRecord& record) {
  const auto end = std::ranges::find(record.service_name, std::byte{});
  std::string host(static_cast<std::size_t>(end - record.service_name.begin()), '\0');
  std::memcpy(host.data(), record.service_name.data(), host.size());
  const auto& [lid, mad_qp, packet_qp, unused] = record.service_data32;
  if (record.service_id != kServiceId || !is_host_name(host) || !Lid{lid}.is_unicast() ||
      !is_qpn(mad_qp) || !is_qpn(packet_qp)) {
    return std::nullopt;
  }
  return Announcement{.host = std::move(host),
                      .gid = record.service_gid,
                      .lid = Lid{lid},
                      .mad_qp = Qpn{mad_qp},
                      .packet_qp = Qpn{packet_qp}};
}

Gid group_of(std::uint16_t fabric_id, std::uint16_t vesw_id) {
  return Gid{kGroupPrefix, Guid{std::uint64_t{fabric_id} << 16 | vesw_id}};
}

McMemberRecord group_record(const Gid& group, PKey pkey) {
  McMemberRecord record{.mgid = group, .qkey = kTunnelQKey, .pkey = pkey};
  record.join_state = wire::JoinState::FullMember;
  record.mtu_selector = wire::Selector::Exactly;
  record.mtu = static_cast<std::uint8_t>(verbs::Mtu::Mtu2048);
  record.rate_selector = wire::Selector::Exactly;
  record.rate = kLowestRate;
  return record;
}

std::uint64_t group_components() {
  return kComponent<McMemberRecord, "P_Key"> | kComponent<McMemberRecord, "Q_Key"> |
         kComponent<McMemberRecord, "TClass"> | kComponent<McMemberRecord, "SL"> |
         kComponent<McMemberRecord, "FlowLabel"> | kComponent<McMemberRecord, "MtuSelector"> |
         kComponent<McMemberRecord, "Mtu"> | kComponent<McMemberRecord, "RateSelector"> |
         kComponent<McMemberRecord, "Rate">;
}

}  // namespace weft::programs::vnic
