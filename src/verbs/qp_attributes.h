#pragma once

#include <cstdint>
#include <string_view>

#include "base/flags.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/serial.h"
#include "base/time.h"
#include "verbs/access_flags.h"
#include "verbs/address_vector.h"
#include "verbs/mtu.h"
#include "verbs/qp_state.h"

namespace weft::verbs {

/// Attributes of Modify QP (IBTA vol 1 §11.2.5.2), with the verbs API's bits.
enum class QpAttribute : std::uint32_t {
  State = 1U << 0,
  CurrentState = 1U << 1,
  EnableSqdAsyncNotify = 1U << 2,
  RemoteAccess = 1U << 3,
  PKeyIndex = 1U << 4,
  Port = 1U << 5,
  QKey = 1U << 6,
  AddressVector = 1U << 7,
  PathMtu = 1U << 8,
  Timeout = 1U << 9,
  RetryCount = 1U << 10,
  RnrRetry = 1U << 11,
  RqPsn = 1U << 12,
  MaxQpRdAtomic = 1U << 13,
  AlternatePath = 1U << 14,
  MinRnrTimer = 1U << 15,
  SqPsn = 1U << 16,
  MaxDestRdAtomic = 1U << 17,
  PathMigrationState = 1U << 18,
  Capabilities = 1U << 19,
  DestQpn = 1U << 20,
  RateLimit = 1U << 25,
};
using QpAttributeMask = Flags<QpAttribute>;

[[nodiscard]] constexpr std::string_view name_of(QpAttribute attribute) {
  switch (attribute) {
    case QpAttribute::State:
      return "state";
    case QpAttribute::CurrentState:
      return "current state";
    case QpAttribute::EnableSqdAsyncNotify:
      return "SQD notification";
    case QpAttribute::RemoteAccess:
      return "access flags";
    case QpAttribute::PKeyIndex:
      return "P_Key index";
    case QpAttribute::Port:
      return "port";
    case QpAttribute::QKey:
      return "Q_Key";
    case QpAttribute::AddressVector:
      return "address vector";
    case QpAttribute::PathMtu:
      return "path MTU";
    case QpAttribute::Timeout:
      return "timeout";
    case QpAttribute::RetryCount:
      return "retry count";
    case QpAttribute::RnrRetry:
      return "RNR retry count";
    case QpAttribute::RqPsn:
      return "RQ PSN";
    case QpAttribute::MaxQpRdAtomic:
      return "max_rd_atomic";
    case QpAttribute::AlternatePath:
      return "alternate path";
    case QpAttribute::MinRnrTimer:
      return "minimum RNR timer";
    case QpAttribute::SqPsn:
      return "SQ PSN";
    case QpAttribute::MaxDestRdAtomic:
      return "max_dest_rd_atomic";
    case QpAttribute::PathMigrationState:
      return "path migration state";
    case QpAttribute::Capabilities:
      return "capabilities";
    case QpAttribute::DestQpn:
      return "destination QPN";
    case QpAttribute::RateLimit:
      return "rate limit";
  }
  return "an unknown attribute";
}

/// Sizes of a QP's queues (IBTA vol 1 §11.2.5.1), in elements where no unit is given.
struct QpCapabilities {
  std::uint32_t max_send_wr{};
  std::uint32_t max_recv_wr{};
  std::uint32_t max_send_sge{};
  std::uint32_t max_recv_sge{};
  std::uint32_t max_inline_data{};  // bytes
  bool operator==(const QpCapabilities&) const = default;
};

/// All attributes of a QP that Modify QP sets and Query QP returns (IBTA vol 1 §11.2.5.2,
/// §11.2.5.3).
struct QpAttributes {
  QpState state{QpState::Reset};
  QpState current_state{QpState::Reset};
  Mtu path_mtu{Mtu::Mtu256};
  MigrationState migration{MigrationState::Migrated};
  QKey qkey{};
  Psn rq_psn{};
  Psn sq_psn{};
  Qpn dest_qpn{};
  AccessFlags access{};
  QpCapabilities capabilities{};
  AddressVector address{};
  AddressVector alternate_address{};
  std::uint16_t pkey_index{};
  std::uint16_t alternate_pkey_index{};
  bool enable_sqd_async_notify{};
  bool sq_draining{};
  std::uint8_t max_rd_atomic{};       // READs and atomics outstanding as requester
  std::uint8_t max_dest_rd_atomic{};  // as responder: the responder resources
  std::uint8_t min_rnr_timer{};       // code 0..31
  PortNumber port{};
  TimeoutExponent timeout{};
  std::uint8_t retry_count{};  // 0..7
  std::uint8_t rnr_retry{};    // 0..7, 7 is without end
  PortNumber alternate_port{};
  TimeoutExponent alternate_timeout{};
  bool operator==(const QpAttributes&) const = default;
};

/// The arguments of one Modify QP: those attributes count that `mask` names.
struct QpModification {
  QpAttributeMask mask{};
  QpAttributes attributes{};
  bool operator==(const QpModification&) const = default;
};

}  // namespace weft::verbs
