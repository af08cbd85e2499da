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

/// XRC where an initiator differs from UC or a target from RC (annex A14; R-QP-3): each half has
/// only its own attributes.
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

/// The special QPs, where SMI and GSI differ from UD, which have no port to choose; and all that
/// raw packet QPs may set (R-QP-3).
struct SpecialRow {
  QpState from;
  QpState to;
  QpTransition management;
  QpTransition raw;
};
constexpr Mask kInitManagement = set(A::PKeyIndex, A::QKey);
constexpr Mask kRate = set(A::RateLimit);
constexpr auto kSpecialRows = std::to_array<SpecialRow>({
    {S::Reset, S::Init, {kInitManagement, kNone},               {set(A::Port), kNone}},
    {S::Init,  S::Init, {kNone, kInitManagement},               {kNone, kNone}       },
    {S::Init,  S::Rtr,  {kNone, kRtrDatagramOptional},          {kNone, kNone}       },
    {S::Rtr,   S::Rts,  {set(A::SqPsn), kRtsUdOptional},        {kNone, kRate}       },
    {S::Rts,   S::Rts,  {kNone, kRtsUdOptional},                {kNone, kRate}       },
    {S::Rts,   S::Sqd,  {kNone, kSqdNotify},                    {kNone, kNone}       },
    {S::Sqd,   S::Rts,  {kNone, kRtsUdOptional},                {kNone, kNone}       },
    {S::Sqd,   S::Sqd,  {kNone, kRtrDatagramOptional},          {kNone, kNone}       },
    {S::Sqe,   S::Rts,  {kNone, set(A::CurrentState, A::QKey)}, {kNone, kNone}       },
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
      text += name_of(attribute);
    }
  }
  return text;
}

}  // namespace

const QpTransition* qp_transition(QpType type, QpState from, QpState to) {
  if (to == S::Reset || (to == S::Err && from != S::Reset)) {
    return &kNothing;
  }
  if (type == QpType::Smi || type == QpType::Gsi || type == QpType::RawPacket) {
    for (const SpecialRow& row : kSpecialRows) {
      if (row.from == from && row.to == to) {
        return type == QpType::RawPacket ? &row.raw : &row.management;
      }
    }
    return nullptr;
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
    return fail(ErrorCode::InvalidArgument, "a {} QP cannot go from {} to {}", name_of(type),
                name_of(from), name_of(to));
  }
  if (const Mask missing = transition->required.without(mask); !missing.empty()) {
    return fail(ErrorCode::InvalidArgument, "{} from {} to {} needs also: {}", name_of(type),
                name_of(from), name_of(to), names(missing));
  }
  const Mask allowed = transition->required | transition->optional | Mask{A::State};
  if (const Mask extra = mask.without(allowed); !extra.empty()) {
    return fail(ErrorCode::InvalidArgument, "{} from {} to {} does not allow: {}", name_of(type),
                name_of(from), name_of(to), names(extra));
  }
  return {};
}

}  // namespace weft::hca
