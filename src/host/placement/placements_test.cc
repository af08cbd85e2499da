#include "host/placement/placements.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <csignal>
#include <cstddef>
#include <span>
#include <vector>

#include "host/placement/peer_placement.h"
#include "host/placement/placement_guard.h"
#include "host/placement/placement_memory.h"
#include "os/peer_memory.h"
#include "ring/placement.h"

namespace weft::host {
namespace {

using verbs::Access;

constexpr verbs::AccessFlags kAllRights =
    verbs::AccessFlags{Access::RemoteRead} | Access::RemoteWrite | Access::RemoteAtomic;
constexpr Qpn kQpn{0x1234};
constexpr RKey kKey{0x5678};
constexpr std::uint64_t kIova = 0x1'0000'0000;
constexpr std::uint64_t kTables = 5;
constexpr std::size_t kLength = 10'000;

/// An owner of memory and an initiator, both in this process; a child of it may be the initiator,
/// too, since the memory between the two is shared with it.
class PlacementsOfAPair : public ::testing::Test {
 protected:
  PlacementsOfAPair()
      : shared_(map(kPlacementBytes)),
        memory_(map(kLength)),
        owned_(owner_.add_peer()),
        initiator_(initiators_.add_peer()) {
    owned_.open(shared_, 0, getpid());
    initiator_.open(shared_, 1, getpid());
    for (std::size_t i = 0; i < data_.size(); ++i) {
      data_[i] = static_cast<std::byte>(1 + i % 250);
    }
    request_.dest_qp = kQpn;
  }
  ~PlacementsOfAPair() override {
    munmap(shared_.data(), shared_.size());
    munmap(memory_.data(), memory_.size());
  }

  [[nodiscard]] static MutableByteSpan map(std::size_t bytes) {
    void* const at =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return {static_cast<std::byte*>(at), bytes};
  }

  void grant(verbs::AccessFlags rights = kAllRights) {
    const auto epoch = owner_.epoch(owned_);
    ASSERT_TRUE(epoch);
    owner_.grant(owned_, *epoch, kTables, kQpn, memory(rights));
  }
  [[nodiscard]] hca::PlaceableMemory memory(verbs::AccessFlags rights = kAllRights) {
    return {
        .rkey = kKey, .iova = kIova, .length = kLength, .memory = memory_.data(), .rights = rights};
  }
  [[nodiscard]] hca::PlacementTarget target(std::uint64_t offset, std::uint32_t length) const {
    return {.request = request_,
            .right = Access::RemoteWrite,
            .rkey = kKey,
            .address = kIova + offset,
            .length = length};
  }
  [[nodiscard]] PlacementWay write(std::uint64_t offset, std::uint32_t length,
                                   std::uint64_t tables = kTables) {
    const std::array from{ByteSpan{data_}.first(length)};
    return initiator_.place({.target = target(offset, length),
                             .from = from,
                             .to = {},
                             .atomic = {},
                             .is_first = true,
                             .is_last = true,
                             .path_mtu = verbs::Mtu::Mtu4096},
                            tables);
  }
  [[nodiscard]] bool is_untouched() const {
    return std::ranges::all_of(memory_, [](std::byte each) { return each == std::byte{}; });
  }

  MutableByteSpan shared_;
  MutableByteSpan memory_;
  Placements owner_;
  Placements initiators_;
  PeerPlacement& owned_;
  PeerPlacement& initiator_;
  std::vector<std::byte> data_ = std::vector<std::byte>(kLength);
  hca::PacketHeader request_;
};

TEST_F(PlacementsOfAPair, WriteWhatIsGranted) {
  EXPECT_EQ(write(0, 100), PlacementWay::NotGranted);
  grant();
  EXPECT_EQ(initiator_.find(target(5'000, 5'000), kTables), PlacementWay::Placed);
  EXPECT_EQ(write(5'000, 5'000), PlacementWay::Placed);
  EXPECT_TRUE(std::ranges::equal(memory_.subspan(5'000), std::span{data_}.first(5'000)));
}

TEST_F(PlacementsOfAPair, TellTheOwnerOnceWhatIsMissed) {
  EXPECT_FALSE(owned_.take_wish());
  EXPECT_EQ(initiator_.find(target(0, 100), kTables), PlacementWay::NotGranted);
  EXPECT_EQ(initiator_.find(target(0, 100), kTables), PlacementWay::NotGranted);
  EXPECT_TRUE(owned_.take_wish());
  EXPECT_FALSE(owned_.take_wish());
  grant();
  EXPECT_EQ(initiator_.find(target(0, 100), kTables), PlacementWay::Placed);
  EXPECT_FALSE(owned_.take_wish());
}

TEST_F(PlacementsOfAPair, ReadWhatIsGranted) {
  grant(Access::RemoteRead);
  std::ranges::copy(data_, memory_.begin());
  std::vector<std::byte> into(3'000);
  const std::array to{MutableByteSpan{into}};
  hca::PlacementTarget from = target(100, 3'000);
  EXPECT_EQ(write(100, 3'000), PlacementWay::NotGranted) << "it may only be read";
  const hca::PlacementTarget read{.request = request_,
                                  .right = Access::RemoteRead,
                                  .rkey = kKey,
                                  .address = from.address,
                                  .length = from.length};
  EXPECT_EQ(initiator_.place({.target = read,
                              .from = {},
                              .to = to,
                              .atomic = {},
                              .is_first = true,
                              .is_last = true,
                              .path_mtu = verbs::Mtu::Mtu4096},
                             kTables),
            PlacementWay::Placed);
  EXPECT_TRUE(std::ranges::equal(into, std::span{data_}.subspan(100, 3'000)));
}

/// They would not be atomic.
TEST_F(PlacementsOfAPair, AreNoAtomicsByASystemCall) {
  grant();
  hca::PlacementTarget to{.request = request_,
                          .right = Access::RemoteAtomic,
                          .rkey = kKey,
                          .address = kIova,
                          .length = hca::kAtomicBytes};
  EXPECT_EQ(initiator_.find(to, kTables), PlacementWay::NotInPages);
  std::array<std::byte, hca::kAtomicBytes> original{};
  const std::array into{MutableByteSpan{original}};
  EXPECT_EQ(initiator_.place({.target = to,
                              .from = {},
                              .to = into,
                              .atomic = hca::AtomicOperation{.swap_or_add = 1},
                              .is_first = true,
                              .is_last = true,
                              .path_mtu = verbs::Mtu::Mtu4096},
                             kTables),
            PlacementWay::NotInPages);
  EXPECT_TRUE(is_untouched());
}

TEST_F(PlacementsOfAPair, StayWithinTheGrant) {
  grant(Access::RemoteWrite);
  EXPECT_EQ(write(kLength - 99, 100), PlacementWay::NotGranted);
  EXPECT_EQ(write(~std::uint64_t{0} - 50, 100), PlacementWay::NotGranted) << "before it";
  EXPECT_EQ(write(0, 100, kTables + 1), PlacementWay::NotGranted) << "the fabric has changed";
  request_.dest_qp = Qpn{kQpn.value() + 1};
  EXPECT_EQ(write(0, 100), PlacementWay::NotGranted) << "another QP";
  EXPECT_TRUE(is_untouched());
}

TEST_F(PlacementsOfAPair, EndWithTheWithdrawalAndMayBeginAgain) {
  grant();
  owner_.withdraw();
  EXPECT_EQ(write(0, 100), PlacementWay::NotGranted);
  EXPECT_TRUE(is_untouched());
  grant();
  EXPECT_EQ(write(0, 100), PlacementWay::Placed);
}

/// The request was checked before the key changed, and its grant comes after.
TEST_F(PlacementsOfAPair, AreNotGrantedAfterAWithdrawal) {
  const auto epoch = owner_.epoch(owned_);
  owner_.withdraw();
  owner_.grant(owned_, *epoch, kTables, kQpn, memory());
  EXPECT_EQ(write(0, 100), PlacementWay::NotGranted);
}

TEST_F(PlacementsOfAPair, AreOffWhereTheFabricDoesNotAllowThem) {
  owned_.open(shared_, 0, 0);
  EXPECT_EQ(owner_.epoch(owned_), std::nullopt);
  initiator_.open(shared_, 1, 0);
  EXPECT_EQ(write(0, 100), PlacementWay::NotAllowed);
}

/// A child that is the initiator: it claims, does `before`, copies, and exits with what came of it.
template <class Before>
[[nodiscard]] pid_t start_initiator(MutableByteSpan shared, pid_t owner, ByteSpan data,
                                    Before before) {
  const pid_t child = fork();
  if (child != 0) {
    return child;
  }
  void* const start = shared.data();
  PlacementMemory& memory = *static_cast<PlacementMemory*>(start);
  const auto grant = memory.slot_of(kQpn, kKey).read();
  if (!grant || !ring::begin_placement(memory.words, 0, os::thread_id(), grant->epoch)) {
    _exit(100);
  }
  before();
  const std::array from{data};
  const os::PeerCopy copied = os::write_peer(
      {.process = owner, .address = grant->memory, .length = data.size()}, grant->guard, from);
  ring::end_placement(memory.words, 0);
  _exit(static_cast<int>(copied));
}

TEST_F(PlacementsOfAPair, OfAStoppedInitiatorComeToNothingAndHoldNobodyUp) {
  grant();
  const pid_t child = start_initiator(shared_, getpid(), data_, [] { raise(SIGSTOP); });
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status)) << "it has claimed: " << WEXITSTATUS(status);
  owned_.open(shared_, 0, child);  // whose threads are looked at
  grant();
  owner_.withdraw();  // returns
  std::ranges::fill(memory_, std::byte{0x77});
  kill(child, SIGCONT);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(os::PeerCopy::BadAddress));
  EXPECT_TRUE(std::ranges::all_of(memory_, [](std::byte each) { return each == std::byte{0x77}; }));
}

TEST_F(PlacementsOfAPair, OfAKilledInitiatorHoldNobodyUp) {
  grant();
  const pid_t child = start_initiator(shared_, getpid(), data_, [] { raise(SIGKILL); });
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  owned_.open(shared_, 0, child);
  grant();
  owner_.withdraw();
  EXPECT_TRUE(is_untouched());
}

/// A slot that a hostile or dying owner leaves half written is no grant.
TEST(PlacementSlotInMemory, IsReadWholeOrNotAtAll) {
  PlacementSlot slot;
  ASSERT_TRUE(slot.read());
  EXPECT_EQ(slot.read()->epoch, 0U);
  const PlacementGrant grant{.epoch = 3,
                             .tables = 4,
                             .qpn = kQpn,
                             .rkey = kKey,
                             .iova = kIova,
                             .length = 1,
                             .memory = 2,
                             .guard = 5,
                             .rights = Access::RemoteRead};
  slot.write(grant);
  EXPECT_EQ(slot.read(), grant);
}

TEST(PlacementGuardPages, AreNeverTheSameTwice) {
  PlacementGuard guard;
  std::vector<std::uint64_t> seen;
  for (std::size_t i = 0; i < PlacementGuard::kPages + 10; ++i) {
    const std::uint64_t address = guard.address();
    ASSERT_NE(address, 0U);
    EXPECT_EQ(guard.address(), address) << "until it is closed";
    seen.push_back(address);
    guard.close();
  }
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
}

}  // namespace
}  // namespace weft::host
