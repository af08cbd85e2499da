#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "hca/hca.h"
#include "verbs/mtu.h"

/// One HCA used by several threads, as only a driver does.
namespace weft::host {
namespace {

class NoEvents final : public hca::HcaEvents {
 public:
  void completion_event(hca::CompletionQueue&) override {}
  void async_event(const hca::AsyncEvent&) override {}
  [[nodiscard]] bool explains_errors() const override { return false; }
  void explain(std::string_view) override {}
};

/// A program that polls the last byte sees all bytes written before it, whether that byte is stored
/// alone or with the word that it ends.
TEST(SharedMemory, ShowsTheLastByteOfAWriteLast) {  // T-RVT-8, R-RVT-18
  constexpr std::size_t kSlots = 8;                 // one reader follows one writer through them
  constexpr std::uint32_t kRounds = 1'000'000 / kSlots;
  constexpr std::size_t kSlotBytes =
      8'192;  // long enough that the copy takes longer than a word's visibility
  const auto bytes_of_slot = [](std::size_t slot) { return kSlotBytes - slot % 2; };
  std::vector<std::uint64_t> memory(kSlots * kSlotBytes / 8);
  const auto all = std::as_writable_bytes(std::span{memory});
  std::atomic<std::uint32_t> seen{0};
  std::thread writer{[&] {
    std::array<std::byte, kSlotBytes> payload;
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      payload.fill(static_cast<std::byte>(round));
      for (std::size_t slot = 0; slot < kSlots; ++slot) {
        const std::size_t bytes = bytes_of_slot(slot);
        hca::place_last_bytes_atomically(all.subspan(slot * kSlotBytes, bytes),
                                         std::span{payload}.first(bytes));
      }
      while (seen.load(std::memory_order_acquire) != round) {
        std::this_thread::yield();
      }
    }
  }};
  std::uint64_t early = 0;
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    const auto value = static_cast<std::byte>(round);
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      std::byte* const start = &all[slot * kSlotBytes];
      const std::size_t bytes = bytes_of_slot(slot);
      const std::atomic_ref<std::byte> last{start[bytes - 1]};
      for (int tries = 0; last.load(std::memory_order_acquire) != value; ++tries) {
        if (tries > 20'000) {
          std::this_thread::yield();
        }
      }
      // Checks the bytes copied last and first, and a different place each time; all bytes would
      // take too long.
      for (const std::size_t at : {bytes - 9, std::size_t{0}, round * 61 % bytes}) {
        early += start[at] == value ? 0 : 1;
      }
    }
    seen.store(round, std::memory_order_release);
  }
  writer.join();
  EXPECT_EQ(early, 0U);
}

/// A change of a port reaches every QP, and a visit of all QPs sees each permanent one exactly
/// once, and none that is destroyed.
TEST(SharedHca, VisitsEveryQpWhileOthersComeAndGo) {  // T-RVT-9, R-RVT-19
  constexpr std::size_t kLasting = 10'000;
  constexpr int kRounds = 20;
  NoEvents events;
  hca::HcaConfiguration configuration;
  configuration.lock_policy = LockPolicy::Spin;
  hca::Hca engine{configuration, events};
  hca::QpInit init;
  init.type = hca::QpType::Ud;
  init.pd = *engine.allocate_pd();
  init.send_cq = init.recv_cq = *engine.create_cq(4);
  const auto to_init = [](hca::Qp& qp) {
    hca::QpAttributes to;
    to.state = hca::QpState::Init;
    to.port = PortNumber{1};
    return qp.modify(to, hca::QpAttributeMask{hca::QpAttribute::State} |
                             hca::QpAttribute::PKeyIndex | hca::QpAttribute::Port |
                             hca::QpAttribute::QKey);
  };
  hca::PortAttributes port;
  port.lid = Lid{1};
  port.pkeys = {kDefaultPKey};
  engine.set_port(PortNumber{1}, port);
  std::vector<hca::Qp*> lasting;
  for (std::size_t i = 0; i < kLasting; ++i) {
    lasting.push_back(*engine.create_qp(init));
    ASSERT_TRUE(to_init(*lasting.back()));
  }
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> passing{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        hca::Qp* const qp = *engine.create_qp(init);
        EXPECT_TRUE(to_init(*qp));
        EXPECT_TRUE(engine.destroy_qp(*qp));
        ++passing;
      }
    });
  }
  std::uint64_t strangers = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t before = passing;
    port.active_mtu = round % 2 == 0 ? verbs::Mtu::Mtu512 : verbs::Mtu::Mtu1024;
    engine.set_port(PortNumber{1}, port);
    std::map<hca::Qp*, unsigned> visits;
    engine.for_each_qp([&](hca::Qp& qp) {
      ++visits[&qp];
      strangers +=
          qp.query().path_mtu == port.active_mtu ? 0 : 1;  // reads memory that must be alive
    });
    for (hca::Qp* const qp : lasting) {
      ASSERT_EQ(visits[qp], 1U) << "round " << round;
      ASSERT_EQ(qp->query().path_mtu, port.active_mtu) << "round " << round;
    }
    while (passing == before) {
      std::this_thread::yield();  // QPs were created and destroyed in each round
    }
  }
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_LE(strangers, 4U * kRounds);  // just created, and not in INIT yet
  std::size_t left = 0;
  engine.for_each_qp([&](hca::Qp&) { ++left; });
  EXPECT_EQ(left, kLasting);
}

}  // namespace
}  // namespace weft::host
