// Regions of an engine that are paged on demand, over this process's own memory, whose changes it
// says, or the operating system tells: T-ODP-1 to T-ODP-5 by each way. Which one ran is in the name
// of the test; one that this user may not have is skipped with the operating system's reason.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/engine/engine_operations.h"
#include "core/engine/odp_memory.h"
#include "core/mr.h"
#include "core/registry.h"
#include "core/testing/engine_pair.h"
#include "kernel/process_memory.h"
#include "threaded_environment.h"

namespace weft::core {
namespace {

using engine::OdpMemory;
using kernel::Paging;
using kernel::ProcessMemory;
using testing::End;
using testing::EngineNetwork;
using testing::ThreadedEnvironment;
using namespace std::chrono_literals;

constexpr std::size_t kPages = 16;
constexpr verbs::AccessFlags kOnDemand = verbs::AccessFlags{verbs::Access::LocalWrite} |
                                         verbs::Access::RemoteWrite | verbs::Access::RemoteRead |
                                         verbs::Access::OnDemand;

[[nodiscard]] std::size_t page_size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

/// Memory without a name that nobody has touched.
[[nodiscard]] char* map_memory(std::size_t bytes, void* at = nullptr) {
  void* const made =
      mmap(at, bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0), -1, 0);
  EXPECT_NE(made, MAP_FAILED);
  madvise(made, bytes, MADV_NOHUGEPAGE);  // else one touch makes 512 pages present
  return static_cast<char*>(made);
}

/// A QP of host a that transfers to and from memory of host b, whose engine pages on demand.
class OdpPaging : public ::testing::TestWithParam<Paging> {
 protected:
  void SetUp() override {
    if (const auto started = memory_.start_paging(); !started) {
      GTEST_SKIP() << started.error().reason;
    }
    environment_.emplace();
    registry_.emplace(*environment_);
    network_.emplace(*environment_);
    environment_->run_world([this] { return network_->step(); });
    network_->add_host(*registry_);
    auto& host = network_->add_host(
        *registry_, {}, [this](hca::HcaConfiguration& made) { made.user_memory = &odp_; });
    odp_.bind(host.hca());
    testing::open_end(a_, network_->host(0).device(), {.poll_context = PollContext::Direct});
    testing::open_end(b_, host.device(), {.poll_context = PollContext::Direct});
    testing::connect_end(a_, EngineNetwork::lid_of(1), b_.qp->number());
    testing::connect_end(b_, EngineNetwork::lid_of(0), a_.qp->number());
    span_ = map_memory(kPages * page_size());
  }
  void TearDown() override {
    if (!network_) {
      return;
    }
    for (Mr* const region : regions_) {
      EXPECT_TRUE(deregister_mr(*region));
    }
    testing::close_end(a_);
    testing::close_end(b_);
    odp_.close();
    environment_->stop_world();
    network_->unregister_all();
    munmap(span_, kPages * page_size());
    EXPECT_TRUE(memory_.settle());
  }

  [[nodiscard]] Mr& region_of(const char* memory, std::size_t bytes) {
    const std::uint64_t start = number(memory);
    regions_.push_back(*register_user_mr(*b_.pd, {.start = start, .length = bytes, .iova = start},
                                         kOnDemand, nullptr));
    return *regions_.back();
  }
  [[nodiscard]] Mr& region_of_all() {
    regions_.push_back(*get_dma_mr(*b_.pd, kOnDemand));
    return *regions_.back();
  }
  [[nodiscard]] char* page(std::size_t i) const { return span_ + i * page_size(); }
  [[nodiscard]] static std::uint64_t number(const void* address) {
    return std::bit_cast<std::uint64_t>(address);
  }

  /// Moves `bytes` between the beginning of a's memory and `remote`; how it ends.
  [[nodiscard]] verbs::WcStatus transfer(verbs::WrOpcode opcode, const char* remote,
                                         const Mr& region, std::uint32_t bytes = 8) {
    const std::array sges{a_.sge(0, bytes)};
    testing::CountedRequest request;
    SendWr wr = testing::signaled(request, opcode, sges);
    wr.remote_address = number(remote);
    wr.rkey = region.rkey;
    EXPECT_TRUE(post_send(*a_.qp, wr));
    for (int waited = 0; request.calls == 0 && waited < 20'000; ++waited) {
      process_cq_direct(*a_.send_cq, 16);
      std::this_thread::sleep_for(request.calls == 0 ? 1ms : 0ms);
    }
    EXPECT_EQ(request.calls, 1U) << "within 20 s";
    return request.status;
  }
  [[nodiscard]] verbs::WcStatus write(const char* remote, const Mr& region,
                                      std::uint32_t bytes = 8) {
    return transfer(verbs::WrOpcode::RdmaWrite, remote, region, bytes);
  }
  /// The first byte that a READ brings.
  [[nodiscard]] char read(const char* remote, const Mr& region) {
    EXPECT_EQ(transfer(verbs::WrOpcode::RdmaRead, remote, region), verbs::WcStatus::Success);
    return static_cast<char>(a_.memory[0]);
  }

  /// Changes pages [first, last) as a program does that knows how its changes are heard of.
  void change(const char* first, const char* last, const std::function<void()>& how) {
    if (GetParam() == Paging::Told) {
      memory_.invalidate(number(first), number(last));
    }
    how();
    EXPECT_TRUE(memory_.settle());
  }

  [[nodiscard]] std::vector<std::size_t> resident() const {
    std::vector<unsigned char> here(kPages);
    EXPECT_EQ(mincore(span_, kPages * page_size(), here.data()), 0);
    std::vector<std::size_t> pages;
    for (std::size_t i = 0; i < kPages; ++i) {
      if ((here[i] & 1U) != 0) {
        pages.push_back(i);
      }
    }
    return pages;
  }

  ProcessMemory memory_{GetParam()};
  OdpMemory odp_{memory_};
  std::optional<ThreadedEnvironment> environment_;
  std::optional<Registry> registry_;
  std::optional<EngineNetwork> network_;
  End a_;
  End b_;
  std::vector<Mr*> regions_;
  char* span_{};
};

// T-ODP-1
TEST_P(OdpPaging, MakesOnlyThePagesPresentThatAWriteTouches) {
  const Mr& region = region_of(span_, kPages * page_size());
  EXPECT_TRUE(resident().empty());
  EXPECT_EQ(memory_.locked_bytes(), 0U);
  a_.memory[0] = std::byte{'a'};
  EXPECT_EQ(write(page(5), region), verbs::WcStatus::Success);
  EXPECT_EQ(*page(5), 'a');
  EXPECT_EQ(odp_.faults(), 1U);
  EXPECT_EQ(write(page(5) + 100, region), verbs::WcStatus::Success);
  EXPECT_EQ(odp_.faults(), 1U) << "the page is mapped";
  EXPECT_EQ(write(page(9) - 4, region), verbs::WcStatus::Success);  // of two pages
  EXPECT_EQ(odp_.faults(), 2U);
  EXPECT_EQ(resident(), (std::vector<std::size_t>{5, 8, 9}));
  EXPECT_EQ(odp_.mapped_pages(), 3U);
}

// T-ODP-2: and memory that was mapped anew is heard of as well.
TEST_P(OdpPaging, ReadsTheNewContentOfWhatWasMappedAnew) {
  const Mr& region = region_of(span_, kPages * page_size());
  *page(3) = 'o';
  EXPECT_EQ(read(page(3), region), 'o');
  for (const char content : {'n', 'm'}) {
    const std::uint64_t faults = odp_.faults();
    change(page(3), page(4), [&] {
      munmap(page(3), page_size());
      EXPECT_EQ(map_memory(page_size(), page(3)), page(3));
      *page(3) = content;
    });
    EXPECT_EQ(odp_.mapped_pages(), 0U) << "the old page was taken away";
    EXPECT_EQ(read(page(3), region), content);
    EXPECT_EQ(odp_.faults(), faults + 1);
  }
  change(page(3), page(4), [&] { madvise(page(3), page_size(), MADV_DONTNEED); });
  EXPECT_EQ(odp_.mapped_pages(), 0U);
  EXPECT_EQ(read(page(3), region), 0);
  *page(2) = 'p';
  EXPECT_EQ(read(page(2), region), 'p');
  change(page(2), page(4), [&] {
    EXPECT_EQ(mremap(page(2), page_size(), page_size(), MREMAP_MAYMOVE | MREMAP_FIXED, page(3)),
              page(3));
  });
  EXPECT_EQ(odp_.mapped_pages(), 0U);
  EXPECT_EQ(read(page(3), region), 'p') << "it is there now";
  EXPECT_NE(transfer(verbs::WrOpcode::RdmaRead, page(2), region), verbs::WcStatus::Success)
      << "and no SIGSEGV";
}

// T-ODP-3: but for the owner that is gone, which this process is not.
TEST_P(OdpPaging, IsToTryAgainWhenPagesChangeAfterTheSequenceWasRead) {
  const auto umem = *get_odp_umem(memory_, number(span_), kPages * page_size(), {});
  ASSERT_TRUE(umem->map_dma_pages(number(page(0)), 2 * page_size(), kOdpAccess, umem->sequence()));
  const std::uint64_t before = umem->sequence();
  change(page(1), page(2), [&] { madvise(page(1), page_size(), MADV_DONTNEED); });
  const auto stale = umem->map_dma_pages(number(page(1)), 1, kOdpRead, before);
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, ErrorCode::TryAgain);
  EXPECT_TRUE(umem->is_mapped(number(page(0)), 1, kOdpAccess));
  EXPECT_FALSE(umem->is_mapped(number(page(1)), 1, kOdpRead));
  EXPECT_EQ(umem->map_dma_pages(number(page(1)), 1, kOdpRead, umem->sequence()).value(), 1U);
}

// T-ODP-4
TEST_P(OdpPaging, OfAllMemoryMakesPartsOnlyWhereItIsTouched) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  constexpr std::size_t kTouched = 16;
  char* const sparse = map_memory(kBytes);
  const Mr& region = region_of_all();
  a_.memory[0] = std::byte{'s'};
  for (std::size_t i = 0; i < kTouched; ++i) {
    ASSERT_EQ(write(sparse + i * (kBytes / kTouched), region), verbs::WcStatus::Success);
  }
  EXPECT_EQ(odp_.parts(), kTouched);
  EXPECT_EQ(odp_.mapped_pages(), kTouched);
  std::vector<unsigned char> here(kBytes / page_size());
  ASSERT_EQ(mincore(sparse, kBytes, here.data()), 0);
  EXPECT_EQ(std::ranges::count_if(here, [](unsigned char one) { return (one & 1U) != 0; }),
            kTouched);
  EXPECT_NE(write(std::bit_cast<const char*>(std::uint64_t{8}), region), verbs::WcStatus::Success);
  EXPECT_EQ(odp_.parts(), kTouched) << "of nothing there is no part";
  change(sparse, sparse + kBytes, [&] { munmap(sparse, kBytes); });
  EXPECT_EQ(odp_.mapped_pages(), 0U);
}

// T-ODP-5
TEST_P(OdpPaging, HasNoFaultWhereAdviceHasBroughtPagesIn) {
  const Mr& region = region_of(span_, kPages * page_size());
  const std::array sges{
      verbs::Sge{.address = number(page(4)),
                 .length = static_cast<std::uint32_t>(2 * page_size()),
                 .lkey = region.lkey}
  };
  ASSERT_TRUE(network_->host(1).hca().prefetch(engine::engine_pd(*b_.pd), sges,
                                               {.for_writing = true, .must_succeed = true}));
  EXPECT_EQ(resident(), (std::vector<std::size_t>{4, 5}));
  const std::uint64_t before = odp_.faults();
  const std::uint64_t served = memory_.faults();
  EXPECT_EQ(write(page(5) - 4, region), verbs::WcStatus::Success);
  EXPECT_EQ(odp_.faults(), before);
  EXPECT_EQ(memory_.faults(), served);
  EXPECT_EQ(write(page(6), region), verbs::WcStatus::Success);
  EXPECT_EQ(odp_.faults(), before + 1) << "elsewhere it has";
}

/// Real page faults: the program touches what a change has taken away.
TEST_P(OdpPaging, ServesFaultsOfTheProgram) {
  const Mr& region = region_of(span_, kPages * page_size());
  ASSERT_EQ(write(page(7), region), verbs::WcStatus::Success);
  change(page(7), page(8), [&] { madvise(page(7), page_size(), MADV_DONTNEED); });
  const std::uint64_t before = memory_.faults();
  *page(7) = 'x';
  EXPECT_EQ(memory_.faults(), before + (GetParam() == Paging::Told ? 0 : 1));
  EXPECT_EQ(read(page(7), region), 'x');
  change(page(7), page(8), [&] { madvise(page(7), page_size(), MADV_DONTNEED); });
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const ssize_t written = ::write(ends[1], page(7), 1);
  if (GetParam() != Paging::ProgramFaults) {
    EXPECT_EQ(written, 1) << std::strerror(errno);
  } else {
    EXPECT_EQ(written, -1);
    EXPECT_EQ(errno, EFAULT);
  }
  close(ends[0]);
  close(ends[1]);
}

/// Transfers fault while they have their QPs locked, and changes wait for transfers.
TEST_P(OdpPaging, EndsWhileAnotherThreadChangesThePages) {
  constexpr std::size_t kChanged = 4;
  const Mr& region = region_of(span_, kChanged * page_size());
  std::atomic<bool> stops{};
  std::atomic<int> changes{};
  std::thread changer{[&] {
    for (std::size_t i = 0; !stops; i = (i + 1) % (kChanged / 2)) {
      if (GetParam() == Paging::Told) {
        memory_.invalidate(number(page(2 * i)), number(page(2 * i + 2)));
      }
      // Not by libc, of which the thread sanitizer takes a mapping for a write to its memory.
      EXPECT_EQ(syscall(SYS_mmap, page(2 * i), page_size(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                std::bit_cast<std::intptr_t>(page(2 * i)));
      EXPECT_EQ(madvise(page(2 * i + 1), page_size(), MADV_DONTNEED), 0);
      ++changes;
      std::this_thread::sleep_for(1ms);  // no page is filled while one of them is made
    }
  }};
  for (int round = 0; (round < 10 || changes < 10) && !HasFailure(); ++round) {
    EXPECT_EQ(write(span_, region, static_cast<std::uint32_t>(kChanged * page_size())),
              verbs::WcStatus::Success);
    EXPECT_EQ(transfer(verbs::WrOpcode::RdmaRead, span_, region), verbs::WcStatus::Success);
  }
  stops = true;
  changer.join();
  EXPECT_GT(odp_.faults(), 0U);
}

INSTANTIATE_TEST_SUITE_P(By, OdpPaging,
                         ::testing::Values(Paging::Told, Paging::ProgramFaults, Paging::AllFaults),
                         [](const auto& info) -> std::string {
                           switch (info.param) {
                             case Paging::Told:
                               return "Told";
                             case Paging::ProgramFaults:
                               return "ProgramFaults";
                             default:
                               return "AllFaults";
                           }
                         });

}  // namespace
}  // namespace weft::core
