// torture_target JOURNAL SEED
//
// Offers memory to torture_initiator, and takes it away while it is used: deregistered, unbound,
// invalidated; then unmapped or freed. Then nothing may change it, and each octet must have a value
// that the initiator's operations can have given it. Until standard input is closed.

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "torture_journal.h"

namespace {

using Clock = std::chrono::steady_clock;
using torture::Journal;
using torture::kMaxBytes;
using torture::kRegions;
using torture::Operation;
using torture::Region;

constexpr std::size_t kMargin = 64;  // octets before and behind a region, which nobody writes
constexpr std::uint8_t kMarginValue = 0xA5;
constexpr std::uint8_t kReusedValue = 0xEE;  // of memory that is the target's own again
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC;

enum class Key : std::uint8_t { Region, WindowOfType1, WindowOfType2 };
enum class Ending : std::uint8_t { Deregister, Unbind, Invalidate, DeallocateWindow };
constexpr std::array kEndings{"deregistered", "unbound", "invalidated", "window deallocated"};

[[noreturn]] void fail(const char* what, const char* ending, std::size_t region, std::size_t octet,
                       unsigned value) {
  std::fprintf(stderr, "%s (%s): octet %zu of region %zu is %#x\n", what, ending, octet, region,
               value);
  std::exit(5);
}

/// Where memory is: mapped for itself, in a file that nobody can shorten and that peers can map as
/// well, or of the heap.
enum class Place : std::uint8_t { Mapped, SharedFile, Heap };
constexpr std::uint64_t kPlaces = 3;

/// Memory of one region, with its margins.
class Memory {
 public:
  Memory(std::size_t length, Place place) : length_(length), place_(place) {
    base_ = static_cast<std::uint8_t*>(place == Place::Heap     ? std::malloc(bytes())
                                       : place == Place::Mapped ? map(MAP_ANONYMOUS | MAP_PRIVATE)
                                                                : map_file());
    crash::require(base_ != nullptr, "memory");
    std::memset(base_, kMarginValue, bytes());
  }
  ~Memory() {
    place_ == Place::Heap ? std::free(base_) : static_cast<void>(munmap(base_, bytes()));
    if (file_ >= 0) {
      ::close(file_);
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] std::span<std::uint8_t> octets() const { return {base_ + kMargin, length_}; }
  [[nodiscard]] std::span<std::uint8_t> all() const { return {base_, bytes()}; }
  /// A child of fork() sees what is written afterwards.
  [[nodiscard]] bool is_shared() const { return place_ == Place::SharedFile; }

  [[nodiscard]] bool has_margins() const {
    const auto is_margin = [](std::uint8_t octet) { return octet == kMarginValue; };
    return std::ranges::all_of(all().first(kMargin), is_margin) &&
           std::ranges::all_of(all().last(kMargin), is_margin);
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return length_ + 2 * kMargin; }
  [[nodiscard]] void* map(int flags) const {
    void* const memory = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, flags, file_, 0);
    return memory == MAP_FAILED ? nullptr : memory;
  }
  [[nodiscard]] void* map_file() {
    file_ = memfd_create("torture", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    crash::require(file_ >= 0 && ftruncate(file_, static_cast<off_t>(bytes())) == 0 &&
                       fcntl(file_, F_ADD_SEALS, F_SEAL_SHRINK) == 0,
                   "a file in memory");
    return map(MAP_SHARED);
  }

  std::size_t length_;
  Place place_;
  int file_{-1};
  std::uint8_t* base_;
};

class Target {
 public:
  Target(Journal& journal, std::uint64_t seed)
      : journal_(journal), random_(seed), qp_(end_.make_qp(torture::kDepth)) {
    for (std::size_t i = 0; i < kRegions; ++i) {
      open(i);
    }
  }

  void run() {
    crash::say("ready\n");
    while (!must_end()) {
      serve();
      if (pick(20) == 0) {
        fork_reader();
      }
      close(pick(kRegions));
      reap_readers();
      std::this_thread::sleep_for(std::chrono::microseconds{pick(4'000)});
    }
    for (std::size_t i = 0; i < kRegions; ++i) {
      retire(i);
    }
    crash::say("endings ", endings_, " forks ", forks_, " longest_us ",
               std::chrono::duration_cast<std::chrono::microseconds>(longest_).count(), "\n");
  }

 private:
  struct Offer {
    std::unique_ptr<Memory> memory;
    std::unique_ptr<Memory> reused;  // of the one before
    ibv_mr* region{};
    ibv_mw* window{};
    Key key{};
  };

  [[nodiscard]] std::uint64_t pick(std::uint64_t below) { return random_.below(below); }

  [[nodiscard]] static bool must_end() {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    return poll(&input, 1, 0) > 0;
  }

  /// Connects the QP when the initiator wants it.
  void serve() {
    const std::uint32_t wish = journal_.wish.load(std::memory_order_acquire);
    if (wish == journal_.answer.load(std::memory_order_relaxed)) {
      return;
    }
    torture::connect(qp_, journal_.initiator, torture::first_psn(wish));
    drain();
    is_connected_ = true;
    journal_.target = {.lid = end_.lid, .qpn = qp_->qp_num};
    journal_.answer.store(wish, std::memory_order_release);
  }

  /// Offers new memory, of which the initiator knows every octet.
  void open(std::size_t which) {
    Offer& offer = offers_.at(which);
    Region& region = journal_.regions.at(which);
    const auto length =
        static_cast<std::uint32_t>(8 + pick((std::uint64_t{1} << (4 + pick(13))) - 7));
    offer.memory = std::make_unique<Memory>(length, static_cast<Place>(pick(kPlaces)));
    const std::span<std::uint8_t> octets = offer.memory->octets();
    for (std::uint32_t i = 0; i < length; ++i) {
      octets[i] = torture::value_of(~region.phase.load(), i);
      region.octets.at(i).become(octets[i]);
    }
    offer.region = ibv_reg_mr(end_.pd, octets.data(), length, kAccess | IBV_ACCESS_MW_BIND);
    crash::require(offer.region != nullptr, "ibv_reg_mr");
    region.rkey = bind(offer);
    region.address = crash::number_of(octets.data());
    region.length = length;
    region.phase.fetch_add(1);
  }

  /// The key for the initiator: of a window if the QP can bind one.
  [[nodiscard]] std::uint32_t bind(Offer& offer) {
    offer.key = is_connected_ && pick(2) == 0 ? static_cast<Key>(1 + pick(2)) : Key::Region;
    if (offer.key == Key::Region) {
      return offer.region->rkey;
    }
    const bool is_type_1 = offer.key == Key::WindowOfType1;
    offer.window = ibv_alloc_mw(end_.pd, is_type_1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
    crash::require(offer.window != nullptr, "ibv_alloc_mw");
    const ibv_mw_bind_info info{
        .mr = offer.region,
        .addr = crash::number_of(offer.region->addr),
        .length = offer.region->length,
        .mw_access_flags = static_cast<unsigned>(kAccess & ~IBV_ACCESS_LOCAL_WRITE)};
    if (post_bind(offer, info)) {
      return offer.window->rkey;
    }
    // The initiator has just ended the connection.
    crash::require(ibv_dealloc_mw(offer.window) == 0, "ibv_dealloc_mw");
    offer.window = nullptr;
    offer.key = Key::Region;
    return offer.region->rkey;
  }

  [[nodiscard]] bool post_bind(const Offer& offer, const ibv_mw_bind_info& info) {
    if (offer.key == Key::WindowOfType1) {
      ibv_mw_bind bind{.wr_id = ++serial_, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
      return ibv_bind_mw(qp_, offer.window, &bind) == 0 && is_complete();
    }
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw = {.mw = offer.window, .rkey = ibv_inc_rkey(offer.window->rkey), .bind_info = info};
    if (!post(wr)) {
      return false;
    }
    offer.window->rkey = wr.bind_mw.rkey;
    return true;
  }

  [[nodiscard]] bool post(ibv_send_wr& wr) {
    wr.wr_id = ++serial_;
    wr.send_flags |= IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_, &wr, &bad) == 0 && is_complete();
  }

  /// Waits for request `serial_`.
  [[nodiscard]] bool is_complete() {
    ibv_wc wc{};
    torture::wait_until([&] { return ibv_poll_cq(end_.cq, 1, &wc) == 1 && wc.wr_id == serial_; },
                        "a completion of the target", [] {});
    is_connected_ = wc.status == IBV_WC_SUCCESS;
    return is_connected_;
  }

  void drain() {
    ibv_wc wc{};
    while (ibv_poll_cq(end_.cq, 1, &wc) == 1) {
    }
  }

  void close(std::size_t which) {
    retire(which);
    open(which);
  }

  /// Takes the memory away from the initiator and looks at every octet.
  void retire(std::size_t which) {
    Offer& offer = offers_.at(which);
    Region& region = journal_.regions.at(which);
    const std::uint32_t phase = region.phase.load();
    const Ending ending = choose_ending(offer);
    const auto begin = Clock::now();
    end_key(offer, ending);
    longest_ = std::max(longest_, Clock::now() - begin);
    ++endings_;
    const std::vector<std::uint8_t> fenced{offer.memory->octets().begin(),
                                           offer.memory->octets().end()};
    region.phase.fetch_add(1);
    torture::wait_until([&] { return !is_used(which, phase); }, "the initiator's operations end",
                        [this] { serve(); });
    check(which, fenced, kEndings.at(static_cast<std::size_t>(ending)));
    end_memory(offer, which);
  }

  [[nodiscard]] Ending choose_ending(const Offer& offer) {
    switch (offer.key) {
      case Key::Region:
        return Ending::Deregister;
      case Key::WindowOfType1:
        return pick(2) == 0 ? Ending::Unbind : Ending::DeallocateWindow;
      case Key::WindowOfType2:
        return pick(2) == 0 ? Ending::Invalidate : Ending::DeallocateWindow;
    }
    return Ending::Deregister;
  }

  /// When this returns, nobody uses the key.
  void end_key(Offer& offer, Ending ending) {
    if (ending == Ending::Unbind) {
      const ibv_mw_bind_info nothing{};
      ibv_mw_bind bind{.wr_id = ++serial_, .send_flags = IBV_SEND_SIGNALED, .bind_info = nothing};
      ending = ibv_bind_mw(qp_, offer.window, &bind) == 0 && is_complete()
                   ? ending
                   : Ending::DeallocateWindow;
    } else if (ending == Ending::Invalidate) {
      ibv_send_wr wr{};
      wr.opcode = IBV_WR_LOCAL_INV;
      wr.invalidate_rkey = offer.window->rkey;
      ending = post(wr) ? ending : Ending::DeallocateWindow;
    }
    if (ending == Ending::DeallocateWindow) {
      deallocate(offer);
    } else if (ending == Ending::Deregister) {
      deregister(offer);
    }
  }

  static void deallocate(Offer& offer) {
    crash::require(offer.window == nullptr || ibv_dealloc_mw(offer.window) == 0, "ibv_dealloc_mw");
    offer.window = nullptr;
  }
  static void deregister(Offer& offer) {
    crash::require(offer.region == nullptr || ibv_dereg_mr(offer.region) == 0, "ibv_dereg_mr");
    offer.region = nullptr;
  }

  [[nodiscard]] bool is_used(std::size_t which, std::uint32_t phase) const {
    return std::ranges::any_of(journal_.operations, [&](const Operation& operation) {
      return operation.is_of(static_cast<std::uint32_t>(which), phase);
    });
  }

  void check(std::size_t which, const std::vector<std::uint8_t>& fenced, const char* how) const {
    const Memory& memory = *offers_.at(which).memory;
    const std::span<const std::uint8_t> octets = memory.octets();
    for (std::size_t i = 0; i < octets.size(); ++i) {
      if (octets[i] != fenced[i]) {
        fail("written after its key had ended", how, which, i, octets[i]);
      }
      if (!journal_.regions.at(which).octets.at(i).can_be(octets[i])) {
        fail("nobody wrote this", how, which, i, octets[i]);
      }
    }
    if (!memory.has_margins()) {
      fail("written beyond its bounds", how, which, 0, 0);
    }
  }

  /// The memory is used for something else, looked at once more when the next one ends, and freed.
  void end_memory(Offer& offer, std::size_t which) {
    deallocate(offer);
    deregister(offer);
    if (offer.reused) {
      const std::span<const std::uint8_t> all = offer.reused->all();
      const auto other =
          std::ranges::find_if(all, [](auto octet) { return octet != kReusedValue; });
      if (other != all.end()) {
        fail("written after it was reused", "freed", which,
             static_cast<std::size_t>(other - all.begin()), *other);
      }
    }
    offer.reused = std::move(offer.memory);
    std::ranges::fill(offer.reused->all(), kReusedValue);
  }

  /// A child whose copy of the memory must stay as it was, whatever is written into ours.
  void fork_reader() {
    const pid_t child = fork();
    crash::require(child >= 0, "fork");
    if (child != 0) {
      ++forks_;
      return;
    }
    std::vector<std::vector<std::uint8_t>> copies;
    for (const Offer& offer : offers_) {
      copies.emplace_back(offer.memory->octets().begin(), offer.memory->octets().end());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    bool is_same = true;
    for (std::size_t i = 0; i < kRegions; ++i) {
      const Memory& memory = *offers_.at(i).memory;
      is_same =
          is_same && (memory.is_shared() || std::ranges::equal(copies.at(i), memory.octets()));
    }
    _exit(is_same ? 0 : 6);
  }

  static void reap_readers() {
    int status = 0;
    while (waitpid(-1, &status, WNOHANG) > 0) {
      errno = 0;
      crash::require(status == 0, "the memory of a child changed");
    }
  }

  Journal& journal_;
  weft::Random random_;
  crash::End end_{4 * torture::kDepth};
  ibv_qp* qp_;
  bool is_connected_{};
  std::uint64_t serial_{};  // of this side's own requests
  std::array<Offer, kRegions> offers_;
  std::uint64_t endings_{};
  std::uint64_t forks_{};
  Clock::duration longest_{};
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    return 2;
  }
  Target target{torture::journal_in(arguments[1]), std::strtoull(arguments[2], nullptr, 10)};
  target.run();
  return 0;
}
