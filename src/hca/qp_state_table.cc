#include "hca/qp_state_table.h"

#include <array>
#include <string>

namespace weft::hca {
namespace {

using A = QpAttribute;
using Mask = QpAttributeMask;
using S = QpState;

struct Row {
  QpState from;
  QpState to;
  QpTransition rc;
  QpTransition uc;
  QpTransition ud;
};

[[nodiscard]] constexpr Mask set(auto... attributes) { return (Mask{} | ... | Mask{attributes}); }

constexpr Mask kNone{};
constexpr Mask kInitConnected = set(A::PKeyIndex, A::Port, A::RemoteAccess);
constexpr Mask kInitDatagram = set(A::PKeyIndex, A::Port, A::QKey);
constexpr Mask kRtrConnected = set(A::AddressVector, A::PathMtu, A::DestQpn, A::RqPsn);
constexpr Mask kRtrRc = kRtrConnected | set(A::MaxDestRdAtomic, A::MinRnrTimer);
constexpr Mask kRtrConnectedOptional = set(A::AlternatePath, A::RemoteAccess, A::PKeyIndex);
constexpr Mask kRtrDatagramOptional = set(A::PKeyIndex, A::QKey);
constexpr Mask kRtsRc = set(A::Timeout, A::RetryCount, A::RnrRetry, A::SqPsn, A::MaxQpRdAtomic);
constexpr Mask kRtsUcOptional =
    set(A::CurrentState, A::AlternatePath, A::RemoteAccess, A::PathMigrationState);
constexpr Mask kRtsRcOptional = kRtsUcOptional | set(A::MinRnrTimer);
constexpr Mask kRtsUdOptional = set(A::CurrentState, A::QKey);
constexpr Mask kSqdNotify = set(A::EnableSqdAsyncNotify);
constexpr Mask kSqdUc =
    set(A::AddressVector, A::AlternatePath, A::RemoteAccess, A::PKeyIndex, A::PathMigrationState);
constexpr Mask kSqdRc = kSqdUc | set(A::Port, A::Timeout, A::RetryCount, A::RnrRetry,
                                     A::MaxQpRdAtomic, A::MaxDestRdAtomic, A::MinRnrTimer);

// clang-format off
constexpr auto kRows = std::to_array<Row>({
    // from    to       RC: required, optional           UC                                      UD
    {S::Reset, S::Init, {kInitConnected, kNone},         {kInitConnected, kNone},                {kInitDatagram, kNone}},
    {S::Init,  S::Init, {kNone, kInitConnected},         {kNone, kInitConnected},                {kNone, kInitDatagram}},
    {S::Init,  S::Rtr,  {kRtrRc, kRtrConnectedOptional}, {kRtrConnected, kRtrConnectedOptional}, {kNone, kRtrDatagramOptional}},
    {S::Rtr,   S::Rts,  {kRtsRc, kRtsRcOptional},        {set(A::SqPsn), kRtsUcOptional},        {set(A::SqPsn), kRtsUdOptional}},
    {S::Rts,   S::Rts,  {kNone, kRtsRcOptional},         {kNone, kRtsUcOptional},                {kNone, kRtsUdOptional}},
    {S::Rts,   S::Sqd,  {kNone, kSqdNotify},             {kNone, kSqdNotify},                    {kNone, kSqdNotify}},
    {S::Sqd,   S::Rts,  {kNone, kRtsRcOptional},         {kNone, kRtsUcOptional},                {kNone, kRtsUdOptional}},
    {S::Sqd,   S::Sqd,  {kNone, kSqdRc},                 {kNone, kSqdUc},                        {kNone, kRtrDatagramOptional}},
});
// clang-format on

/// XRC where an initiator differs from UC, or a target from RC (annex A14; R-QP-3): each half has
/// but the attributes of its own.
struct XrcRow {
  QpState from;
  QpState to;
  QpTransition initiator;
  QpTransition target;
};
constexpr Mask kRtsTarget = set(A::Timeout, A::SqPsn);
constexpr Mask kSqdInitiator =
    kSqdUc | set(A::Port, A::Timeout, A::RetryCount, A::RnrRetry, A::MaxQpRdAtomic);
constexpr Mask kSqdTarget = kSqdUc | set(A::Port, A::Timeout, A::MaxDestRdAtomic, A::MinRnrTimer);
constexpr auto kXrcRows = std::to_array<XrcRow>({
    {S::Rtr, S::Rts, {kRtsRc, kRtsUcOptional}, {kRtsTarget, kRtsRcOptional}},
    {S::Sqd, S::Sqd, {kNone, kSqdInitiator},   {kNone, kSqdTarget}         },
});

// SQE is left for RTS by UC and UD only; RC has no SQE.
constexpr QpTransition kSqeUc{kNone, set(A::CurrentState, A::RemoteAccess)};
constexpr QpTransition kSqeUd{kNone, set(A::CurrentState, A::QKey)};
constexpr QpTransition kNothing{};

[[nodiscard]] std::string names(QpAttributeMask mask) {
  std::string text;
  for (unsigned bit = 0; bit < 32; ++bit) {
    const auto attribute = static_cast<QpAttribute>(1U << bit);
    if (mask.has(attribute)) {
      text += text.empty() ? "" : ", ";
      text += name(attribute);
    }
  }
  return text;
}

}  // namespace

const QpTransition* qp_transition(QpType type, QpState from, QpState to) {
  if (to == S::Reset || (to == S::Err && from != S::Reset)) {
    return &kNothing;
  }
  if (from == S::Sqe && to == S::Rts) {
    return type == QpType::Uc ? &kSqeUc : type == QpType::Ud ? &kSqeUd : nullptr;
  }
  for (const XrcRow& row : kXrcRows) {
    if (is_xrc(type) && row.from == from && row.to == to) {
      return type == QpType::XrcInitiator ? &row.initiator : &row.target;
    }
  }
  for (const Row& row : kRows) {
    if (row.from == from && row.to == to) {
      const bool as_rc = type == QpType::Rc || type == QpType::XrcTarget;
      return as_rc ? &row.rc : type == QpType::Ud ? &row.ud : &row.uc;
    }
  }
  return nullptr;
}

Result<void> check_qp_transition(QpType type, QpState from, QpState to, QpAttributeMask mask) {
  const QpTransition* transition = qp_transition(type, from, to);
  if (transition == nullptr) {
    return fail(ErrorCode::InvalidArgument, "a {} QP cannot go from {} to {}", name(type),
                name(from), name(to));
  }
  if (const Mask missing = transition->required.without(mask); !missing.empty()) {
    return fail(ErrorCode::InvalidArgument, "{} from {} to {} needs also: {}", name(type),
                name(from), name(to), names(missing));
  }
  const Mask allowed = transition->required | transition->optional | Mask{A::State};
  if (const Mask extra = mask.without(allowed); !extra.empty()) {
    return fail(ErrorCode::InvalidArgument, "{} from {} to {} does not allow: {}", name(type),
                name(from), name(to), names(extra));
  }
  return {};
}

std::string_view name(QpState state) {
  switch (state) {
    case S::Reset:
      return "RESET";
    case S::Init:
      return "INIT";
    case S::Rtr:
      return "RTR";
    case S::Rts:
      return "RTS";
    case S::Sqd:
      return "SQD";
    case S::Sqe:
      return "SQE";
    case S::Err:
      return "ERR";
  }
  return "no state";
}

std::string_view name(QpType type) {
  switch (type) {
    case QpType::Rc:
      return "RC";
    case QpType::Uc:
      return "UC";
    case QpType::Ud:
      return "UD";
    case QpType::XrcInitiator:
      return "XRC initiator";
    case QpType::XrcTarget:
      return "XRC target";
  }
  return "no type";
}

std::string_view name(QpAttribute attribute) {
  switch (attribute) {
    case A::State:
      return "state";
    case A::CurrentState:
      return "current state";
    case A::EnableSqdAsyncNotify:
      return "SQD notification";
    case A::RemoteAccess:
      return "access flags";
    case A::PKeyIndex:
      return "P_Key index";
    case A::Port:
      return "port";
    case A::QKey:
      return "Q_Key";
    case A::AddressVector:
      return "address vector";
    case A::PathMtu:
      return "path MTU";
    case A::Timeout:
      return "timeout";
    case A::RetryCount:
      return "retry count";
    case A::RnrRetry:
      return "RNR retry count";
    case A::RqPsn:
      return "RQ PSN";
    case A::MaxQpRdAtomic:
      return "max_rd_atomic";
    case A::AlternatePath:
      return "alternate path";
    case A::MinRnrTimer:
      return "minimum RNR timer";
    case A::SqPsn:
      return "SQ PSN";
    case A::MaxDestRdAtomic:
      return "max_dest_rd_atomic";
    case A::PathMigrationState:
      return "path migration state";
    case A::Capabilities:
      return "capabilities";
    case A::DestQpn:
      return "destination QPN";
    case A::RateLimit:
      return "rate limit";
  }
  return "an unknown attribute";
}

}  // namespace weft::hca
