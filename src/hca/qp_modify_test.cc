#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "hca/qp_state_table.h"
#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"

/// What Modify QP accepts, compared with the table of transitions (R-QP-3), which is written down
/// here a second time so as not to test the engine's table against itself.
namespace weft::hca {
namespace {

using testing::LoopbackPair;
using testing::Side;
using testing::to_state;

using A = QpAttribute;
using S = QpState;
using Mask = QpAttributeMask;
using T = QpType;

struct Allowed {
  Mask required;
  Mask optional;
};
using MaybeAllowed = std::optional<Allowed>;

[[nodiscard]] Mask of(auto... attributes) { return (Mask{} | ... | Mask{attributes}); }

[[nodiscard]] MaybeAllowed init_to_rtr(T type) {
  if (type == T::Ud) {
    return Allowed{.required = {}, .optional = of(A::PKeyIndex, A::QKey)};
  }
  Mask required = of(A::AddressVector, A::PathMtu, A::DestQpn, A::RqPsn);
  if (type == T::Rc || type == T::XrcTarget) {
    required |= of(A::MaxDestRdAtomic, A::MinRnrTimer);
  }
  return Allowed{.required = required,
                 .optional = of(A::AlternatePath, A::RemoteAccess, A::PKeyIndex)};
}

[[nodiscard]] Mask optional_in_rts(T type) {
  switch (type) {
    case T::Ud:
      return of(A::CurrentState, A::QKey);
    case T::Uc:
    case T::XrcInitiator:
      return of(A::CurrentState, A::AlternatePath, A::RemoteAccess, A::PathMigrationState);
    default:
      return of(A::CurrentState, A::AlternatePath, A::RemoteAccess, A::PathMigrationState,
                A::MinRnrTimer);
  }
}

[[nodiscard]] Mask required_to_rts(T type) {
  switch (type) {
    case T::Ud:
    case T::Uc:
      return of(A::SqPsn);
    case T::XrcTarget:
      return of(A::SqPsn, A::Timeout);
    default:
      return of(A::Timeout, A::RetryCount, A::RnrRetry, A::SqPsn, A::MaxQpRdAtomic);
  }
}

[[nodiscard]] Mask optional_in_sqd(T type) {
  const Mask uc =
      of(A::AddressVector, A::AlternatePath, A::RemoteAccess, A::PKeyIndex, A::PathMigrationState);
  switch (type) {
    case T::Ud:
      return of(A::PKeyIndex, A::QKey);
    case T::Uc:
      return uc;
    case T::XrcInitiator:
      return uc | of(A::Port, A::Timeout, A::RetryCount, A::RnrRetry, A::MaxQpRdAtomic);
    case T::XrcTarget:
      return uc | of(A::Port, A::Timeout, A::MaxDestRdAtomic, A::MinRnrTimer);
    case T::Rc:
      return uc | of(A::Port, A::Timeout, A::RetryCount, A::RnrRetry, A::MaxQpRdAtomic,
                     A::MaxDestRdAtomic, A::MinRnrTimer);
    case T::Smi:
    case T::Gsi:
    case T::RawPacket:
      break;
  }
  return {};
}

[[nodiscard]] MaybeAllowed allowed(T type, S from, S to) {
  const Mask init = type == T::Ud ? of(A::PKeyIndex, A::Port, A::QKey)
                                  : of(A::PKeyIndex, A::Port, A::RemoteAccess);
  if (to == S::Reset || (to == S::Err && from != S::Reset)) {
    return Allowed{};
  }
  if (to == S::Init && from == S::Reset) {
    return Allowed{.required = init, .optional = {}};
  }
  if (to == S::Init && from == S::Init) {
    return Allowed{.required = {}, .optional = init};
  }
  if (to == S::Rtr && from == S::Init) {
    return init_to_rtr(type);
  }
  if (to == S::Rts && from == S::Rtr) {
    return Allowed{.required = required_to_rts(type), .optional = optional_in_rts(type)};
  }
  if (to == S::Rts && (from == S::Rts || from == S::Sqd)) {
    return Allowed{.required = {}, .optional = optional_in_rts(type)};
  }
  if (to == S::Sqd && from == S::Rts) {
    return Allowed{.required = {}, .optional = of(A::EnableSqdAsyncNotify)};
  }
  if (to == S::Sqd && from == S::Sqd) {
    return Allowed{.required = {}, .optional = optional_in_sqd(type)};
  }
  if (to == S::Rts && from == S::Sqe && type == T::Ud) {
    return Allowed{.required = {}, .optional = of(A::CurrentState, A::QKey)};
  }
  if (to == S::Rts && from == S::Sqe && type == T::Uc) {
    return Allowed{.required = {}, .optional = of(A::CurrentState, A::RemoteAccess)};
  }
  return std::nullopt;
}

[[nodiscard]] QpAttributes valid_values(S from, S to) {
  QpAttributes attributes;
  attributes.state = to;
  attributes.current_state = from;
  attributes.port = attributes.alternate_port = PortNumber{1};
  attributes.address.dlid = attributes.alternate_address.dlid = Lid{2};
  attributes.dest_qpn = Qpn{0x200};
  return attributes;
}

/// A QP of the given type in the given state.
class InState {
 public:
  InState(T type, S state)
      : pair_({.type = type == T::XrcTarget ? T::XrcInitiator : type}),
        side_(type == T::XrcTarget ? pair_.b() : pair_.a()) {
    if (state == S::Reset) {
      return;
    }
    pair_.to_init(side_);
    if (state == S::Init) {
      return;
    }
    pair_.to_rtr(side_, &side_ == &pair_.a() ? pair_.b() : pair_.a());
    if (state == S::Rtr) {
      return;
    }
    pair_.to_rts(side_);
    if (state == S::Sqe) {
      AddressVector address;
      address.dlid = Lid{2};
      address.port = PortNumber{1};
      const std::array sges{
          Sge{.address = 0, .length = 8, .lkey = LKey{0x999}}
      };
      SendWr wr = testing::signaled(WrOpcode::Send, sges);
      wr.ah = type == T::Ud ? *side_.hca.create_ah(*side_.pd, address) : nullptr;
      testing::post(*side_.qp, wr);
      pair_.collect();
    } else if (state != S::Rts) {
      to_state(*side_.qp, state);
    }
    EXPECT_EQ(side_.qp->query().state, state);
  }
  Qp& qp() { return *side_.qp; }

 private:
  LoopbackPair pair_;
  Side& side_;
};

[[nodiscard]] bool same(const QpAttributes& x, const QpAttributes& y) {
  return x.state == y.state && x.path_mtu == y.path_mtu && x.migration == y.migration &&
         x.qkey == y.qkey && x.rq_psn == y.rq_psn && x.sq_psn == y.sq_psn &&
         x.dest_qpn == y.dest_qpn && x.access == y.access && x.capabilities == y.capabilities &&
         x.address == y.address && x.alternate_address == y.alternate_address &&
         x.pkey_index == y.pkey_index && x.enable_sqd_async_notify == y.enable_sqd_async_notify &&
         x.max_rd_atomic == y.max_rd_atomic && x.max_dest_rd_atomic == y.max_dest_rd_atomic &&
         x.min_rnr_timer == y.min_rnr_timer && x.port == y.port && x.timeout == y.timeout &&
         x.retry_count == y.retry_count && x.rnr_retry == y.rnr_retry &&
         x.alternate_port == y.alternate_port;
}

/// The masks that tell most about a row: the required attributes, all allowed ones, and each of
/// these with one bit more or less.
[[nodiscard]] std::vector<Mask> masks_for(const MaybeAllowed& row) {
  const Mask needed = (row ? row->required : Mask{}) | A::State;
  const Mask whole = needed | (row ? row->optional : Mask{});
  std::vector<Mask> masks{needed, whole};
  for (unsigned bit = 1; bit < 26; ++bit) {
    const Mask attribute = static_cast<A>(1U << bit);
    masks.push_back(whole.without(attribute));
    masks.push_back(whole | attribute);
    masks.push_back(needed | attribute);
  }
  return masks;
}

class QpModify : public ::testing::TestWithParam<T> {};

TEST_P(QpModify, AcceptsWhatTheTableOfTransitionsHasAndNothingElse) {  // T-QP-1, R-QP-3
  constexpr std::array kStates = {S::Reset, S::Init, S::Rtr, S::Rts, S::Sqd, S::Sqe, S::Err};
  const T type = GetParam();
  for (const S from : kStates) {
    if (from == S::Sqe && type != T::Uc && type != T::Ud) {
      continue;  // RC QPs never enter this state
    }
    std::optional<InState> subject;  // anew after each change; what is refused changes nothing
    for (const S to : kStates) {
      const MaybeAllowed row = allowed(type, from, to);
      for (const Mask mask : masks_for(row)) {
        const bool current_state_counts =
            from == S::Rtr || from == S::Rts || from == S::Sqd || from == S::Sqe;
        const bool accepts = row && mask.has_all(row->required) &&
                             mask.without(row->required | row->optional | A::State).empty() &&
                             (!mask.has(A::CurrentState) || current_state_counts);
        if (!subject) {
          subject.emplace(type, from);
        }
        const QpAttributes before = subject->qp().query();
        const auto modified = subject->qp().modify(valid_values(from, to), mask);
        ASSERT_EQ(modified.has_value(), accepts)
            << name_of(from) << " to " << name_of(to) << " mask " << std::hex << mask.bits() << ' '
            << (modified ? "" : modified.error().reason);
        const QpAttributes after = subject->qp().query();
        if (accepts) {
          EXPECT_EQ(after.state, to);
          subject.reset();
        } else {
          ASSERT_TRUE(same(before, after)) << name_of(from) << " to " << name_of(to);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, QpModify,
                         ::testing::Values(T::Rc, T::Uc, T::Ud, T::XrcInitiator, T::XrcTarget),
                         [](const auto& test) {
                           constexpr auto kNames = std::to_array<const char*>(
                               {"Rc", "Uc", "Ud", "XrcInitiator", "XrcTarget"});
                           return std::string{kNames[test.index]};
                         });

/// LID 0 is reserved (IBTA vol 1 §4.1.3), with a GRH as well: within a subnet a packet is forwarded
/// by its LRH.
TEST(Qp, RefusesTheReservedDlidOfEitherPath) {
  for (const T type : {T::Rc, T::Uc, T::XrcInitiator, T::XrcTarget}) {
    InState subject{type, S::Init};
    const auto row = allowed(type, S::Init, S::Rtr);
    const Mask needed = row->required | A::State;
    for (const bool is_global : {false, true}) {
      QpAttributes asked = valid_values(S::Init, S::Rtr);
      asked.address.is_global = is_global;
      asked.address.dlid = Lid{};
      const auto primary = subject.qp().modify(asked, needed);
      ASSERT_FALSE(primary) << name_of(type);
      EXPECT_TRUE(primary.error().reason.starts_with("DLID 0 is reserved"))
          << primary.error().reason;
      std::swap(asked.address, asked.alternate_address);
      const auto alternate = subject.qp().modify(asked, needed | A::AlternatePath);
      ASSERT_FALSE(alternate) << name_of(type);
      EXPECT_TRUE(alternate.error().reason.starts_with("DLID 0 is reserved"))
          << alternate.error().reason;
    }
    EXPECT_EQ(subject.qp().query().state, S::Init);
    EXPECT_TRUE(subject.qp().modify(valid_values(S::Init, S::Rtr), needed | A::AlternatePath));
  }
}

/// R-QP-1: the requested capabilities are granted and can all be used at once.
TEST(Qp, HasAtLeastTheCapabilitiesAskedForAndAllOfThemWork) {  // T-QP-2
  LoopbackPair pair;
  Side& a = pair.a();
  for (const std::uint32_t asked : {1U, 7U}) {
    QpInit init;
    init.pd = a.pd;
    init.send_cq = a.send_cq;
    init.recv_cq = a.recv_cq;
    init.capabilities = {.max_send_wr = asked,
                         .max_recv_wr = asked,
                         .max_send_sge = asked,
                         .max_recv_sge = asked,
                         .max_inline_data = asked};
    auto* const old = std::exchange(a.qp, *a.hca.create_qp(init));
    const QpCapabilities actual = a.qp->query().capabilities;
    EXPECT_GE(actual.max_send_wr, asked);
    EXPECT_GE(actual.max_recv_wr, asked);
    EXPECT_GE(actual.max_send_sge, asked);
    EXPECT_GE(actual.max_recv_sge, asked);
    EXPECT_GE(actual.max_inline_data, asked);
    pair.to_init(a);
    pair.to_rtr(a, pair.b());
    pair.to_rts(a);
    const std::vector sges(actual.max_send_sge, a.sge(0, 4));
    for (std::uint32_t i = 0; i < actual.max_send_wr; ++i) {
      EXPECT_TRUE(a.qp->post_send(testing::signaled(WrOpcode::Send, sges)));
    }
    const std::vector into(actual.max_recv_sge, a.sge(0, 4));
    for (std::uint32_t i = 0; i < actual.max_recv_wr; ++i) {
      EXPECT_TRUE(a.qp->post_recv({.wr_id = i, .sges = into}));
    }
    const std::vector one(1, a.sge(0, actual.max_inline_data));
    SendWr full = testing::signaled(WrOpcode::Send, one);
    full.flags |= Send::Inline;
    EXPECT_EQ(a.qp->post_send(full).error().code, ErrorCode::OutOfMemory) << "only for the queue";
    EXPECT_TRUE(a.hca.destroy_qp(*std::exchange(a.qp, old)));
  }
}

}  // namespace
}  // namespace weft::hca
