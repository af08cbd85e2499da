#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hca/fast_region.h"
#include "hca/hca.h"
#include "hca/paged_memory.h"
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

/// Takes the responses that nobody waits for.
class Nowhere final : public hca::TransmitSink {
 public:
  [[nodiscard]] std::uint32_t max_train_bytes() const override { return 0; }
  [[nodiscard]] bool send(hca::Flow /*flow*/, const hca::PacketHeader& /*header*/,
                          std::span<const ByteSpan> /*gather*/) override {
    return true;
  }
};

constexpr std::size_t kSlots = 128;  // one reader follows one writer through them
constexpr std::size_t kSlotBytes =
    8'192;  // long enough that the copy takes longer than a word's visibility
constexpr std::size_t kPageBytes = 4'096;  // and the path's MTU

struct WayOfWriting {
  const char* name;
  hca::QpType type;
  bool is_paged;  // the region is in pieces, which lie in reverse
  std::uint32_t writes;
};

/// A program's memory, which an RDMA WRITE of two packets fills slot by slot.
class WrittenMemory {
 public:
  explicit WrittenMemory(const WayOfWriting& way)
      : is_rc_(way.type == hca::QpType::Rc), is_paged_(way.is_paged) {
    hca::PortAttributes port;
    port.state = hca::PortState::Active;
    port.lid = Lid{1};
    port.pkeys = {kDefaultPKey};
    engine_.set_port(PortNumber{1}, port);
    pd_ = *engine_.allocate_pd();
    rkey_ = is_paged_ ? show_pages() : show_range();
    receive_requests(way.type);
  }

  /// A byte of a slot as the program sees it.
  [[nodiscard]] std::byte& at(std::size_t slot, std::size_t offset) {
    const std::size_t page = (slot * kSlotBytes + offset) / kPageBytes;
    return page_of_region(page)[offset % kPageBytes];
  }

  /// Both packets at once, as a train, or one after the other.
  void write(std::size_t slot, ByteSpan payload, bool is_train) {
    const auto first = is_rc_ ? wire::Opcode::RcRdmaWriteFirst : wire::Opcode::UcRdmaWriteFirst;
    const auto last = is_rc_ ? wire::Opcode::RcRdmaWriteLast : wire::Opcode::UcRdmaWriteLast;
    hca::PacketHeader header;
    header.path_mtu_bytes = kPageBytes;
    header.dest_qp = qp_->number();
    header.pkey = kDefaultPKey;
    header.slid = Lid{2};
    header.dlid = Lid{1};
    header.extension.reth = {.virtual_address = kIova + slot * kSlotBytes,
                             .rkey = rkey_,
                             .dma_length = static_cast<std::uint32_t>(payload.size())};
    const auto deliver = [&](wire::Opcode from, wire::Opcode to, ByteSpan bytes) {
      header.opcode = from;
      header.last_opcode = to;
      header.packet_count = from == to ? 1 : 2;
      header.ack_request = to == last;
      header.psn = psn_;
      psn_ = psn_ + header.packet_count;
      engine_.handle_packet(PortNumber{1}, {.header = header, .payload = bytes}, {});
    };
    if (is_train) {
      deliver(first, last, payload);
    } else {
      deliver(first, first, payload.first(kPageBytes));
      deliver(last, last, payload.subspan(kPageBytes));
    }
    qp_->transmit(nowhere_, {}, 16);
  }

  [[nodiscard]] bool is_receiving() { return qp_->query().state == hca::QpState::Rtr; }

 private:
  static constexpr std::uint64_t kIova = 0x10'0000;
  static constexpr std::size_t kPages = kSlots * kSlotBytes / kPageBytes;
  static constexpr hca::AccessFlags kAccess =
      hca::AccessFlags{hca::Access::LocalWrite} | hca::Access::RemoteWrite;

  [[nodiscard]] std::span<std::byte> page_of_region(std::size_t index) {
    const std::size_t page = is_paged_ ? kPages - 1 - index : index;
    return std::as_writable_bytes(std::span{words_}).subspan(page * kPageBytes, kPageBytes);
  }
  [[nodiscard]] RKey show_range() {
    return (*engine_.register_memory(*pd_, kIova, std::as_writable_bytes(std::span{words_}),
                                     kAccess))
        ->rkey;
  }
  [[nodiscard]] RKey show_pages() {
    hca::FastRegion& region = **engine_.allocate_fast_region(*pd_, kPages);
    hca::PagedMemory memory;
    for (std::size_t i = 0; i < kPages; ++i) {
      memory.add(page_of_region(i));
    }
    engine_.map(region, kIova, std::move(memory));
    const RKey key{region.key() | 7};
    EXPECT_TRUE(engine_.show(region, key, kAccess));
    return key;
  }
  void receive_requests(hca::QpType type) {
    hca::QpInit init;
    init.type = type;
    init.pd = pd_;
    init.send_cq = init.recv_cq = *engine_.create_cq(4);
    qp_ = *engine_.create_qp(init);
    hca::QpAttributes to;
    to.state = hca::QpState::Init;
    to.port = PortNumber{1};
    to.access = hca::Access::RemoteWrite;
    using enum hca::QpAttribute;
    EXPECT_TRUE(qp_->modify(to, hca::QpAttributeMask{State} | PKeyIndex | Port | RemoteAccess));
    to.state = hca::QpState::Rtr;
    to.path_mtu = verbs::Mtu::Mtu4096;
    to.rq_psn = psn_;
    to.address.dlid = Lid{2};
    to.address.port = PortNumber{1};
    hca::QpAttributeMask mask =
        hca::QpAttributeMask{State} | AddressVector | PathMtu | DestQpn | RqPsn;
    if (is_rc_) {
      mask |= hca::QpAttributeMask{MaxDestRdAtomic} | MinRnrTimer;
    }
    EXPECT_TRUE(qp_->modify(to, mask));
  }

  bool is_rc_;
  bool is_paged_;
  std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(kSlots * kSlotBytes / 8);
  NoEvents events_;
  Nowhere nowhere_;
  hca::Hca engine_{hca::HcaConfiguration{}, events_};
  hca::ProtectionDomain* pd_{};
  hca::Qp* qp_{};
  RKey rkey_;
  Psn psn_{0};
};

class SharedMemory : public ::testing::TestWithParam<WayOfWriting> {
 protected:
  /// Every second slot's last byte is stored alone; else it is with the word that it ends.
  [[nodiscard]] static std::size_t bytes_of(std::size_t slot) { return kSlotBytes - slot % 2; }

  void write_round(std::uint32_t round) {
    std::array<std::byte, kSlotBytes> payload;
    payload.fill(static_cast<std::byte>(round));
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      memory_.write(slot, std::span{payload}.first(bytes_of(slot)), round % 4 < 2);
    }
  }

  /// Waits for the last byte of a slot, and counts those before it that are not there: the bytes
  /// copied last and first of each packet, and a different place each time; all of them in some
  /// rounds, since they take longer.
  [[nodiscard]] std::size_t early_bytes(std::size_t slot, std::uint32_t round) {
    const auto value = static_cast<std::byte>(round);
    const std::size_t bytes = bytes_of(slot);
    const std::atomic_ref<std::byte> last{memory_.at(slot, bytes - 1)};
    // Found before the wait, so that they are read at once after it.
    const std::array before{&memory_.at(slot, 0), &memory_.at(slot, bytes - 9),
                            &memory_.at(slot, kPageBytes - 1), &memory_.at(slot, kPageBytes),
                            &memory_.at(slot, round * 61 % bytes)};
    for (int tries = 0; last.load(std::memory_order_acquire) != value; ++tries) {
      if (tries > 20'000) {
        std::this_thread::yield();
      }
    }
    std::size_t early = 0;
    for (const std::byte* const place : before) {
      early += *place == value ? 0 : 1;
    }
    if (round % 16 == 0) {
      std::array<std::byte, kPageBytes> whole;
      whole.fill(value);
      for (std::size_t at = 0; at < bytes; at += kPageBytes) {
        const std::size_t length = std::min(kPageBytes, bytes - at);
        early += std::memcmp(&memory_.at(slot, at), whole.data(), length) == 0 ? 0 : 1;
      }
    }
    return early;
  }

  WrittenMemory memory_{GetParam()};
};

/// A program that polls the last byte sees all bytes written before it.
TEST_P(SharedMemory, ShowsTheLastByteOfAWriteLast) {  // T-RVT-8, R-RVT-18
  const std::uint32_t rounds = GetParam().writes / kSlots;
  std::atomic<std::uint32_t> seen{0};
  std::thread writer{[&] {
    for (std::uint32_t round = 1; round <= rounds; ++round) {
      write_round(round);
      while (seen.load(std::memory_order_acquire) != round) {
        std::this_thread::yield();
      }
    }
  }};
  std::uint64_t early = 0;
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      early += early_bytes(slot, round);
    }
    seen.store(round, std::memory_order_release);
  }
  writer.join();
  EXPECT_EQ(early, 0U);
  EXPECT_TRUE(memory_.is_receiving());
}

constexpr auto kWaysOfWriting = std::to_array<WayOfWriting>({
    {.name = "Rc",           .type = hca::QpType::Rc, .is_paged = false, .writes = 1'000'000},
    {.name = "Uc",           .type = hca::QpType::Uc, .is_paged = false, .writes = 100'000  },
    {.name = "RcIntoPieces", .type = hca::QpType::Rc, .is_paged = true,  .writes = 100'000  },
});
INSTANTIATE_TEST_SUITE_P(Each, SharedMemory, ::testing::ValuesIn(kWaysOfWriting),
                         [](const auto& test) { return std::string{test.param.name}; });

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
