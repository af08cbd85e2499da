#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "hca/hca.h"
#include "hca/qp.h"
#include "hca/qp_state_table.h"
#include "verbs/mtu.h"

namespace weft::hca {
namespace {

using A = QpAttribute;

Result<void> check_values(const QpAttributes& asked, QpAttributeMask mask, const Hca& hca) {
  const HcaConfiguration& configuration = hca.configuration();
  const auto bad_port = [&](PortNumber port) {
    return port.value() == 0 || port.value() > configuration.port_count;
  };
  if (mask.has(A::Port) && bad_port(asked.port)) {
    return fail(ErrorCode::InvalidArgument, "port {} is not in 1..{}", asked.port.value(),
                configuration.port_count);
  }
  if (mask.has(A::MaxDestRdAtomic) &&
      asked.max_dest_rd_atomic > configuration.limits.max_qp_rd_atomic) {
    return fail(ErrorCode::InvalidArgument, "max_dest_rd_atomic {} exceeds the device's {}",
                asked.max_dest_rd_atomic, configuration.limits.max_qp_rd_atomic);
  }
  if (mask.has(A::MaxQpRdAtomic) && asked.max_rd_atomic > configuration.limits.max_qp_rd_atomic) {
    return fail(ErrorCode::InvalidArgument, "max_rd_atomic {} exceeds the device's {}",
                asked.max_rd_atomic, configuration.limits.max_qp_rd_atomic);
  }
  if (mask.has(A::RetryCount) && asked.retry_count > 7) {
    return fail(ErrorCode::InvalidArgument, "retry count {} is not in 0..7", asked.retry_count);
  }
  if (mask.has(A::RnrRetry) && asked.rnr_retry > 7) {
    return fail(ErrorCode::InvalidArgument, "RNR retry count {} is not in 0..7", asked.rnr_retry);
  }
  if (mask.has(A::MinRnrTimer) && asked.min_rnr_timer > 31) {
    return fail(ErrorCode::InvalidArgument, "minimum RNR timer {} is not in 0..31",
                asked.min_rnr_timer);
  }
  if (mask.has(A::PathMtu) &&
      (asked.path_mtu < verbs::Mtu::Mtu256 || asked.path_mtu > verbs::Mtu::Mtu4096)) {
    return fail(ErrorCode::InvalidArgument, "path MTU code {} is not in 1..5",
                static_cast<unsigned>(asked.path_mtu));
  }
  if (mask.has(A::AlternatePath) && bad_port(asked.alternate_port)) {
    return fail(ErrorCode::InvalidArgument, "alternate port {} is not in 1..{}",
                asked.alternate_port.value(), configuration.port_count);
  }
  return {};
}

/// Copies the attributes that `mask` names.
void take(QpAttributes& into, const QpAttributes& asked, QpAttributeMask mask) {
  const auto copy = [&](A attribute, auto member) {
    if (mask.has(attribute)) {
      into.*member = asked.*member;
    }
  };
  copy(A::EnableSqdAsyncNotify, &QpAttributes::enable_sqd_async_notify);
  copy(A::RemoteAccess, &QpAttributes::access);
  copy(A::PKeyIndex, &QpAttributes::pkey_index);
  copy(A::Port, &QpAttributes::port);
  copy(A::QKey, &QpAttributes::qkey);
  copy(A::AddressVector, &QpAttributes::address);
  copy(A::PathMtu, &QpAttributes::path_mtu);
  copy(A::Timeout, &QpAttributes::timeout);
  copy(A::RetryCount, &QpAttributes::retry_count);
  copy(A::RnrRetry, &QpAttributes::rnr_retry);
  copy(A::RqPsn, &QpAttributes::rq_psn);
  copy(A::MaxQpRdAtomic, &QpAttributes::max_rd_atomic);
  copy(A::AlternatePath, &QpAttributes::alternate_address);
  copy(A::AlternatePath, &QpAttributes::alternate_port);
  copy(A::AlternatePath, &QpAttributes::alternate_timeout);
  copy(A::AlternatePath, &QpAttributes::alternate_pkey_index);
  copy(A::MinRnrTimer, &QpAttributes::min_rnr_timer);
  copy(A::SqPsn, &QpAttributes::sq_psn);
  copy(A::MaxDestRdAtomic, &QpAttributes::max_dest_rd_atomic);
  copy(A::PathMigrationState, &QpAttributes::migration);
  copy(A::DestQpn, &QpAttributes::dest_qpn);
}

/// Of the three migration states, packets alone lead to ARMED (IBTA vol 1 §17.2.8.1).
Result<void> check_migration(const QpAttributes& asked, QpAttributeMask mask, const QpCore& core) {
  const MigrationState from = core.attributes.migration;
  switch (asked.migration) {
    case MigrationState::Rearm:
      return core.has_alternate_path() || mask.has(A::AlternatePath)
                 ? Result<void>{}
                 : fail(ErrorCode::InvalidArgument,
                        "REARM needs an alternate path: none was loaded yet");
    case MigrationState::Migrated:
      return from != MigrationState::Rearm
                 ? Result<void>{}
                 : fail(ErrorCode::InvalidArgument,
                        "the QP is in REARM: it migrates once the peer has rearmed, too, and a "
                        "packet of it has made it ARMED");
    case MigrationState::Armed:
      break;
  }
  return fail(ErrorCode::InvalidArgument,
              "a program asks for REARM or MIGRATED; ARMED follows by itself from REARM when the "
              "peer has rearmed, too");
}

/// The checks that need no lookup in the HCA.
Result<void> check_modify(const QpAttributes& asked, QpAttributeMask mask, QpState to,
                          const QpCore& core, const Hca& hca) {
  if (mask.has(A::CurrentState) && asked.current_state != core.state()) {
    return fail(ErrorCode::InvalidArgument, "the QP is in {}, not in {} as the modify says",
                name_of(core.state()), name_of(asked.current_state));
  }
  if (auto checked = check_qp_transition(core.type, core.state(), to, mask); !checked) {
    return checked;
  }
  if (auto checked = check_values(asked, mask, hca); !checked) {
    return checked;
  }
  return mask.has(A::PathMigrationState) ? check_migration(asked, mask, core) : Result<void>{};
}

}  // namespace

/// Resolves route and P_Key of the alternate path, which shares the primary path's MTU.
Result<void> Qp::load_alternate_path(QpAttributes& next, PacketRoute& route, PKey& pkey) const {
  next.alternate_address.port = next.alternate_port;
  auto made = hca_.make_route(next.alternate_address);
  if (!made) {
    return std::unexpected(made.error());
  }
  const auto found = hca_.pkey_at(next.alternate_port, next.alternate_pkey_index);
  if (!found) {
    return std::unexpected(found.error());
  }
  if (next.path_mtu > hca_.port(next.alternate_port).active_mtu) {
    return fail(ErrorCode::InvalidArgument,
                "path MTU {} exceeds the active MTU {} of the alternate path's port",
                verbs::bytes(next.path_mtu),
                verbs::bytes(hca_.port(next.alternate_port).active_mtu));
  }
  route = *made;
  pkey = *found;
  return {};
}

/// All or nothing: a refused modify leaves every attribute unchanged (R-QP-3).
Result<void> Qp::modify(const QpAttributes& asked, QpAttributeMask mask) {
  const std::scoped_lock guard{requester_lock_, responder_lock_};
  core_->enter_error_if_failing();
  const QpState from = core_->state();
  const QpState to = mask.has(A::State) ? asked.state : from;
  if (auto checked = check_modify(asked, mask, to, *core_, hca_); !checked) {
    return checked;
  }
  const bool was_armed = core_->attributes.migration == MigrationState::Armed;
  QpAttributes next = core_->attributes;
  if (to == QpState::Sqd && from != QpState::Sqd) {
    next.enable_sqd_async_notify = false;  // must be requested for each transition (T-QP-4)
  }
  take(next, asked, mask);
  PacketRoute route = core_->route;
  if (mask.has(A::AddressVector)) {
    AddressVector address = next.address;
    if (address.port.value() == 0) {
      address.port = next.port;
    }
    auto made = hca_.make_route(address);
    if (!made) {
      return std::unexpected(made.error());
    }
    route = *made;
  }
  PKey pkey = core_->pkey;
  if (mask.has(A::PKeyIndex) || mask.has(A::Port)) {
    const auto found = hca_.pkey_at(next.port, next.pkey_index);
    if (!found) {
      return std::unexpected(found.error());
    }
    pkey = *found;
  }
  if (mask.has(A::PathMtu) && next.path_mtu > hca_.port(next.port).active_mtu) {
    return fail(ErrorCode::InvalidArgument, "path MTU {} exceeds the port's active MTU {}",
                verbs::bytes(next.path_mtu), verbs::bytes(hca_.port(next.port).active_mtu));
  }
  PacketRoute alternate_route = core_->alternate_route;
  PKey alternate_pkey = core_->alternate_pkey;
  if (mask.has(A::AlternatePath)) {
    if (auto loaded = load_alternate_path(next, alternate_route, alternate_pkey); !loaded) {
      return loaded;
    }
  }
  next.state = from;
  core_->attributes = next;
  core_->alternate_route = alternate_route;
  core_->alternate_pkey = alternate_pkey;
  core_->route = route;
  core_->pkey = pkey;
  if (core_->type == QpType::Ud && (mask.has(A::Port) || to == QpState::Rtr)) {
    core_->attributes.path_mtu =
        hca_.port(next.port).active_mtu;  // a datagram may fill the port's MTU
  }
  core_->refresh_header();
  if (was_armed && next.migration == MigrationState::Migrated) {
    core_->migrate();
  }
  core_->withdraw_placement();
  change_state(from, to);
  publish_port();
  publish_hints();
  return {};
}

/// A QP names its P_Key by index, so a change of the table changes the QP (IBTA vol 1 §10.9.2).
void Qp::take_port(PortNumber port, const PortAttributes& now) {
  const std::scoped_lock guard{requester_lock_, responder_lock_};
  QpAttributes& attributes = core_->attributes;
  core_->sources[port.value()] = {.lid = now.lid,
                                  .path_mask = static_cast<std::uint8_t>((1U << now.lmc) - 1)};
  if (core_->route.source_port == port) {
    core_->route.slid = core_->source_lid(core_->route);
  }
  if (core_->alternate_route.source_port == port) {
    core_->alternate_route.slid = core_->source_lid(core_->alternate_route);
    core_->alternate_pkey = now.pkey(attributes.alternate_pkey_index);
  }
  if (attributes.port == port) {
    const PKey before = std::exchange(core_->pkey, now.pkey(attributes.pkey_index));
    if (before.is_valid() && !core_->pkey.is_valid()) {
      core_->explain([&] {
        return fmt::format(
            "QP {:#x} neither sends nor receives any more: the P_Key at its index {} was taken "
            "out of port {}'s table",
            core_->number.value(), attributes.pkey_index, port.value());
      });
    }
    if (core_->type == QpType::Ud) {
      attributes.path_mtu = now.active_mtu;
    }
  }
  core_->refresh_header();
}

void Qp::change_state(QpState from, QpState to) {
  if (to == QpState::Err) {
    core_->enter_error("the consumer asked for it");
    return;
  }
  core_->attributes.state = to;
  if (to == QpState::Reset) {
    core_->send_queue.clear();
    core_->receive_queue.clear();
    core_->remove_completions();
    const QpCapabilities capabilities = core_->attributes.capabilities;
    core_->attributes = QpAttributes{};
    core_->attributes.capabilities = capabilities;
    core_->alternate_route = {};
    core_->alternate_pkey = {};
  }
  if (from != to || to == QpState::Reset) {
    transport_->on_state_change(from, to);
  }
}

}  // namespace weft::hca
