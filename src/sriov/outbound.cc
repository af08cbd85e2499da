// What functions send: checks, translation, and what the physical function does in their place.

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "mad/mad_message.h"
#include "sriov/group_record.h"
#include "sriov/multiplexer.h"
#include "wire/mad/component_mask.h"

namespace weft::sriov {
namespace {

using wire::MadMethod;
using wire::ManagementClass;
using wire::SaAttribute;

[[nodiscard]] wire::MadHeader header_of(const MadBytes& mad) {
  return wire::unpack<wire::MadHeader>(std::span{mad}.first<wire::kSizeOf<wire::MadHeader>>());
}

/// Requests, whose transaction IDs must differ: an answer comes with the same one.
constexpr std::array kRequests{MadMethod::Get,          MadMethod::Set,      MadMethod::Report,
                               MadMethod::GetTable,     MadMethod::GetMulti, MadMethod::Delete,
                               MadMethod::GetTraceTable};

[[nodiscard]] bool is_request(MadMethod method) {
  return std::ranges::find(kRequests, method) != kRequests.end();
}

/// A Set or Delete at SA that does not change what is the physical function's or another one's.
struct SaChange {
  MadMethod method;
  SaAttribute attribute;
};
constexpr auto kSaChanges = std::to_array<SaChange>({
    {MadMethod::Set,    SaAttribute::McMemberRecord},
    {MadMethod::Delete, SaAttribute::McMemberRecord},
    {MadMethod::Set,    SaAttribute::ServiceRecord },
    {MadMethod::Delete, SaAttribute::ServiceRecord },
    {MadMethod::Set,    SaAttribute::InformInfo    },
});

[[nodiscard]] bool may_ask_sa(const wire::MadHeader& header) {
  switch (header.method) {
    case MadMethod::Get:
    case MadMethod::GetTable:
    case MadMethod::GetMulti:
    case MadMethod::GetTraceTable:
    case MadMethod::ReportResp:
      return true;
    case MadMethod::Set:
    case MadMethod::Delete:
      return std::ranges::any_of(kSaChanges, [&](const SaChange& change) {
        return change.method == header.method &&
               static_cast<std::uint16_t>(change.attribute) == header.attribute_id;
      });
    default:
      return false;  // a function is no SA
  }
}

[[nodiscard]] bool is_membership(const wire::MadHeader& header) {
  return is_member_record(header) &&
         (header.method == MadMethod::Set || header.method == MadMethod::Delete);
}

}  // namespace

Decision Multiplexer::handle_outbound(FunctionId function, SpecialQp qp, const Tunnel::Send& sent,
                                      Instant now) {
  const auto send = wire::unpack<wire::TunnelSend>(sent.buffer);
  Decision decision{.function = function, .is_outbound = true, .before = header_of(send.mad)};
  Function& state = functions_.at(function);
  const auto checked = check_send(function, state, qp, sent.source_qp, send, now);
  if (!checked) {
    decision.reason = checked.error();
  } else if (qp == SpecialQp::Smi) {
    OutboundMad mad{.qp = qp, .function = function};
    mad.to.lid = send.header.address.dlid;
    mad.to.qp = kQp0;
    mad.to.qkey = QKey{0};
    mad.bytes = send.mad;
    to_wire_.push_back(mad);
    decision.after = decision.before;
    decision.reason = Reason::Translated;
  } else {
    const auto translated = translate(function, send, now);
    decision.reason = translated ? *translated : translated.error();
    if (decision.reason == Reason::Translated) {
      decision.after = header_of(to_wire_.back().bytes);
    }
  }
  counters_.count(function, decision.reason);
  decisions_.add(decision, now);
  settle(now);
  return decision;
}

OrReason<void> Multiplexer::check_send(FunctionId function, Function& state, SpecialQp qp,
                                       Qpn source_qp, const wire::TunnelSend& send, Instant now) {
  if (source_qp != numbers_.proxy(function, qp)) {
    return std::unexpected(Reason::ForeignProxyQp);
  }
  if (!state.pacer.may_pass(now)) {
    return std::unexpected(Reason::RateExceeded);
  }
  state.pacer.pass(now);
  if (function == kPhysicalFunction) {
    return {};
  }
  if (qp == SpecialQp::Smi) {
    return std::unexpected(Reason::VirtualQp0);
  }
  if (send.header.remote_qpn == kQp0) {
    return std::unexpected(Reason::DestinationQp0);
  }
  return check_class(function, state, header_of(send.mad));
}

OrReason<void> Multiplexer::check_class(FunctionId /*function*/, const Function& state,
                                        const wire::MadHeader& header) const {
  const bool is_get_or_set = header.method == MadMethod::Get || header.method == MadMethod::Set;
  bool is_allowed = true;
  switch (header.mgmt_class) {
    case ManagementClass::ComMgt:
      break;
    case ManagementClass::SubnAdm:
      is_allowed = may_ask_sa(header);
      break;
    case ManagementClass::DevMgt:
      is_allowed = is_get_or_set ||
                   (state.options.serves_device_management && header.method == MadMethod::GetResp);
      break;
    default:
      return std::unexpected(Reason::ClassNotAllowed);
  }
  return is_allowed ? OrReason<void>{} : std::unexpected(Reason::MethodNotAllowed);
}

OrReason<Reason> Multiplexer::translate(FunctionId function, const wire::TunnelSend& send,
                                        Instant now) {
  const wire::TunnelAddressVector& address = send.header.address;
  const auto pkey_index = pkeys_.to_physical(function, send.header.pkey_index);
  if (!pkey_index) {
    return std::unexpected(Reason::InvalidPKeyIndex);
  }
  if (address.is_global && (address.gid_index != 0 || !gids_.gid_of(function))) {
    return std::unexpected(Reason::ForeignSourceGid);
  }
  wire::MadHeader header = header_of(send.mad);
  if (header.mgmt_class == ManagementClass::SubnAdm &&
      !tables_.handle_outbound(function, send.mad, now)) {
    answer_busy(function, send);
    return Reason::TooManyTables;
  }
  OutboundMad mad{.function = function,
                  .source_gid_index = function.value(),
                  .pkey_index = *pkey_index,
                  .bytes = send.mad};
  if (is_request(header.method)) {
    const auto mapped = transactions_.map(function, header.transaction_id, now);
    if (!mapped) {
      return std::unexpected(mapped.error());
    }
    header.transaction_id = *mapped;
  }
  if (is_membership(header)) {
    return take_membership(function, send.mad, now);
  }
  wire::pack(header, std::span{mad.bytes}.first<wire::kSizeOf<wire::MadHeader>>());
  if (header.mgmt_class == ManagementClass::ComMgt) {
    const auto translated = cm_.translate_outbound(function, mad.bytes, now);
    if (!translated) {
      return std::unexpected(translated.error());
    }
  }
  mad.to = {.lid = address.dlid,
            .sl = address.sl,
            .qp = send.header.remote_qpn,
            .qkey = send.header.qkey,
            .path_bits = address.source_path_bits};
  if (address.is_global) {
    mad.to.global = mad::GlobalRoute{.dgid = address.dgid,
                                     .flow_label = address.flow_label,
                                     .hop_limit = address.hop_limit,
                                     .traffic_class = address.traffic_class};
  }
  to_wire_.push_back(mad);
  return Reason::Translated;
}

/// In SA's place, which would say the same (IBTA vol 1 §13.4.7): who asks may ask again.
void Multiplexer::answer_busy(FunctionId function, const wire::TunnelSend& send) {
  wire::MadHeader header = header_of(send.mad);
  header.method =
      static_cast<MadMethod>(static_cast<std::uint8_t>(header.method) | wire::kMethodResponseBit);
  header.status = wire::kMadStatusBusy;
  InboundMad mad{.slid = send.header.address.dlid, .bytes = send.mad};
  const std::vector<PKey> own = pkeys_.table_of(function);
  if (send.header.pkey_index < own.size()) {
    mad.pkey = own[send.header.pkey_index];
  }
  mad::set_rmpp(mad.bytes, {});
  wire::pack(header, std::span{mad.bytes}.first<wire::kSizeOf<wire::MadHeader>>());
  static_cast<void>(deliver(function, mad, mad.bytes));
}

OrReason<Reason> Multiplexer::take_membership(FunctionId function, const MadBytes& bytes,
                                              Instant now) {
  const auto request = wire::unpack<wire::SaMad>(bytes);
  const wire::McMemberRecord record = record_of(request);
  constexpr std::uint64_t kPKey = wire::kComponent<wire::McMemberRecord, "P_Key">;
  const bool names_partition = (request.sa.component_mask & kPKey) != 0;
  return groups_.handle_request(
      {.function = function,
       .gid = gids_.gid_of(function).value_or(Gid{}),
       .has_partition = !names_partition || pkeys_.has_partition(function, record.pkey)},
      request, now);
}

}  // namespace weft::sriov
