// FabricAgents as the SMA of each node: checks and dispatches what arrives (IBTA vol 1 §14.2,
// §14.3).

#include <algorithm>

#include "agents/fabric_agents.h"
#include "mad/mad_message.h"
#include "wire/mad/notice_details.h"

namespace weft::agents {

using fabric::PortIndex;
using wire::MadHeader;
using wire::MadMethod;
using wire::SmpAttribute;

namespace {

constexpr std::size_t kHeaderBytes = wire::kSizeOf<MadHeader>;
constexpr std::uint16_t kDirectionBit = 0x8000;  // in the status of a directed-route SMP
constexpr std::uint8_t kSmpClassVersion = 1;

[[nodiscard]] bool is_directed(const MadHeader& header) {
  return header.mgmt_class == wire::ManagementClass::SubnDirectedRoute;
}

[[nodiscard]] wire::SmpRoute route_of(const mad::MadBytes& mad) {
  return wire::unpack<wire::SmpRoute>(
      std::span{mad}.subspan<wire::kSmpRouteAt, wire::kSizeOf<wire::SmpRoute>>());
}

/// Overwrites the request's header with that of the response: method, status and direction.
void make_answer(mad::MadBytes& mad, MadHeader header, std::uint16_t status) {
  header.method = MadMethod::GetResp;
  header.status = is_directed(header) ? static_cast<std::uint16_t>(status | kDirectionBit) : status;
  wire::pack(header, std::span{mad}.first<kHeaderBytes>());
}

}  // namespace

// Adding an attribute is adding a row.
constexpr std::array<FabricAgents::Attribute, 13> FabricAgents::kAttributes = {
    {
     {SmpAttribute::NodeDescription, false, &FabricAgents::get_node_description,
         &FabricAgents::set_node_description_attribute},
     {SmpAttribute::NodeInfo, false, &FabricAgents::get_node_info, nullptr},
     {SmpAttribute::SwitchInfo, true, &FabricAgents::get_switch_info,
         &FabricAgents::set_switch_info},
     {SmpAttribute::GuidInfo, false, &FabricAgents::get_guid_info, &FabricAgents::set_guid_info},
     {SmpAttribute::PortInfo, false, &FabricAgents::get_port_info, &FabricAgents::set_port_info},
     {SmpAttribute::PKeyTable, false, &FabricAgents::get_pkey_table,
         &FabricAgents::set_pkey_table},
     {SmpAttribute::SlToVlMappingTable, false, &FabricAgents::get_sl_to_vl,
         &FabricAgents::set_sl_to_vl},
     {SmpAttribute::VlArbitrationTable, false, &FabricAgents::get_vl_arbitration,
         &FabricAgents::set_vl_arbitration},
     {SmpAttribute::LinearForwardingTable, true, &FabricAgents::get_linear_forwarding,
         &FabricAgents::set_linear_forwarding},
     {SmpAttribute::MulticastForwardingTable, true, &FabricAgents::get_multicast_forwarding,
         &FabricAgents::set_multicast_forwarding},
     {SmpAttribute::VendorDiag, false, &FabricAgents::get_vendor_diag, nullptr},
     {SmpAttribute::LedInfo, false, &FabricAgents::get_led_info, &FabricAgents::set_led_info},
     {SmpAttribute::PortInfoExtended, false, &FabricAgents::get_port_info_extended, nullptr},
     }
};

Outcome FabricAgents::handle_smp(PortIndex at, mad::MadBytes& mad, Instant now) {
  const auto header = wire::unpack<MadHeader>(std::span{mad}.first<kHeaderBytes>());
  const bool is_set = header.method == MadMethod::Set;
  const bool is_repress = header.method == MadMethod::TrapRepress;
  const PortIndex own = management_port(at);
  const bool is_request = is_set || is_repress || header.method == MadMethod::Get;
  const bool is_of_sm = header.attribute_id == static_cast<std::uint16_t>(SmpAttribute::SmInfo);
  if (is_of_sm && agent(own).capabilities.has(wire::PortCapability::IsSm)) {
    return Outcome::NotHandled;
  }
  if (!is_request) {
    // Responses, traps and the like are for other recipients at this node; unknown methods are
    // answered with an error.
    const bool is_unknown = !wire::is_response(header.method) &&
                            mad::response_method(header.method) &&
                            wire::name_of(header.method).empty();
    if (!is_unknown) {
      return Outcome::NotHandled;
    }
    make_answer(mad, header, wire::kMadStatusMethodUnsupported);
    ++counters_.refused;
    return Outcome::Answered;
  }
  Request request{.at = at,
                  .own = own,
                  .mkey = route_of(mad).mkey,
                  .modifier = header.attribute_modifier,
                  .is_set = is_set,
                  .now = now,
                  .data = std::span{mad}.subspan<wire::kSmpDataAt, wire::kSmpDataBytes>()};
  if (!admits(request, mad, header)) {
    ++counters_.bad_mkeys;
    return Outcome::Discarded;
  }
  if (is_repress) {
    static_cast<void>(traps_.repress(own, header.transaction_id));
    return Outcome::Consumed;
  }
  const std::uint16_t status = serve(request, header);
  make_answer(mad, header, status);
  ++(status == 0 ? counters_.answered : counters_.refused);
  return Outcome::Answered;
}

std::uint16_t FabricAgents::serve(Request& request, const MadHeader& header) {
  if (header.base_version != wire::kMadBaseVersion || header.class_version != kSmpClassVersion) {
    return wire::kMadStatusBadVersion;
  }
  const auto* const row = std::ranges::find(
      kAttributes, static_cast<SmpAttribute>(header.attribute_id), &Attribute::id);
  if (row == kAttributes.end() ||
      (row->is_of_switches && !tables_.port(request.own).is_switch_port())) {
    return wire::kMadStatusMethodAttributeUnsupported;
  }
  if (request.is_set && tables_.port(request.own).is_omni_path()) {
    return wire::kMadStatusMethodAttributeUnsupported;  // it has a manager of its own
  }
  const Handler handler = request.is_set ? row->set : row->get;
  return handler == nullptr ? wire::kMadStatusMethodAttributeUnsupported
                            : (this->*handler)(request);
}

/// True if the M_Key check admits the request (IBTA vol 1 §14.2.4). A request without the key
/// starts the lease, at whose expiry the key loses its protection; one with the key ends the lease.
bool FabricAgents::admits(const Request& request, const mad::MadBytes& mad,
                          const MadHeader& header) {
  PortAgent& port = agent(request.own);
  if (port.lease_ends <= request.now) {
    port.lease_ends = Instant::never();
    port.mkey_protect_bits = 0;
  }
  if (port.mkey == 0 || port.mkey == request.mkey) {
    port.lease_ends = Instant::never();
    return true;
  }
  constexpr std::uint8_t kReadsNeedTheKey = 2;
  if (header.method == MadMethod::Get && port.mkey_protect_bits < kReadsNeedTheKey) {
    return true;
  }
  if (port.mkey_violations != 0xFFFF) {
    ++port.mkey_violations;
  }
  if (port.lease_ends == Instant::never() && port.mkey_lease_period != 0) {
    port.lease_ends = request.now + Duration::seconds(port.mkey_lease_period);
  }
  report_bad_mkey(request, mad, header);
  return false;
}

void FabricAgents::report_bad_mkey(const Request& request, const mad::MadBytes& mad,
                                   const MadHeader& header) {
  wire::BadMKeyNoticeDetails details{.lid = tables_.port(request.own).lid,
                                     .method = static_cast<std::uint8_t>(header.method),
                                     .attribute_id = header.attribute_id,
                                     .attribute_modifier = header.attribute_modifier,
                                     .mkey = request.mkey,
                                     .is_directed = is_directed(header)};
  if (details.is_directed) {
    const std::size_t hops = std::to_integer<std::size_t>(mad[7]);  // HopCount
    const std::size_t kept = std::min(hops, details.return_path.size());
    details.dr_slid = route_of(mad).dr_slid;
    details.path_is_truncated = kept != hops;
    details.hop_count = static_cast<std::uint8_t>(kept);
    std::copy_n(mad.begin() + wire::kSmpReturnPathAt + 1, kept, details.return_path.begin());
  }
  raise(request.own, wire::NoticeType::Security, wire::Trap::BadMKey, wire::pack(details),
        request.now);
}

/// Raises a trap, unless the port has no subnet manager or is an HCA port that is not Active.
void FabricAgents::raise(PortIndex port, wire::NoticeType type, wire::Trap trap,
                         std::span<const std::byte, wire::kNoticeDetailsBytes> details,
                         Instant now) {
  const fabric::PortRecord& record = tables_.port(port);
  if (record.sm_lid == Lid{} || record.lid == Lid{} || record.state != fabric::PortState::Active) {
    return;
  }
  wire::Notice notice{
      .type = type,
      .producer_type = static_cast<std::uint32_t>(
          record.is_switch_port() ? wire::NodeType::Switch : wire::NodeType::ChannelAdapter),
      .trap_number = static_cast<std::uint16_t>(trap),
      .issuer_lid = record.lid};
  std::ranges::copy(details, notice.details.begin());
  const Duration interval = scale_.apply(TimeoutExponent{agent(port).subnet_timeout}.duration());
  traps_.raise(port, notice, interval, now);
}

namespace {

/// Counters of PortInfo saturate (IBTA vol 1 §14.2.5.6).
void count_violations(std::uint16_t& violations, std::uint32_t more) {
  constexpr std::uint32_t kMost = 0xFFFF;
  violations = static_cast<std::uint16_t>(violations + std::min(more, kMost - violations));
}

}  // namespace

void FabricAgents::note_bad_pkeys(PortIndex port, const BadKey& bad, std::uint32_t count,
                                  Instant now) {
  count_violations(agent(port).pkey_violations, count);
  tell_bad_key(port, wire::Trap::BadPKey, bad, now);
}

void FabricAgents::note_bad_qkeys(PortIndex port, const BadKey& bad, std::uint32_t count,
                                  Instant now) {
  count_violations(agent(port).qkey_violations, count);
  tell_bad_key(port, wire::Trap::BadQKey, bad, now);
}

void FabricAgents::tell_bad_key(PortIndex port, wire::Trap trap, const BadKey& bad, Instant now) {
  raise(port, wire::NoticeType::Security, trap,
        wire::pack(wire::BadKeyNoticeDetails{.lid1 = bad.source,
                                             .lid2 = bad.destination,
                                             .key = bad.key,
                                             .sl = bad.sl,
                                             .qp1 = bad.source_qp,
                                             .qp2 = bad.destination_qp,
                                             .gid1 = bad.source_gid,
                                             .gid2 = tables_.gids(port).front()}),
        now);
}

}  // namespace weft::agents
