// torture_initiator JOURNAL COUNT SEED
//
// COUNT operations of random kind and size against the regions of torture_target, some of which are
// just ending. Killed at any time, a second one goes on where it was.

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "torture_journal.h"

namespace {

using torture::Journal;
using torture::kDepth;
using torture::Kind;
using torture::kKinds;
using torture::kMaxBytes;
using torture::Operation;
using torture::Progress;
using torture::Region;

constexpr unsigned kAddBytes = 8;

class Initiator {
 public:
  Initiator(Journal& journal, std::uint64_t seed)
      : journal_(journal), random_(seed), region_(end_.share(memory_)), qp_(end_.make_qp(kDepth)) {
    settle();
    connect();
  }

  void run(std::uint64_t count) {
    while (done() < count) {
      std::size_t limit = kDepth;
      if (pick(2) == 0) {  // alone, as a program that waits for each
        complete_all();
        limit = 1;
      }
      while (!is_broken_ && under_way_ < limit && post_one()) {
      }
      complete_one();
    }
    complete_all();
  }

 private:
  [[nodiscard]] std::uint64_t pick(std::uint64_t below) { return random_.below(below); }
  [[nodiscard]] std::uint64_t done() const {
    std::uint64_t sum = journal_.failures.load();
    for (const auto& successes : journal_.successes) {
      sum += successes.load();
    }
    return sum;
  }
  [[nodiscard]] std::uint8_t* buffer_of(std::size_t entry) {
    return memory_.data() + entry * kMaxBytes;
  }

  /// What an initiator before this one left: posted perhaps, done perhaps.
  void settle() {
    std::vector<Operation*> left;
    for (Operation& operation : journal_.operations) {
      if (operation.progress.load() != Progress::None) {
        left.push_back(&operation);
      }
    }
    std::ranges::sort(left, {}, &Operation::serial);
    for (Operation* operation : left) {
      note(*operation, operation->progress.load() == Progress::Success, nullptr);
      operation->progress.store(Progress::None);
    }
  }

  void connect() {
    // A number of its own, though the one before was killed while it waited for an answer.
    const std::uint32_t wish = std::max(journal_.answer.load(), journal_.wish.load()) + 1;
    journal_.initiator = {.lid = end_.lid, .qpn = qp_->qp_num};
    journal_.wish.store(wish, std::memory_order_release);
    torture::wait_until([&] { return journal_.answer.load(std::memory_order_acquire) == wish; },
                        "the target answers", [] {});
    torture::connect(qp_, journal_.target, torture::first_psn(wish));
  }

  /// False: no region may be used now.
  bool post_one() {
    const auto which = static_cast<std::uint32_t>(pick(torture::kRegions));
    const Region& region = journal_.regions.at(which);
    const std::uint32_t phase = region.phase.load(std::memory_order_acquire);
    if (phase % 2 == 0) {
      return false;
    }
    Operation& operation = journal_.operations.at(next_);
    operation.kind = static_cast<Kind>(pick(16) == 0 ? 2 : pick(3) == 0 ? 1 : 0);
    operation.serial = journal_.next_serial.load() + 1;
    operation.region = which;
    operation.phase = phase;
    choose_octets(operation, region.length);
    const std::uint32_t rkey = region.rkey;
    const std::uint64_t address = region.address + operation.offset;
    operation.progress.store(Progress::Posted);
    if (region.phase.load() != phase) {
      operation.progress.store(Progress::None);
      return false;  // what was read may be of two
    }
    journal_.next_serial.store(operation.serial);
    post(operation, address, rkey);
    next_ = (next_ + 1) % kDepth;
    ++under_way_;
    return true;
  }

  /// Short ones are as frequent as long ones.
  void choose_octets(Operation& operation, std::uint32_t length) {
    if (operation.kind == Kind::Add) {
      operation.length = kAddBytes;
      operation.offset = static_cast<std::uint32_t>(pick(length / kAddBytes) * kAddBytes);
      return;
    }
    const std::uint64_t most = std::uint64_t{1} << pick(17);
    operation.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(1 + pick(most), length));
    operation.offset = static_cast<std::uint32_t>(pick(length - operation.length + 1));
  }

  void post(const Operation& operation, std::uint64_t address, std::uint32_t rkey) {
    std::uint8_t* const buffer = buffer_of(next_);
    ibv_sge sge{
        .addr = crash::number_of(buffer), .length = operation.length, .lkey = region_->lkey};
    ibv_send_wr wr{};
    wr.wr_id = next_;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    // What follows a READ may be done before it, unless it is fenced (IBA, ordering rules).
    wr.send_flags = IBV_SEND_SIGNALED | (reads_under_way_ > 0 ? unsigned{IBV_SEND_FENCE} : 0U);
    reads_under_way_ += operation.kind == Kind::Read ? 1 : 0;
    switch (operation.kind) {
      case Kind::Write:
        for (std::uint32_t i = 0; i < operation.length; ++i) {
          buffer[i] = torture::value_of(operation.serial, operation.offset + i);
        }
        wr.opcode = IBV_WR_RDMA_WRITE;
        break;
      case Kind::Read:
        wr.opcode = IBV_WR_RDMA_READ;
        break;
      case Kind::Add:
        wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        wr.wr.atomic = {.remote_addr = address,
                        .compare_add = torture::addend_of(operation.serial),
                        .swap = 0,
                        .rkey = rkey};
        break;
    }
    if (operation.kind != Kind::Add) {
      wr.wr.rdma = {.remote_addr = address, .rkey = rkey};
    }
    ibv_send_wr* bad = nullptr;
    crash::require(ibv_post_send(qp_, &wr, &bad) == 0, "ibv_post_send");
  }

  void complete_all() {
    while (under_way_ > 0) {
      complete_one();
    }
  }

  void complete_one() {
    if (under_way_ == 0) {
      return;
    }
    ibv_wc wc{};
    if (ibv_poll_cq(end_.cq, 1, &wc) == 0) {
      return;
    }
    --under_way_;
    Operation& operation = journal_.operations.at(wc.wr_id);
    reads_under_way_ -= operation.kind == Kind::Read ? 1 : 0;
    if (wc.status == IBV_WC_SUCCESS) {
      operation.progress.store(Progress::Success);
      note(operation, true, buffer_of(wc.wr_id));
      journal_.successes.at(static_cast<std::size_t>(operation.kind)).fetch_add(1);
    } else {
      note(operation, false, nullptr);
      journal_.failures.fetch_add(1);
      is_broken_ = true;
    }
    operation.progress.store(Progress::None);
    if (is_broken_ && under_way_ == 0) {
      connect();
      is_broken_ = false;
    }
  }

  /// What the octets can be from now on. `result`: what a READ or an Add brought, if that is known.
  void note(const Operation& operation, bool is_success, const std::uint8_t* result) {
    Region& region = journal_.regions.at(operation.region);
    switch (operation.kind) {
      case Kind::Write:
        for (std::uint32_t i = 0; i < operation.length; ++i) {
          const std::uint32_t at = operation.offset + i;
          const std::uint8_t value = torture::value_of(operation.serial, at);
          is_success ? region.octets.at(at).become(value) : region.octets.at(at).may_become(value);
        }
        break;
      case Kind::Read:
        if (is_success && result != nullptr) {
          must_be_possible(operation, region, result);
        }
        break;
      case Kind::Add:
        note_add(operation, region, is_success ? result : nullptr);
        break;
    }
  }

  void note_add(const Operation& operation, Region& region, const std::uint8_t* result) {
    if (result == nullptr) {  // a sum of what is not known, or nothing
      for (std::uint32_t i = 0; i < kAddBytes; ++i) {
        for (unsigned value = 0; value < 256; ++value) {
          region.octets.at(operation.offset + i).may_become(static_cast<std::uint8_t>(value));
        }
      }
      return;
    }
    must_be_possible(operation, region, result);
    std::uint64_t sum = 0;  // in this machine's order, as the target's atomics are
    std::memcpy(&sum, result, sizeof sum);
    sum += torture::addend_of(operation.serial);
    std::array<std::uint8_t, kAddBytes> octets{};
    std::memcpy(octets.data(), &sum, sizeof sum);
    for (std::uint32_t i = 0; i < kAddBytes; ++i) {
      region.octets.at(operation.offset + i).become(octets.at(i));
    }
  }

  static void must_be_possible(const Operation& operation, const Region& region,
                               const std::uint8_t* result) {
    for (std::uint32_t i = 0; i < operation.length; ++i) {
      if (!region.octets.at(operation.offset + i).can_be(result[i])) {
        std::fprintf(stderr, "operation %u: octet %u of region %u cannot be %#x\n",
                     operation.serial, operation.offset + i, operation.region, result[i]);
        std::exit(5);
      }
    }
  }

  Journal& journal_;
  weft::Random random_;
  crash::End end_{2 * kDepth};
  std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(kDepth * kMaxBytes);
  ibv_mr* region_;
  ibv_qp* qp_;
  std::size_t next_{};       // entry of the next operation
  std::size_t under_way_{};  // the entries before it
  std::size_t reads_under_way_{};
  bool is_broken_{};  // an operation failed, and the QP is in error
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    return 2;
  }
  Initiator initiator{torture::journal_in(arguments[1]), std::strtoull(arguments[3], nullptr, 10)};
  initiator.run(std::strtoull(arguments[2], nullptr, 10));
  return 0;
}
