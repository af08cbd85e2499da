// When a key has ended by a work request, nobody uses it any more: requests that found it good are
// waited for (Qp::fence_key).

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <thread>

#include "hca/memory_window.h"
#include "hca/qp.h"
#include "hca/testing/loopback_pair.h"

namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::PairOptions;
using testing::Side;

constexpr std::uint32_t kLength = 16;

/// Memory of which one fault lasts until it may end.
class SlowMemory final : public UserMemory {
 public:
  [[nodiscard]] bool fault_in(std::span<std::byte> /*range*/, bool /*for_writing*/) override {
    if (faults_left.fetch_sub(1) == 1) {
      entered.count_down();
      may_end.wait();
    }
    return true;
  }
  [[nodiscard]] bool persist(std::span<std::byte> /*range*/) override { return true; }

  std::atomic<int> faults_left;  // until that one
  std::latch entered{1};
  std::latch may_end{1};
};

[[nodiscard]] PairOptions options_for(QpType type, UserMemory* memory) {
  PairOptions options{.type = type, .user_memory = memory, .lock_policy = LockPolicy::Spin};
  options.region_access = options.region_access | Access::MemoryWindowBind;
  if (memory != nullptr) {
    options.region_access = options.region_access | Access::OnDemand;
  }
  return options;
}

/// The R_Key that `rkey` becomes by its low 8 bits, which a binding chooses.
[[nodiscard]] RKey with_key_part(RKey rkey, std::uint8_t part) {
  return RKey{(rkey.value() & ~0xFFU) | part};
}

class Window {
 public:
  Window(Side& side, WindowType type)
      : side_(side), window_(**side.hca.allocate_window(*side.pd, type)), type_(type) {}

  [[nodiscard]] RKey rkey() const { return window_.rkey(); }
  /// The work request that binds it to the start of the side's memory.
  [[nodiscard]] SendWr bind() {
    binding_ = {.rkey = with_key_part(window_.rkey(), ++key_part_),
                .lkey = side_.region->lkey,
                .address = side_.address(),
                .length = kLength,
                .access = Access::RemoteWrite};
    return request(WrOpcode::BindMemoryWindow);
  }
  /// The one that ends its key, in the way of its type.
  [[nodiscard]] SendWr end() {
    if (type_ == WindowType::Type2) {
      return request(WrOpcode::LocalInvalidate);
    }
    binding_.length = 0;
    binding_.rkey = with_key_part(window_.rkey(), ++key_part_);
    return request(WrOpcode::BindMemoryWindow);
  }

 private:
  [[nodiscard]] SendWr request(WrOpcode opcode) {
    SendWr wr;
    wr.opcode = opcode;
    wr.flags = Send::Signaled;
    wr.rkey = window_.rkey();
    wr.binding = opcode == WrOpcode::BindMemoryWindow ? &binding_ : nullptr;
    return wr;
  }

  Side& side_;
  MemoryWindow& window_;
  WindowType type_;
  WindowBinding binding_;
  std::uint8_t key_part_{};
};

/// For what sends nothing.
class Nowhere final : public TransmitSink {
 public:
  [[nodiscard]] std::uint32_t max_train_bytes() const override { return 0; }
  [[nodiscard]] bool send(Flow /*flow*/, const PacketHeader& /*header*/,
                          std::span<const ByteSpan> /*gather*/) override {
    return false;
  }
};

class KeyFence : public ::testing::TestWithParam<WindowType> {};

TEST_P(KeyFence, WaitsForARequestThatFoundTheKeyGood) {
  SlowMemory memory;
  LoopbackPair pair{options_for(QpType::Rc, &memory)};
  pair.connect();
  Window window{pair.b(), GetParam()};
  ASSERT_TRUE(pair.post_and_transmit(1, window.bind()));
  ASSERT_TRUE(pair.run());
  ASSERT_EQ(pair.poll(*pair.b().send_cq).size(), 1U);
  const std::array sges{pair.a().sge(0, kLength)};
  SendWr write;
  write.opcode = WrOpcode::RdmaWrite;
  write.sges = sges;
  write.remote_address = pair.b().address();
  write.rkey = window.rkey();
  pair.a().memory.front() = std::byte{0xA5};
  ASSERT_TRUE(pair.post_and_transmit(0, write));
  const InFlightPacket packet = pair.wire.front();
  pair.wire.clear();

  memory.faults_left = 2;  // the key is looked for when the message begins, and for each packet
  std::jthread responder{[&] { pair.b().qp->handle_packet(packet.packet(), pair.now()); }};
  memory.entered.wait();
  std::future<bool> ended = std::async(
      std::launch::async, [&] { return pair.post_and_transmit(1, window.end()).has_value(); });
  // Without the fence it ends at once; with it, at no time.
  EXPECT_EQ(ended.wait_for(std::chrono::milliseconds{100}), std::future_status::timeout);
  memory.may_end.count_down();
  EXPECT_TRUE(ended.get());
  EXPECT_EQ(pair.b().memory.front(), std::byte{0xA5});
  const std::vector<Wc> completions = pair.poll(*pair.b().send_cq);
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions.front().status, WcStatus::Success);
}

INSTANTIATE_TEST_SUITE_P(Types, KeyFence, ::testing::Values(WindowType::Type1, WindowType::Type2));

/// QPs without halves hold their responders' locks in the fence.
TEST(KeyFences, OfSeveralQpsDoNotWaitForEachOther) {
  constexpr int kRounds = 2'000;
  LoopbackPair pair{options_for(QpType::Uc, nullptr)};
  pair.connect();
  Side& side = pair.b();
  Qp* const first = side.qp;
  side.qp = *side.hca.create_qp({
      .type = QpType::Uc,
      .pd = side.pd,
      .send_cq = side.send_cq,
      .recv_cq = side.recv_cq,
      .capabilities = {.max_send_wr = 4, .max_recv_wr = 4}
  });
  Qp* const second = side.qp;
  pair.to_init(side);
  pair.to_rtr(side, pair.a());
  pair.to_rts(side);
  const auto bind_and_end = [&](Qp& qp) {
    Window window{side, WindowType::Type1};
    for (int i = 0; i < kRounds; ++i) {
      for (SendWr wr : {window.bind(), window.end()}) {
        wr.flags = {};
        EXPECT_TRUE(qp.post_send(wr));
        Nowhere sink;
        static_cast<void>(qp.transmit(sink, pair.now(), 1));
      }
    }
  };
  std::jthread other{[&] { bind_and_end(*second); }};
  bind_and_end(*first);
}

}  // namespace
}  // namespace weft::hca
