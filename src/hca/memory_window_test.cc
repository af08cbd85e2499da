#include "hca/memory_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "hca/hca.h"
#include "hca/testing/loopback_pair.h"

namespace weft::hca {
namespace {

using testing::LoopbackPair;
using testing::PairOptions;
using testing::Side;

constexpr std::uint64_t kIova = 0x1000;
constexpr Qpn kQpn{0x11};
constexpr Qpn kOtherQpn{0x12};
constexpr auto kBindable = AccessFlags{Access::LocalWrite} | Access::MemoryWindowBind;

[[nodiscard]] RKey with_key_part(RKey rkey, std::uint8_t part) {
  return RKey{(rkey.value() & 0xFFFF'FF00) | part};
}

/// A table with a region of 100 bytes that allows windows.
struct Windows : ::testing::Test {
  ProtectionDomain pd;
  ProtectionDomain other;
  MemoryTable table{8, 1, LockPolicy::None, nullptr, 2};
  std::array<std::byte, 100> memory{};
  MemoryRegion& region = **table.add(pd, kIova, memory, kBindable);

  MemoryWindow& window(WindowType type) { return **table.add_window(pd, type); }
  /// Ten bytes, starting at byte 20.
  [[nodiscard]] WindowBinding part_for(const MemoryWindow& window) const {
    return {.rkey = with_key_part(window.rkey(), 7),
            .lkey = region.lkey,
            .address = kIova + 20,
            .length = 10,
            .access = Access::RemoteWrite};
  }
  [[nodiscard]] KeyFault write(RKey rkey, std::uint64_t address, std::uint64_t length,
                               Qpn qpn = kQpn) const {
    return table.find(pd, rkey, address, length, Access::RemoteWrite, qpn).fault;
  }
};

TEST_F(Windows, ShowWhatTheyAreBoundToAndNothingElse) {
  for (const WindowType type : {WindowType::Type1, WindowType::Type2}) {
    MemoryWindow& mw = window(type);
    const RKey before = mw.rkey();
    EXPECT_EQ(write(before, kIova + 20, 1), KeyFault::Invalidated) << "not bound yet";
    const WindowBinding binding = part_for(mw);
    EXPECT_EQ(table.bind(pd, kQpn, binding), "");
    EXPECT_EQ(table.find(pd, binding.rkey, kIova + 21, 9, Access::RemoteWrite, kQpn).memory.data(),
              &memory[21]);
    EXPECT_EQ(write(binding.rkey, kIova + 20, 10), KeyFault::None);
    EXPECT_EQ(write(binding.rkey, kIova + 19, 1), KeyFault::OutOfRange);
    EXPECT_EQ(write(binding.rkey, kIova + 21, 10), KeyFault::OutOfRange);
    EXPECT_EQ(write(with_key_part(binding.rkey, 8), kIova + 20, 1), KeyFault::NoSuchKey);
    EXPECT_EQ(table.find(pd, binding.rkey, kIova + 20, 1, Access::RemoteRead, kQpn).fault,
              KeyFault::MissingAccess);
    EXPECT_EQ(table.find(other, binding.rkey, kIova + 20, 1, Access::RemoteWrite, kQpn).fault,
              KeyFault::OtherPd);
    EXPECT_EQ(table.find(pd, LKey{binding.rkey.value()}, kIova + 20, 1, {}).fault,
              KeyFault::NoSuchKey)
        << "a window has no L_Key";
    EXPECT_EQ(write(binding.rkey, kIova + 20, 1, kOtherQpn),
              type == WindowType::Type1 ? KeyFault::None : KeyFault::OtherQp);
    table.remove_window(mw);
    EXPECT_EQ(write(binding.rkey, kIova + 20, 1), KeyFault::NoSuchKey);
  }
}

TEST_F(Windows, KeepTheRulesOfBinding) {
  MemoryWindow& one = window(WindowType::Type1);
  MemoryWindow& two = window(WindowType::Type2);
  std::array<std::byte, 10> more{};
  const MemoryRegion& unbindable = **table.add(pd, kIova, more, Access::LocalWrite);
  const MemoryRegion& read_only = **table.add(pd, kIova, more, Access::MemoryWindowBind);
  const MemoryRegion& foreign = **table.add(other, kIova, more, kBindable);
  const MemoryRegion& dead = **table.add(pd, kIova, more, kBindable);
  ASSERT_EQ(table.invalidate(pd, dead.rkey), KeyFault::None);
  const auto refused = [&](const MemoryWindow& mw, auto change) {
    WindowBinding binding = part_for(mw);
    change(binding);
    return !table.bind(pd, kQpn, binding).empty() && !mw.is_bound();
  };
  const auto of = [](const MemoryRegion& target) {
    return [&](WindowBinding& binding) {
      binding.lkey = target.lkey;
      binding.address = kIova;
    };
  };
  for (const MemoryWindow* mw : {&one, &two}) {
    EXPECT_TRUE(refused(*mw, of(unbindable))) << "C10-73";
    EXPECT_TRUE(refused(*mw, of(read_only))) << "C10-74";
    EXPECT_TRUE(refused(*mw, of(foreign)));
    EXPECT_TRUE(refused(*mw, of(dead)));
    EXPECT_TRUE(refused(*mw, [](WindowBinding& b) { b.length = 81; })) << "C10-75";
    EXPECT_TRUE(refused(*mw, [](WindowBinding& b) { b.address = kIova - 1; }));
    EXPECT_TRUE(refused(*mw, [](WindowBinding& b) { b.address = ~std::uint64_t{0}; }));
    EXPECT_TRUE(refused(*mw, [](WindowBinding& b) { b.lkey = LKey{1}; }));
    EXPECT_TRUE(refused(*mw, [](WindowBinding& b) { b.access = Access::OnDemand; }));
    EXPECT_TRUE(refused(*mw, [](WindowBinding& b) { b.rkey = RKey{~0U}; }));
    EXPECT_FALSE(table.bind(other, kQpn, part_for(*mw)).empty()) << "C10-72";
  }
  EXPECT_TRUE(refused(one, [](WindowBinding& b) { b.access |= Access::ZeroBased; }));
  EXPECT_TRUE(refused(two, [](WindowBinding& b) { b.length = 0; }));
  WindowBinding reading = part_for(two);
  reading.lkey = read_only.lkey;
  reading.address = kIova;
  reading.access = Access::RemoteRead;
  EXPECT_EQ(table.bind(pd, kQpn, reading), "") << "reading needs no local write";
  EXPECT_NE(table.bind(pd, kQpn, part_for(two)), "") << "bound already (o10-37.2.30)";
}

TEST_F(Windows, OfTypeOneAreBoundAnewAndUnboundByLengthZero) {
  MemoryWindow& mw = window(WindowType::Type1);
  WindowBinding binding = part_for(mw);
  ASSERT_EQ(table.bind(pd, kQpn, binding), "");
  EXPECT_EQ(table.invalidate(pd, binding.rkey, kQpn), KeyFault::CannotInvalidate);
  const RKey first = binding.rkey;
  binding.rkey = with_key_part(first, 8);
  binding.address = kIova;
  ASSERT_EQ(table.bind(pd, kQpn, binding), "");
  EXPECT_EQ(region.windows, 1U);
  EXPECT_EQ(write(first, kIova + 20, 1), KeyFault::NoSuchKey);
  EXPECT_EQ(write(binding.rkey, kIova, 1), KeyFault::None);
  WindowBinding nothing;
  nothing.rkey = with_key_part(first, 9);
  ASSERT_EQ(table.bind(pd, kQpn, nothing), "");
  EXPECT_EQ(region.windows, 0U);
  EXPECT_EQ(write(nothing.rkey, kIova, 1), KeyFault::Invalidated);
}

TEST_F(Windows, OfTypeTwoAreInvalidatedByTheirQp) {
  MemoryWindow& mw = window(WindowType::Type2);
  const WindowBinding binding = part_for(mw);
  ASSERT_EQ(table.bind(pd, kQpn, binding), "");
  EXPECT_EQ(table.invalidate(pd, binding.rkey, kOtherQpn), KeyFault::OtherQp);
  EXPECT_EQ(table.invalidate(other, binding.rkey, kQpn), KeyFault::OtherPd);
  EXPECT_EQ(table.invalidate(pd, with_key_part(binding.rkey, 9), kQpn), KeyFault::NoSuchKey);
  EXPECT_EQ(write(binding.rkey, kIova + 20, 1), KeyFault::None);
  EXPECT_EQ(table.invalidate(pd, binding.rkey, kQpn), KeyFault::None);
  EXPECT_EQ(write(binding.rkey, kIova + 20, 1), KeyFault::Invalidated);
  EXPECT_EQ(table.bind(pd, kOtherQpn, part_for(mw)), "") << "free for another QP";
}

TEST_F(Windows, KeepTheirRegionAsItIs) {
  MemoryWindow& mw = window(WindowType::Type2);
  ASSERT_EQ(table.bind(pd, kQpn, part_for(mw)), "");
  EXPECT_EQ(table.remove(region).error().code, ErrorCode::Busy);
  EXPECT_EQ(table.replace(region, pd, 0, memory, kBindable).error().code, ErrorCode::Busy);
  EXPECT_EQ(table.invalidate(pd, region.rkey), KeyFault::CannotInvalidate);
  table.remove_window(mw);
  EXPECT_TRUE(table.remove(region));
}

TEST_F(Windows, AreZeroBasedIfAsked) {
  MemoryWindow& mw = window(WindowType::Type2);
  WindowBinding binding = part_for(mw);
  binding.access |= Access::ZeroBased;
  ASSERT_EQ(table.bind(pd, kQpn, binding), "");
  EXPECT_EQ(table.find(pd, binding.rkey, 1, 9, Access::RemoteWrite, kQpn).memory.data(),
            &memory[21]);
  EXPECT_EQ(write(binding.rkey, 1, 10), KeyFault::OutOfRange);
  EXPECT_EQ(write(binding.rkey, kIova + 20, 1), KeyFault::OutOfRange);
}

TEST_F(Windows, AreAsManyAsTheDeviceAllows) {
  const RKey first = window(WindowType::Type1).rkey();
  EXPECT_NE(first.value() >> kKeyIndexShift,
            window(WindowType::Type2).rkey().value() >> kKeyIndexShift);
  EXPECT_EQ(table.add_window(pd, WindowType::Type1).error().code, ErrorCode::OutOfMemory);
}

// --- through work requests: b binds, a accesses

[[nodiscard]] PairOptions with_windows(QpType type = QpType::Rc) {
  PairOptions options;
  options.type = type;
  options.region_access = options.region_access | Access::MemoryWindowBind;
  return options;
}

struct WindowPair {
  explicit WindowPair(QpType type = QpType::Rc, WindowType window_type = WindowType::Type2)
      : pair(with_windows(type)),
        window(**pair.b().hca.allocate_window(*pair.b().pd, window_type)) {
    pair.connect();
    std::ranges::fill(pair.a().memory, std::byte{0xA5});
    binding = {.rkey = with_key_part(window.rkey(), 1),
               .lkey = pair.b().region->lkey,
               .address = pair.b().address(0x100),
               .length = 16,
               .access = Access::RemoteWrite};
  }

  void post(Side& side, WrOpcode opcode, std::uint64_t wr_id, SendFlags flags = Send::Signaled) {
    SendWr wr;
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.flags = flags;
    const std::array sges{side.sge(0, 16)};
    if (opcode == WrOpcode::BindMemoryWindow) {
      wr.binding = &binding;
    } else if (opcode != WrOpcode::LocalInvalidate) {
      wr.sges = sges;
      wr.remote_address = binding.address;
    }
    wr.rkey = opcode == WrOpcode::RdmaRead ? pair.a().region->rkey : binding.rkey;
    if (opcode == WrOpcode::RdmaRead) {
      wr.remote_address = pair.a().address();
    }
    const auto posted = side.qp->post_send(wr);
    ASSERT_TRUE(posted) << posted.error().reason;
  }
  void post_receive(Side& side) {
    const std::array sges{side.sge(0x800, 64)};
    ASSERT_TRUE(side.qp->post_recv({.wr_id = 100, .sges = sges}));
  }
  std::vector<Wc> finish(Side& side) {
    EXPECT_TRUE(pair.run());
    return pair.poll(*side.send_cq);
  }
  WcStatus outcome(Side& side, WrOpcode opcode) {
    post(side, opcode, 1);
    const auto completions = finish(side);
    return completions.size() == 1 ? completions[0].status : WcStatus::GeneralError;
  }

  LoopbackPair pair;
  MemoryWindow& window;
  WindowBinding binding;
};

TEST(MemoryWindow, TakesWritesUntilItIsInvalidatedLocally) {
  for (const QpType type : {QpType::Rc, QpType::Uc}) {
    WindowPair test{type};
    Side& a = test.pair.a();
    Side& b = test.pair.b();
    test.post(b, WrOpcode::BindMemoryWindow, 9);
    const auto bound = test.finish(b);
    ASSERT_EQ(bound.size(), 1U);
    EXPECT_EQ(bound[0].status, WcStatus::Success);
    EXPECT_EQ(bound[0].opcode, WcOpcode::BindMemoryWindow);
    EXPECT_EQ(bound[0].wr_id, 9U);
    EXPECT_EQ(test.outcome(a, WrOpcode::RdmaWrite), WcStatus::Success);
    EXPECT_EQ(b.memory[0x10F], std::byte{0xA5});
    EXPECT_EQ(b.memory[0x110], std::byte{0});
    b.memory[0x10F] = std::byte{0};
    EXPECT_EQ(test.outcome(b, WrOpcode::LocalInvalidate), WcStatus::Success);
    EXPECT_EQ(test.outcome(a, WrOpcode::RdmaWrite),
              type == QpType::Rc ? WcStatus::RemoteAccessError : WcStatus::Success);
    EXPECT_EQ(b.memory[0x10F], std::byte{0});
  }
}

TEST(MemoryWindow, IsInvalidatedByThePeersSend) {
  WindowPair test;
  Side& a = test.pair.a();
  Side& b = test.pair.b();
  ASSERT_EQ(test.outcome(b, WrOpcode::BindMemoryWindow), WcStatus::Success);
  test.post_receive(b);
  EXPECT_EQ(test.outcome(a, WrOpcode::SendWithInvalidate), WcStatus::Success);
  const auto received = test.pair.poll(*b.recv_cq);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_TRUE(received[0].flags.has(Completion::WithInvalidate));
  EXPECT_EQ(received[0].invalidated_rkey, test.binding.rkey);
  EXPECT_FALSE(test.window.is_bound());
  EXPECT_EQ(test.outcome(a, WrOpcode::RdmaWrite), WcStatus::RemoteAccessError);
}

TEST(MemoryWindow, OfTypeOneWithstandsThePeersSend) {
  WindowPair test{QpType::Rc, WindowType::Type1};
  ASSERT_EQ(test.outcome(test.pair.b(), WrOpcode::BindMemoryWindow), WcStatus::Success);
  test.post_receive(test.pair.b());
  EXPECT_EQ(test.outcome(test.pair.a(), WrOpcode::SendWithInvalidate), WcStatus::RetryExceeded)
      << "no NAK: class J (IBTA vol 1 §9.9.6.3)";
  EXPECT_TRUE(test.window.is_bound());
}

TEST(MemoryWindow, BadBindEndsInItsOwnStatusAndStopsTheSendQueue) {
  for (const QpType type : {QpType::Rc, QpType::Uc}) {
    WindowPair test{type};
    Side& b = test.pair.b();
    test.binding.length = b.memory.size();
    test.post(b, WrOpcode::BindMemoryWindow, 1, {});
    test.post(b, WrOpcode::Send, 2, {});
    const auto completions = test.finish(b);
    ASSERT_EQ(completions.size(), 2U);
    EXPECT_EQ(completions[0].status, WcStatus::MemoryWindowBindError);
    EXPECT_EQ(completions[1].status, WcStatus::WorkRequestFlushed);
    EXPECT_EQ(b.qp->query().state, type == QpType::Rc ? QpState::Err : QpState::Sqe);
    ASSERT_FALSE(b.events.reasons.empty());
    EXPECT_NE(b.events.reasons.front().find("would leave the region"), std::string::npos);
  }
}

TEST(MemoryWindow, IsBoundInTheOrderOfTheSendQueue) {
  WindowPair test;
  Side& b = test.pair.b();
  test.post(b, WrOpcode::RdmaRead, 1);
  test.post(b, WrOpcode::BindMemoryWindow, 2, SendFlags{Send::Signaled} | Send::Fence);
  test.post(b, WrOpcode::LocalInvalidate, 3);
  test.post(b, WrOpcode::BindMemoryWindow, 4);
  test.pair.collect();
  EXPECT_FALSE(test.window.is_bound()) << "the fence waits for the READ";
  const auto completions = test.finish(b);
  ASSERT_EQ(completions.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(completions[i].status, WcStatus::Success);
    EXPECT_EQ(completions[i].wr_id, i + 1);
  }
  EXPECT_TRUE(test.window.is_bound());
}

TEST(MemoryWindow, IsReadAgainWhenTheAnswerWasLost) {
  WindowPair test;
  Side& a = test.pair.a();
  test.binding.access = Access::RemoteRead;
  ASSERT_EQ(test.outcome(test.pair.b(), WrOpcode::BindMemoryWindow), WcStatus::Success);
  int lost = 0;
  test.pair.filter = [&](const testing::InFlightPacket& in_flight_packet) {
    return in_flight_packet.flow != Flow::Response || ++lost > 1;
  };
  SendWr wr;
  wr.opcode = WrOpcode::RdmaRead;
  wr.flags = Send::Signaled;
  const std::array sges{a.sge(0, 16)};
  wr.sges = sges;
  wr.remote_address = test.binding.address;
  wr.rkey = test.binding.rkey;
  ASSERT_TRUE(a.qp->post_send(wr));
  const auto completions = test.finish(a);
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].status, WcStatus::Success);
  EXPECT_EQ(a.memory[0], test.pair.b().memory[0x100]);
}

TEST(MemoryWindow, KeepsItsDomainAndLetsGoOfItsRegion) {
  WindowPair test;
  Side& b = test.pair.b();
  ProtectionDomain& pd = **b.hca.allocate_pd();
  MemoryWindow& alone = **b.hca.allocate_window(pd, WindowType::Type1);
  EXPECT_EQ(b.hca.deallocate_pd(pd).error().code, ErrorCode::Busy);
  b.hca.deallocate_window(alone);
  EXPECT_TRUE(b.hca.deallocate_pd(pd));
  ASSERT_EQ(test.outcome(b, WrOpcode::BindMemoryWindow), WcStatus::Success);
  EXPECT_EQ(b.hca.deregister_memory(*b.region).error().code, ErrorCode::Busy);
  b.hca.deallocate_window(test.window);
  EXPECT_EQ(test.outcome(test.pair.a(), WrOpcode::RdmaWrite), WcStatus::RemoteAccessError);
  EXPECT_TRUE(b.hca.deregister_memory(*b.region));
}

}  // namespace
}  // namespace weft::hca
