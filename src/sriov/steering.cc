// What the special QPs receive: whose it is, and how it looks to that function. Criteria are
// applied in mlx4's order: transaction ID of a response, destination GID of the GRH, what a
// message of the communication manager contains. Without any of them it is the physical
// function's.

#include <span>

#include "sriov/multiplexer.h"
#include "sriov/planted_bug.h"

namespace weft::sriov {
namespace {

using wire::MadMethod;
using wire::ManagementClass;

[[nodiscard]] wire::MadHeader header_of(const MadBytes& mad) {
  return wire::unpack<wire::MadHeader>(std::span{mad}.first<wire::kSizeOf<wire::MadHeader>>());
}

}  // namespace

Decision Multiplexer::handle_wire(const InboundMad& mad, Instant now) {
  Decision decision{.before = header_of(mad.bytes)};
  const auto count = [&](Reason reason) {
    decision.reason = reason;
    counters_.count(decision.function, reason);
    decisions_.add(decision, now);
    return decision;
  };
  if (mad.qp == SpecialQp::Gsi && take_own_answer(mad, now)) {
    settle(now);
    return count(Reason::AggregateAnswer);
  }
  MadBytes bytes = mad.bytes;
  const auto owner = steer(mad, bytes, now);
  if (!owner) {
    return count(owner.error());
  }
  decision.function = owner->function;
  decision.after = header_of(bytes);
  if (const auto allowed = check_inbound_class(owner->function, decision.after); !allowed) {
    return count(allowed.error());
  }
  if (decision.after.mgmt_class == ManagementClass::SubnAdm) {
    tables_.handle_inbound(owner->function, bytes, now);
  }
  const auto delivered = deliver(owner->function, mad, bytes);
  return count(delivered ? owner->reason : delivered.error());
}

/// An answer to a request that the physical function made in its own name.
bool Multiplexer::take_own_answer(const InboundMad& mad, Instant now) {
  const wire::MadHeader header = header_of(mad.bytes);
  const std::uint8_t tag = tag_of(header.transaction_id);
  if (!wire::is_response(header.method) || header.mgmt_class != ManagementClass::SubnAdm ||
      (tag != kMulticastTag && tag != kAliasGuidTag) || mad.slid != manager_lid_) {
    return false;
  }
  const auto answer = wire::unpack<wire::SaMad>(mad.bytes);
  return tag == kMulticastTag ? groups_.handle_answer(answer, now)
                              : alias_guids_.handle_answer(answer, now);
}

OrReason<Multiplexer::Owner> Multiplexer::steer(const InboundMad& mad, MadBytes& bytes,
                                                Instant now) {
  Owner owner{.function = kPhysicalFunction, .reason = Reason::DefaultOwner};
  if (mad.qp == SpecialQp::Smi) {
    return owner;
  }
  wire::MadHeader header = header_of(bytes);
  const bool is_response = wire::is_response(header.method);
  if (is_response) {
    const auto own = transactions_.restore(header.transaction_id, now);
    if (!own || !has_function(own->function)) {
      return std::unexpected(Reason::UnknownTransactionId);
    }
    owner = {.function = own->function, .reason = Reason::TransactionId};
    header.transaction_id = own->transaction_id;
    wire::pack(header, std::span{bytes}.first<wire::kSizeOf<wire::MadHeader>>());
  }
  if (mad.grh && !planted(PlantedBug::GidIgnored)) {
    const auto function = gids_.find(mad.grh->dgid);
    if (!function) {
      return std::unexpected(Reason::UnknownDestinationGid);
    }
    // mlx4 lets the GID win; but the other function may have used this transaction ID, too.
    if (is_response && *function != owner.function && !planted(PlantedBug::OwnersMayConflict)) {
      return std::unexpected(Reason::ConflictingOwners);
    }
    owner = {.function = *function, .reason = Reason::DestinationGid};
  }
  if (header.mgmt_class == ManagementClass::ComMgt) {
    const auto found = cm_.steer_inbound(bytes, mad.slid, mad.grh.has_value(), gids_, now);
    if (!found) {
      return std::unexpected(found.error());
    }
    if (*found) {
      owner = {.function = (*found)->function, .reason = (*found)->reason};
    }
  }
  return owner;
}

OrReason<void> Multiplexer::check_inbound_class(FunctionId function,
                                                const wire::MadHeader& header) const {
  const auto found = functions_.find(function);
  if (function == kPhysicalFunction || found == functions_.end()) {
    return {};
  }
  const bool is_get_or_set = header.method == MadMethod::Get || header.method == MadMethod::Set;
  bool is_allowed = false;
  switch (header.mgmt_class) {
    case ManagementClass::ComMgt:
      is_allowed = true;
      break;
    case ManagementClass::SubnAdm:  // a function is no SA
      is_allowed = wire::is_response(header.method) || header.method == MadMethod::Report;
      break;
    case ManagementClass::DevMgt:
      is_allowed = header.method == MadMethod::GetResp ||
                   (is_get_or_set && found->second.options.serves_device_management);
      break;
    default:
      break;
  }
  return is_allowed ? OrReason<void>{} : std::unexpected(Reason::InboundClassNotAllowed);
}

OrReason<void> Multiplexer::deliver(FunctionId function, const InboundMad& mad,
                                    const MadBytes& bytes) {
  const auto found = functions_.find(function);
  if (found == functions_.end()) {
    return std::unexpected(Reason::TunnelNotReady);
  }
  // QP0 checks no P_Key (IBTA vol 1 §10.9.8).
  const auto pkey_index = mad.qp == SpecialQp::Smi ? std::optional<std::uint16_t>{0}
                                                   : pkeys_.to_virtual(function, mad.pkey);
  if (!pkey_index) {
    return std::unexpected(Reason::NoMatchingPKey);
  }
  wire::TunnelReceive receive{.grh = mad.grh.value_or(wire::Grh{}), .mad = bytes};
  receive.header = {.source_qpn = mad.source_qpn,
                    .is_global = mad.grh.has_value(),
                    .path_bits = mad.path_bits,
                    .pkey_index = *pkey_index,
                    .sl = mad.sl,
                    .slid = mad.slid};
  const auto index = static_cast<std::size_t>(mad.qp);
  const Tunnel::Buffer buffer = wire::pack(receive);
  if (!found->second.tunnels[index].post_receive(buffer)) {
    return std::unexpected(Reason::TunnelNotReady);
  }
  show(function, mad.qp, true, buffer);
  return {};
}

}  // namespace weft::sriov
