#include "subnet/sa/administration.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "subnet/sa/node_records.h"
#include "subnet/sa/path_records.h"
#include "subnet/sa/table_records.h"
#include "wire/mad/class_port_info.h"

namespace weft::subnet {

using wire::MadMethod;
using wire::SaAttribute;

/// An attribute and its methods (IBTA vol 1 Table 194).
struct SubnetAdministration::Row {
  SaAttribute attribute{};
  void (*records)(const SaQuery&, SaAnswer&){};  // Get and GetTable that need no registrations
  Method get{};
  Method set{};
  Method remove{};
  void (*trace)(const SaQuery&, SaAnswer&){};
  void (*multi)(const SaQuery&, SaAnswer&){};
  bool is_table{true};  // supports GetTable
};

const SubnetAdministration::Row* SubnetAdministration::row_for(std::uint16_t attribute) {
  using Self = SubnetAdministration;
  static constexpr auto kRows = std::to_array<Row>({
      {.attribute = SaAttribute::ClassPortInfo,
       .get = &Self::get_class_port_info,
       .is_table = false},
      {.attribute = SaAttribute::InformInfo, .set = &Self::set_inform_info, .is_table = false},
      {.attribute = SaAttribute::NodeRecord, .records = answer_node_records},
      {.attribute = SaAttribute::PortInfoRecord, .records = answer_port_info_records},
      {.attribute = SaAttribute::SlToVlMappingTableRecord, .records = answer_sl_to_vl_records},
      {.attribute = SaAttribute::SwitchInfoRecord, .records = answer_switch_info_records},
      {.attribute = SaAttribute::LinearForwardingTableRecord,
       .records = answer_linear_forwarding_records},
      {.attribute = SaAttribute::MulticastForwardingTableRecord,
       .records = answer_multicast_forwarding_records},
      {.attribute = SaAttribute::SmInfoRecord, .records = answer_sm_info_records},
      {.attribute = SaAttribute::LinkRecord, .records = answer_link_records},
      {.attribute = SaAttribute::GuidInfoRecord,
       .records = answer_guid_info_records,
       .set = &Self::change_guids,
       .remove = &Self::change_guids},
      {.attribute = SaAttribute::ServiceRecord,
       .get = &Self::get_service_records,
       .set = &Self::set_service_record,
       .remove = &Self::delete_service_record},
      {.attribute = SaAttribute::PKeyTableRecord, .records = answer_pkey_table_records},
      {.attribute = SaAttribute::PathRecord,
       .get = &Self::get_path_records,
       .trace = answer_trace_records},
      {.attribute = SaAttribute::VlArbitrationTableRecord,
       .records = answer_vl_arbitration_records},
      {.attribute = SaAttribute::McMemberRecord,
       .get = &Self::get_member_records,
       .set = &Self::join_group,
       .remove = &Self::leave_group},
      {.attribute = SaAttribute::TraceRecord, .trace = answer_trace_records},
      {.attribute = SaAttribute::MultiPathRecord, .multi = answer_multi_path_records},
      {.attribute = SaAttribute::InformInfoRecord, .get = &Self::get_inform_info_records},
  });
  const auto found = std::ranges::find(kRows, static_cast<SaAttribute>(attribute), &Row::attribute);
  return found == kRows.end() ? nullptr : &*found;
}

SubnetAdministration::SubnetAdministration(SubnetControl& control, mad::ManagementInterface& gsi,
                                           const SaOptions& options)
    : control_(control),
      gsi_(gsi),
      options_(options),
      groups_(options.groups),
      services_(options.services),
      subscriptions_(options.subscriptions),
      budget_(options.budget) {}

SubnetAdministration::~SubnetAdministration() {
  if (is_started_) {
    (void)gsi_.unregister_agent(agent_, Instant{});
  }
}

Result<void> SubnetAdministration::start() {
  auto agent = gsi_.register_agent(
      {.mgmt_class = wire::ManagementClass::SubnAdm,
       .class_version = wire::kSaClassVersion,
       .methods = mad::methods({MadMethod::Get, MadMethod::Set, MadMethod::GetTable,
                                MadMethod::GetTraceTable, MadMethod::GetMulti, MadMethod::Delete}),
       .name = "subnet administration"},
      this);
  if (!agent) {
    return std::unexpected(std::move(agent.error()));
  }
  agent_ = *agent;
  is_started_ = true;
  return {};
}

const mad::MadMessage* SubnetAdministration::handle(mad::MadRequest& request) {
  ++counters_.requests;
  if (control_.state() != wire::SmState::Master) {
    return nullptr;  // only the master's SA answers
  }
  constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SaHeader>;
  const auto header =
      wire::unpack<wire::SaHeader>(std::span{request.message.mad}.first<kHeaderBytes>());
  const bool is_trusted = header.sm_key != 0 && header.sm_key == control_.sm_key();
  if (header.sm_key != 0 && !is_trusted) {
    ++counters_.wrong_sm_key;
    return nullptr;
  }
  const auto requester = control_.subnet().find_lid(request.source.lid);
  if (!requester) {
    ++counters_.unknown_requester;
    return nullptr;
  }
  directory_.refresh(control_.subnet());
  groups_.set_mlid_limit(
      std::min<std::size_t>(options_.groups.mlids, control_.multicast_capacity()));
  const SaQuery query{.control = control_,
                      .directory = directory_,
                      .header = header,
                      .data = request.message.is_rmpp
                                  ? ByteSpan{request.message.data}
                                  : ByteSpan{request.message.mad}.subspan(kHeaderBytes),
                      .source = request.source,
                      .requester = *requester,
                      .is_trusted = is_trusted,
                      .now = request.now};
  const MadMethod method = query.method();
  const bool is_list =
      method != MadMethod::Get && method != MadMethod::Set && method != MadMethod::Delete;
  SaAnswer records{is_list ? options_.answer_bytes : 1, options_.answer_bytes};
  const Guid requesting_port = guid_of(*requester);
  if (!budget_.has_budget(requesting_port, request.now)) {
    ++counters_.over_budget;
    records.refuse(wire::kMadStatusBusy);
    return respond(request.message, query, records);
  }
  const std::uint64_t reports = counters_.reports;
  answer(query, records);
  if (!is_list && records.count() == 0 && !records.is_over()) {
    records.refuse(wire::SaStatus::NoRecords);
  }
  records.charge(write_trees(request.now) + static_cast<std::size_t>(counters_.reports - reports));
  budget_.charge(requesting_port, records.cost(), request.now);
  return respond(request.message, query, records);
}

void SubnetAdministration::answer(const SaQuery& query, SaAnswer& answer) {
  const Row* const row = row_for(query.header.header.attribute_id);
  const MadMethod method = query.method();
  const bool is_get = method == MadMethod::Get;
  const bool is_read =
      row != nullptr && (is_get || (method == MadMethod::GetTable && row->is_table));
  if (is_read && row->records != nullptr) {
    return row->records(query, answer);
  }
  if (is_read && row->get != nullptr) {
    return (this->*row->get)(query, answer);
  }
  if (row != nullptr && method == MadMethod::Set && row->set != nullptr) {
    return (this->*row->set)(query, answer);
  }
  if (row != nullptr && method == MadMethod::Delete && row->remove != nullptr) {
    return (this->*row->remove)(query, answer);
  }
  if (row != nullptr && method == MadMethod::GetTraceTable && row->trace != nullptr) {
    return row->trace(query, answer);
  }
  if (row != nullptr && method == MadMethod::GetMulti && row->multi != nullptr) {
    return row->multi(query, answer);
  }
  answer.refuse(wire::kMadStatusMethodAttributeUnsupported);
}

/// Builds the response: the request's headers with the records, or with the request's own data in
/// case of an error (§15.2.2).
const mad::MadMessage* SubnetAdministration::respond(const mad::MadMessage& request,
                                                     const SaQuery& query, const SaAnswer& answer) {
  constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SaHeader>;
  wire::SaHeader header = query.header;
  header.header.status = answer.status();
  header.rmpp = {};
  header.sm_key = 0;  // C15-0.1.5
  header.attribute_offset = answer.is_over() ? std::uint16_t{} : answer.attribute_offset();
  if (query.method() == MadMethod::GetMulti) {  // o15-0.2.7
    header.header.attribute_id = static_cast<std::uint16_t>(SaAttribute::PathRecord);
  }
  if (query.method() == MadMethod::GetTraceTable) {
    header.header.attribute_id = static_cast<std::uint16_t>(SaAttribute::TraceRecord);
  }
  response_.mad = request.mad;
  response_.data.clear();
  response_.is_rmpp = false;
  wire::pack(header, std::span{response_.mad}.first<kHeaderBytes>());
  if (answer.is_over()) {
    ++counters_.refused;
    return &response_;
  }
  const MutableByteSpan data = std::span{response_.mad}.subspan(kHeaderBytes);
  std::ranges::fill(data, std::byte{});
  const bool is_single = query.method() == MadMethod::Get || query.method() == MadMethod::Set ||
                         query.method() == MadMethod::Delete;
  if (is_single) {
    copy_bytes(data, answer.bytes());
  } else {
    response_.is_rmpp = true;
    response_.data = answer.bytes();
  }
  return &response_;
}

void SubnetAdministration::get_class_port_info(const SaQuery&, SaAnswer& answer) {
  // IBTA vol 1 §15.2.5.1: optional features that are implemented.
  constexpr std::uint16_t kOptionalRecords = 1U << 8;
  constexpr std::uint16_t kUdMulticast = 1U << 9;
  constexpr std::uint16_t kMultiPath = 1U << 10;
  constexpr std::uint16_t kPortInfoCapabilityMatch = 1U << 13;
  constexpr std::uint32_t kAliasGuids = 1U << 5;
  constexpr std::uint32_t kFullPortInfo = 1U << 6;
  constexpr std::uint32_t kExtendedSpeeds = 1U << 7;
  constexpr std::uint32_t kPortInfoCapability2Match = 1U << 10;
  constexpr std::uint32_t kSendOnlyFullMember = 1U << 12;
  constexpr std::uint8_t kResponseTime = 18;  // exponent, about 1 s; policy
  answer.add(wire::ClassPortInfo{
      .class_version = wire::kSaClassVersion,
      .capability_mask = kOptionalRecords | kUdMulticast | kMultiPath | kPortInfoCapabilityMatch,
      .capability_mask2 = kAliasGuids | kFullPortInfo | kExtendedSpeeds |
                          kPortInfoCapability2Match | kSendOnlyFullMember,
      .resp_time_value = kResponseTime,
      .redirect_qp = kQp1,
      .redirect_qkey = kGsiQKey,
      .trap_qkey = kGsiQKey});
}

void SubnetAdministration::get_path_records(const SaQuery& query, SaAnswer& answer) {
  answer_path_records(query, groups_, answer);
}

void SubnetAdministration::subnet_changed(const Change& change, Instant now) {
  directory_.refresh(control_.subnet());
  for (const Gid& gid : change.disappeared) {
    subscriptions_.remove_port(gid.interface_id());
    budget_.forget(gid.interface_id());
    for (const Gid& mgid : groups_.remove_port(gid.interface_id())) {
      report_gid(wire::Trap::MulticastGroupDeleted, mgid, now);
    }
  }
  if (control_.state() == wire::SmState::Master) {
    make_broadcast_group();
    join_broadcast_group();
  }
  groups_.mark_all_changed();  // the ports may have new PortIds
  for (const auto& [mlid, members] : trees_) {
    groups_.mark_changed(mlid);  // MLIDs of groups that were deleted
  }
  write_trees(now);
  for (const Gid& gid : change.appeared) {
    report_gid(wire::Trap::GidInService, gid, now);
  }
  for (const Gid& gid : change.disappeared) {
    report_gid(wire::Trap::GidOutOfService, gid, now);
  }
}

/// Clients must reregister with the next master, which does not have these registrations.
void SubnetAdministration::state_changed(wire::SmState state, Instant now) {
  if (state != wire::SmState::Master) {
    return forget_registrations();
  }
  subnet_changed({}, now);
}

void SubnetAdministration::forget_registrations() {
  groups_ = SaGroups{options_.groups};
  services_ = Services{options_.services};
  subscriptions_ = Subscriptions{options_.subscriptions};
}

}  // namespace weft::subnet
