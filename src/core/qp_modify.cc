// Modify and query of QPs, and the helper that applies fields without a mask.

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <utility>

#include "core/device.h"
#include "core/qp.h"
#include "core/qp_access.h"
#include "hca/qp_state_table.h"

namespace weft::core {
namespace {

using verbs::QpAttribute;
using verbs::QpAttributeMask;
using verbs::QpState;
using verbs::QpType;

Result<QpState> state_of(Qp& qp) {
  const auto query = qp.device().operations().query_qp;
  if (query == nullptr) {
    return fail(ErrorCode::NotSupported, "{} tells nothing of QPs", qp.device().name());
  }
  const auto attributes = query(qp, QpAttribute::State);
  if (!attributes) {
    return std::unexpected(attributes.error());
  }
  return attributes->state;
}

/// The state that a modify is to be judged from: the one that the caller takes the QP to be in
/// counts if it is one that a QP may leave behind the caller's back (R-QP-3).
Result<QpState> current_state(Qp& qp, const QpModify& modify) {
  auto state = state_of(qp);
  if (!state || !modify.mask.has(QpAttribute::CurrentState)) {
    return state;
  }
  const QpState named = modify.attributes.current_state;
  if (named != QpState::Rtr && named != QpState::Rts && named != QpState::Sqd &&
      named != QpState::Sqe) {
    return fail(ErrorCode::InvalidArgument, "{} is no current state that a caller may name",
                verbs::name_of(named));
  }
  return named;
}

/// The source GID of an address vector: the one that is given, or the one at its index.
Result<GidReference> sgid_of(Device& device, const verbs::AddressVector& address,
                             const GidReference& given) {
  if (!address.is_global) {
    return GidReference{};
  }
  if (given) {
    return given;
  }
  return get_gid(device, address.port, address.grh.sgid_index);
}

Result<void> check_alternate_path(Qp& qp, const QpModify& modify, PortNumber port) {
  Device& device = qp.device();
  for (const PortNumber one : {modify.attributes.alternate_address.port, port}) {
    if (!device.port_can(one, PortCapability::ProtocolIb)) {
      return fail(ErrorCode::InvalidArgument,
                  "alternate paths are for InfiniBand ports; port {} "
                  "is none",
                  one.value());
    }
  }
  return {};
}

}  // namespace

Result<void> QpAccess::modify(Qp& qp, const QpModify& modify) {
  Device& device = qp.device();
  const QpAttributeMask mask = modify.mask;
  const auto from = current_state(qp, modify);
  if (!from) {
    return std::unexpected(from.error());
  }
  const QpState to = mask.has(QpAttribute::State) ? modify.attributes.state : *from;
  if (auto allowed = hca::check_qp_transition(qp.type(), *from, to, mask); !allowed) {
    return allowed;
  }
  const PortNumber port = mask.has(QpAttribute::Port) ? modify.attributes.port : qp.port();
  if (mask.has(QpAttribute::Port)) {
    if (auto known = device.check_port(port); !known) {
      return known;
    }
  }
  QpModify filled = modify;
  if (mask.has(QpAttribute::AddressVector)) {
    if (auto known = device.check_port(modify.attributes.address.port); !known) {
      return known;
    }
    auto sgid = sgid_of(device, modify.attributes.address, modify.sgid);
    if (!sgid) {
      return fail(ErrorCode::InvalidArgument, "no source GID: {}", sgid.error().reason);
    }
    filled.sgid = std::move(*sgid);
  }
  if (mask.has(QpAttribute::AlternatePath)) {
    if (auto possible = check_alternate_path(qp, modify, port); !possible) {
      return possible;
    }
    auto sgid = sgid_of(device, modify.attributes.alternate_address, modify.alternate_sgid);
    if (!sgid) {
      return fail(ErrorCode::InvalidArgument, "no source GID: {}", sgid.error().reason);
    }
    filled.alternate_sgid = std::move(*sgid);
  }
  if (auto changed = device.operations().modify_qp(qp, filled); !changed) {
    return changed;
  }
  if (mask.has(QpAttribute::Port)) {
    qp.port_.store(port.value(), std::memory_order_release);
  }
  if (mask.has(QpAttribute::AddressVector)) {
    qp.sgid_ = std::move(filled.sgid);
  }
  if (mask.has(QpAttribute::AlternatePath)) {
    qp.alternate_sgid_ = std::move(filled.alternate_sgid);
  }
  return {};
}

Result<void> modify_qp(Qp& qp, const QpModify& modify) {
  if (qp.device().operations().modify_qp == nullptr) {
    return fail(ErrorCode::NotSupported, "{} changes no QPs", qp.device().name());
  }
  return QpAccess::modify(qp.real(), modify);
}

Result<QpQuery> query_qp(Qp& qp, QpAttributeMask mask) {
  if (qp.device().operations().query_qp == nullptr) {
    return fail(ErrorCode::NotSupported, "{} tells nothing of QPs", qp.device().name());
  }
  auto attributes = qp.device().operations().query_qp(qp.real(), mask);
  if (!attributes) {
    return std::unexpected(attributes.error());
  }
  return QpQuery{.attributes = *attributes, .init = qp.init()};
}

Result<void> QpAccess::set_default_destination(Qp& qp, const verbs::QpAttributes& attributes) {
  auto ah = create_ah(*qp.pd(), {.address = attributes.address, .sgid = {}, .destination_mac = {}});
  if (!ah) {
    return std::unexpected(ah.error());
  }
  const std::unique_ptr<DefaultDestination> before = std::exchange(
      qp.default_destination_, std::make_unique<DefaultDestination>(*ah, attributes.dest_qpn));
  return before != nullptr ? destroy_ah(*before->ah) : Result<void>{};
}

Result<void> apply_qp_fields(Qp& qp, const QpFields& fields) {
  constexpr auto kWay =
      std::to_array<QpState>({QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts});
  auto state = state_of(qp.real());
  if (!state) {
    return std::unexpected(state.error());
  }
  const auto to = std::ranges::find(kWay, fields.state);
  auto from = std::ranges::find(kWay, *state);
  if (to == kWay.end() || from == kWay.end() || to < from) {
    return fail(ErrorCode::InvalidArgument, "fields do not take a QP from {} to {}",
                verbs::name_of(*state), verbs::name_of(fields.state));
  }
  const bool is_datagram = qp.type() == QpType::Ud;
  if (is_datagram && fields.attributes.address.dlid != Lid{}) {
    if (auto set = QpAccess::set_default_destination(qp, fields.attributes); !set) {
      return set;
    }
  }
  for (; from != to; ++from) {
    const QpState next = *(from + 1);
    QpModify step;
    step.mask = hca::qp_transition(qp.type(), *from, next)->required | QpAttribute::State;
    step.attributes = fields.attributes;
    step.attributes.state = next;
    if (auto made = modify_qp(qp, step); !made) {
      return made;
    }
  }
  return {};
}

}  // namespace weft::core
