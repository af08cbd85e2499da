#pragma once

// What the two programs of the torture test of one-sided operations share: a file that both map.
// The initiator writes down each operation before it posts it, and what came of it, so that it is
// known which values an octet of the target's memory can have, also after the initiator was killed.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "verbs_end.h"

namespace torture {

constexpr std::size_t kRegions = 8;
constexpr std::size_t kDepth = 16;             // operations under way
constexpr std::uint32_t kMaxBytes = 1U << 16;  // of a region
constexpr std::chrono::seconds kPatience{60};  // policy: for anything that the other side does

/// The values that an octet can have: one, or more after operations whose outcome is not known.
class Octet {
 public:
  void become(std::uint8_t value) {
    values_[0] = value;
    count_ = 1;
  }
  void may_become(std::uint8_t value) {
    if (can_be(value)) {
      return;
    }
    if (count_ < values_.size()) {
      values_[count_] = value;
    }
    ++count_;  // beyond the last one: any value
  }
  [[nodiscard]] bool can_be(std::uint8_t value) const {
    return count_ > values_.size() ||
           std::find(values_.begin(), values_.begin() + count_, value) != values_.begin() + count_;
  }
  [[nodiscard]] bool is_certain() const { return count_ == 1; }

 private:
  std::uint8_t count_;
  std::array<std::uint8_t, 7> values_;
};

/// Memory of the target, as the initiator sees it.
struct Region {
  std::atomic<std::uint32_t> phase;  // odd: may be used, though its key may have ended already
  std::uint32_t rkey;
  std::uint64_t address;
  std::uint32_t length;
  std::array<Octet, kMaxBytes> octets;
};

enum class Kind : std::uint8_t { Write, Read, Add };
constexpr std::size_t kKinds = 3;

enum class Progress : std::uint8_t {
  None,     // the entry is free
  Posted,   // or about to be
  Success,  // its values are being noted
};

struct Operation {
  std::atomic<Progress> progress;
  Kind kind;
  std::uint32_t serial;
  std::uint32_t region;
  std::uint32_t phase;  // of the region
  std::uint32_t offset;
  std::uint32_t length;

  [[nodiscard]] bool is_of(std::uint32_t which, std::uint32_t when) const {
    return progress.load() != Progress::None && region == which && phase == when;
  }
};

/// What operation `serial` writes to octet `at` of a region.
[[nodiscard]] constexpr std::uint8_t value_of(std::uint32_t serial, std::uint32_t at) {
  return static_cast<std::uint8_t>(serial * 37 + at * 7 + (at >> 8U));
}
/// What an Add adds.
[[nodiscard]] constexpr std::uint64_t addend_of(std::uint32_t serial) {
  return serial * 0x9e37'79b9'7f4a'7c15U;
}

struct Journal {
  // The initiator asks for a connection of its QP, whose packets begin with PSN `wish`.
  crash::Peer initiator;
  crash::Peer target;
  std::atomic<std::uint32_t> wish;
  std::atomic<std::uint32_t> answer;
  std::atomic<std::uint32_t> next_serial;
  std::array<std::atomic<std::uint64_t>, kKinds> successes;
  std::atomic<std::uint64_t> failures;
  std::array<Operation, kDepth> operations;
  std::array<Region, kRegions> regions;
};

/// The journal in `path`, which the test made, as zeros.
[[nodiscard]] inline Journal& journal_in(const char* path) {
  const int file = open(path, O_RDWR | O_CLOEXEC);
  crash::require(file >= 0 && ftruncate(file, sizeof(Journal)) == 0, path);
  void* const memory = mmap(nullptr, sizeof(Journal), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  crash::require(memory != MAP_FAILED, "mmap of the journal");
  close(file);
  return *static_cast<Journal*>(memory);
}

/// Waits for the other side, in turns with `meanwhile()`.
template <class Condition, class Meanwhile>
void wait_until(Condition holds, const char* what, Meanwhile meanwhile) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    errno = ETIMEDOUT;
    crash::require(std::chrono::steady_clock::now() < deadline, what);
    meanwhile();
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
}

/// Connects a QP in any state to a peer. All that it had under way is gone.
inline void connect(ibv_qp* qp, crash::Peer peer, std::uint32_t psn) {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RESET;
  crash::require(ibv_modify_qp(qp, &to, IBV_QP_STATE) == 0, "modify QP to RESET");
  to.qp_state = IBV_QPS_INIT;
  to.port_num = 1;
  to.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  crash::require(
      ibv_modify_qp(qp, &to,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
      "modify QP to INIT");
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = IBV_MTU_4096;
  to.dest_qp_num = peer.qpn;
  to.rq_psn = psn;
  to.max_dest_rd_atomic = to.max_rd_atomic = 4;
  to.min_rnr_timer = 12;
  to.ah_attr.dlid = static_cast<std::uint16_t>(peer.lid);
  to.ah_attr.port_num = 1;
  crash::require(
      ibv_modify_qp(qp, &to,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
      "modify QP to RTR");
  to.qp_state = IBV_QPS_RTS;
  to.sq_psn = psn;
  to.timeout = 14;
  to.retry_cnt = to.rnr_retry = 7;
  crash::require(ibv_modify_qp(qp, &to,
                               IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
                 "modify QP to RTS");
}

/// PSN that the packets of connection number `wish` begin with.
[[nodiscard]] constexpr std::uint32_t first_psn(std::uint32_t wish) {
  return wish << 12U & 0xFF'FFFFU;
}

}  // namespace torture
