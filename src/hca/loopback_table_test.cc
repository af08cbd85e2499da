#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"
#include "hca/wr_kind.h"

/// The table of R-RVT-20: the outcome at requester and responder of each situation, for RC and UC
/// and for every operation to which the situation applies. Two statuses are those of the
/// specification instead: a receive whose scatter list is invalid, or too short, is reported as
/// such.
namespace weft::hca {
namespace {

using testing::LoopbackPair;
using testing::PairOptions;
using testing::receive;
using testing::request;
using testing::Side;

enum class Situation : std::uint8_t {
  NoDestination,
  NotReceiving,
  OtherType,  // UC for RC, RC for UC
  DatagramType,
  NoReceive,
  BadReceive,
  TooLong,
  NoRight,
  BadKey,
  OutOfRange,
};

struct Row {
  Situation situation;
  const char* name;
  WcStatus rc;                        // of the requester; a UC request succeeds and is lost
  std::optional<WcStatus> responder;  // of a receive WQE in use
  bool responder_fails;               // RC
  bool uc_responder_fails;
};
using enum WcStatus;
constexpr auto kRows = std::to_array<Row>({
    {Situation::NoDestination, "NoDestination", RetryExceeded,        std::nullopt,          false, false},
    {Situation::NotReceiving,  "NotReceiving",  RetryExceeded,        std::nullopt,          false, false},
    {Situation::OtherType,     "OtherType",     RetryExceeded,        std::nullopt,          false, false},
    {Situation::DatagramType,  "DatagramType",  RetryExceeded,        std::nullopt,          false, false},
    {Situation::NoReceive,     "NoReceive",     RnrRetryExceeded,     std::nullopt,          false, false},
    {Situation::BadReceive,    "BadReceive",    RemoteOperationError, LocalProtectionError,  true,  true },
    {Situation::TooLong,       "TooLong",       RemoteInvalidRequest, LocalLengthError,      true,  true },
    {Situation::NoRight,       "NoRight",       RemoteInvalidRequest, LocalQpOperationError, true,  false},
    {Situation::BadKey,        "BadKey",        RemoteAccessError,    LocalAccessError,      true,  false},
    {Situation::OutOfRange,    "OutOfRange",    RemoteAccessError,    LocalAccessError,      true,  false},
});

/// True if the situation can occur with the operation.
[[nodiscard]] bool applies(Situation situation, WrOpcode opcode) {
  const bool takes_receive = has(opcode, WrTrait::NeedsCredit);
  const bool is_send = takes_receive && !has(opcode, WrTrait::Write);
  switch (situation) {
    case Situation::NoDestination:
    case Situation::NotReceiving:
    case Situation::OtherType:
    case Situation::DatagramType:
      return true;
    case Situation::NoReceive:
      return takes_receive;
    case Situation::BadReceive:
    case Situation::TooLong:
      return is_send;
    case Situation::NoRight:
    case Situation::BadKey:
    case Situation::OutOfRange:
      return !is_send;
  }
  return false;
}

class LoopbackTable : public ::testing::TestWithParam<std::tuple<QpType, std::size_t>> {};

/// Connects a to a QP of another type in the place of b's, which receives.
void replace_destination(LoopbackPair& pair, QpType type) {
  Side& a = pair.a();
  Side& b = pair.b();
  ASSERT_TRUE(b.hca.destroy_qp(*std::exchange(b.qp, nullptr)));
  const auto other = b.hca.create_qp({
      .type = type,
      .pd = b.pd,
      .send_cq = b.send_cq,
      .recv_cq = b.recv_cq,
      .capabilities = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}
  });
  ASSERT_TRUE(other) << other.error().reason;
  b.qp = *other;
  testing::to_state(*a.qp, QpState::Reset);
  if (type != QpType::Ud) {
    return pair.connect();
  }
  QpAttributes attributes;
  attributes.state = QpState::Init;
  attributes.port = PortNumber{1};
  ASSERT_TRUE(b.qp->modify(attributes, QpAttributeMask{QpAttribute::State} |
                                           QpAttribute::PKeyIndex | QpAttribute::Port |
                                           QpAttribute::QKey));
  testing::to_state(*b.qp, QpState::Rtr);
  pair.to_init(a);
  pair.to_rtr(a, b);
  pair.to_rts(a);
}

void prepare(LoopbackPair& pair, Situation situation, WrOpcode opcode) {
  Side& b = pair.b();
  if (situation == Situation::OtherType || situation == Situation::DatagramType) {
    const QpType connected = pair.a().qp->type() == QpType::Rc ? QpType::Uc : QpType::Rc;
    replace_destination(pair, situation == Situation::DatagramType ? QpType::Ud : connected);
    receive(b, 64);  // that nothing takes
  } else if (situation == Situation::NotReceiving) {
    testing::to_state(*b.qp, QpState::Reset);
  } else if (situation == Situation::NoDestination) {
    ASSERT_TRUE(b.hca.destroy_qp(*std::exchange(b.qp, nullptr)));
  } else if (situation == Situation::BadReceive) {
    const std::array sges{
        Sge{.address = b.address(), .length = 64, .lkey = LKey{0x999}}
    };
    ASSERT_TRUE(b.qp->post_recv({.wr_id = 100, .sges = sges}));
  } else if (situation == Situation::TooLong) {
    receive(b, 4);
  } else if (situation != Situation::NoReceive && has(opcode, WrTrait::NeedsCredit)) {
    receive(b, 64);
  }
}

TEST_P(LoopbackTable, EndsAsTheTableSays) {  // R-RVT-20, part of T-RVT-10
  const QpType type = std::get<0>(GetParam());
  const Row& row = kRows[std::get<1>(GetParam())];
  for (const WrOpcode opcode :
       {WrOpcode::Send, WrOpcode::SendWithImmediate, WrOpcode::SendWithInvalidate,
        WrOpcode::RdmaWrite, WrOpcode::RdmaWriteWithImmediate, WrOpcode::RdmaRead,
        WrOpcode::CompareSwap, WrOpcode::FetchAdd, WrOpcode::AtomicWrite, WrOpcode::Flush}) {
    if (!is_offered(type, opcode) || !applies(row.situation, opcode)) {
      continue;
    }
    SCOPED_TRACE(static_cast<int>(opcode));
    PairOptions options{.type = type, .retry_count = 1, .rnr_retry = 1};
    options.qp_access = row.situation == Situation::NoRight ? AccessFlags{} : options.qp_access;
    LoopbackPair pair{options};
    pair.connect();
    ASSERT_NO_FATAL_FAILURE(prepare(pair, row.situation, opcode));
    const std::vector<std::byte> before = pair.b().memory;
    request(pair, {.opcode = opcode,
                   .length = opcode == WrOpcode::AtomicWrite || opcode == WrOpcode::Flush ? 0U : 8U,
                   .offset = row.situation == Situation::OutOfRange ? 1U << 16 : 0U,
                   .rkey_change = row.situation == Situation::BadKey ? 1U : 0U});
    ASSERT_TRUE(pair.run());
    const bool is_rc = type == QpType::Rc;
    const auto sent = pair.poll(*pair.a().send_cq);
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].status, is_rc ? row.rc : Success);
    EXPECT_EQ(pair.a().qp->query().state, is_rc ? QpState::Err : QpState::Rts);
    EXPECT_EQ(pair.b().memory, before);
    const bool fails = is_rc ? row.responder_fails : row.uc_responder_fails;
    if (pair.b().qp != nullptr) {
      EXPECT_EQ(pair.b().qp->query().state == QpState::Err, fails);
    }
    const auto received = pair.poll(*pair.b().recv_cq);
    if (fails && has(opcode, WrTrait::NeedsCredit) && row.responder) {
      ASSERT_EQ(received.size(), 1U);
      const bool is_unused =
          row.situation == Situation::NoRight;  // refused before a receive WQE was taken
      EXPECT_EQ(received[0].status, is_unused ? WorkRequestFlushed : *row.responder);
    } else {
      EXPECT_TRUE(received.empty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, LoopbackTable,
                         ::testing::Combine(::testing::Values(QpType::Rc, QpType::Uc),
                                            ::testing::Range(std::size_t{0}, kRows.size())),
                         [](const auto& test) {
                           return std::string{std::get<0>(test.param) == QpType::Rc ? "Rc" : "Uc"} +
                                  kRows[std::get<1>(test.param)].name;
                         });

class LoopbackOfType : public ::testing::TestWithParam<QpType> {};

/// The row of a requester that enters ERR with an SRQ; UC's, whose request is lost, does not.
TEST_P(LoopbackOfType, ARequesterInErrorWithAnSrqIsToldThatItsLastReceiveIsReached) {
  for (const bool has_srq : {false, true}) {
    SCOPED_TRACE(has_srq);
    LoopbackPair pair{
        {.type = GetParam(), .shared_receive_queue = has_srq, .retry_count = 1}
    };
    pair.connect();
    ASSERT_NO_FATAL_FAILURE(prepare(pair, Situation::NoDestination, WrOpcode::Send));
    request(pair, {});
    ASSERT_TRUE(pair.run());
    const bool fails = GetParam() == QpType::Rc;
    EXPECT_EQ(pair.a().qp->query().state, fails ? QpState::Err : QpState::Rts);
    EXPECT_EQ(pair.a().events.count(verbs::AsyncEventType::QpLastWqeReached),
              fails && has_srq ? 1U : 0U);
  }
}

/// The row of a LOCAL_INV that fails. The peer is not concerned; the QP that posted it is in error,
/// as after any request that ends with an error (IBTA vol 1 §10.3.1.1).
TEST_P(LoopbackOfType, ALocalInvalidateOfAForeignKeyIsALocalProtectionError) {
  LoopbackPair pair{{.type = GetParam()}};
  pair.connect();
  SendWr wr = testing::signaled(WrOpcode::LocalInvalidate, {});
  wr.rkey = RKey{pair.a().region->rkey.value() ^ 0x5A00};
  testing::post(*pair.a().qp, wr);
  ASSERT_TRUE(pair.run());
  const auto completed = pair.poll(*pair.a().send_cq);
  ASSERT_EQ(completed.size(), 1U);
  EXPECT_EQ(completed[0].status, LocalProtectionError);
  EXPECT_TRUE(pair.sent.empty()) << "the peer hears nothing of it";
  EXPECT_EQ(pair.b().qp->query().state, QpState::Rts);
}

/// The row of an operation that there is not: every number without one is refused when it is
/// posted, before it could end a QP.
TEST_P(LoopbackOfType, OperationsThatThereAreNotAreRefusedWhenPosted) {
  LoopbackPair pair{{.type = GetParam()}};
  pair.connect();
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const auto wanted = static_cast<WrOpcode>(opcode);
    if (is_offered(GetParam(), wanted)) {
      continue;
    }
    const auto posted = pair.a().qp->post_send(testing::signaled(wanted, {}));
    ASSERT_FALSE(posted) << opcode;
    EXPECT_EQ(posted.error().code, ErrorCode::InvalidArgument) << opcode;
  }
  ASSERT_TRUE(pair.run());
  EXPECT_TRUE(pair.poll(*pair.a().send_cq).empty());
  EXPECT_EQ(pair.a().qp->query().state, QpState::Rts);
}

INSTANTIATE_TEST_SUITE_P(Both, LoopbackOfType, ::testing::Values(QpType::Rc, QpType::Uc),
                         [](const auto& test) {
                           return std::string{test.param == QpType::Rc ? "Rc" : "Uc"};
                         });

/// Invalid keys of every kind, used as L_Key and as R_Key.
struct KeyCase {
  const char* name;
  std::uint32_t change;  // XORed to the key
  std::uint64_t offset;
  std::uint64_t length;
  bool other_pd;
  bool invalidated;
  KeyFault expected;
};

TEST(MemoryTable, AnswersEachKindOfKeyAlikeForBothSides) {  // T-RVT-1, R-RVT-5, R-RVT-6
  constexpr std::uint64_t kBytes = 64;
  constexpr auto kCases = std::to_array<KeyCase>({
      {"valid",                0,           0, kBytes,     false, false, KeyFault::None       },
      {"other PD",             0,           0, kBytes,     true,  false, KeyFault::OtherPd    },
      {"invalidated",          0,           0, kBytes,     false, true,  KeyFault::Invalidated},
      {"low bits changed",     0x01,        0, kBytes,     false, false, KeyFault::NoSuchKey  },
      {"upper bits changed",   0x0100'0000, 0, kBytes,     false, false, KeyFault::NoSuchKey  },
      {"one past its end",     0,           1, kBytes,     false, false, KeyFault::OutOfRange },
      {"one byte longer",      0,           0, kBytes + 1, false, false, KeyFault::OutOfRange },
      {"nothing, any key",     0x5A5A'5A5A, 9, 0,          false, false, KeyFault::None       },
      {"nothing, invalidated", 0,           0, 0,          false, true,  KeyFault::None       },
  });
  for (const KeyCase& row : kCases) {
    SCOPED_TRACE(row.name);
    ProtectionDomain pd;
    ProtectionDomain other;
    MemoryTable table{4, 1, LockPolicy::None};
    std::array<std::byte, kBytes> memory{};
    const MemoryRegion& region =
        **table.add(pd, 0x1000, memory, AccessFlags{Access::LocalWrite} | Access::RemoteWrite);
    if (row.invalidated) {
      ASSERT_EQ(table.invalidate(pd, region.rkey), KeyFault::None);
    }
    const ProtectionDomain& domain = row.other_pd ? other : pd;
    const std::uint64_t at = 0x1000 + row.offset;
    EXPECT_EQ(table
                  .find(domain, LKey{region.lkey.value() ^ row.change}, at, row.length,
                        Access::LocalWrite)
                  .fault,
              row.expected);
    EXPECT_EQ(table
                  .find(domain, RKey{region.rkey.value() ^ row.change}, at, row.length,
                        Access::RemoteWrite)
                  .fault,
              row.expected);
  }
  ProtectionDomain pd;
  MemoryTable table{4, 1, LockPolicy::None};
  std::array<std::byte, kBytes> memory{};
  const MemoryRegion& region = **table.add(pd, 0, memory, AccessFlags{});
  EXPECT_EQ(table.find(pd, region.lkey, 0, 8, AccessFlags{}).fault, KeyFault::None);
  EXPECT_EQ(table.find(pd, region.lkey, 0, 8, Access::LocalWrite).fault, KeyFault::MissingAccess);
  EXPECT_EQ(table.find(pd, region.rkey, 0, 8, Access::RemoteRead).fault, KeyFault::MissingAccess);
}

}  // namespace
}  // namespace weft::hca
