#pragma once

// What the headers of rdma-core 46 and later have for FLUSH, and Debian 12's have not.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace later {

inline constexpr unsigned kAccessFlushGlobal = 1U << 8;      // IBV_ACCESS_FLUSH_GLOBAL
inline constexpr unsigned kAccessFlushPersistent = 1U << 9;  // IBV_ACCESS_FLUSH_PERSISTENT
inline constexpr unsigned kQpExWithFlush = 1U << 11;         // IBV_QP_EX_WITH_FLUSH
inline constexpr int kWcFlush = 8;                           // IBV_WC_FLUSH
inline constexpr std::uint8_t kFlushGlobal = 1;              // IBV_FLUSH_GLOBAL
inline constexpr std::uint8_t kFlushPersistent = 2;          // IBV_FLUSH_PERSISTENT
inline constexpr std::uint8_t kFlushRange = 0;               // IBV_FLUSH_RANGE
inline constexpr std::uint8_t kFlushMr = 1;                  // IBV_FLUSH_MR

/// ibv_qp_ex as those headers have it.
struct QpEx {
  ibv_qp_ex before;
  void (*wr_flush)(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_address,
                   std::size_t length, std::uint8_t type, std::uint8_t level);
};

/// ibv_wr_flush, inline there as well.
inline void ibv_wr_flush(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_address,
                         std::size_t length, std::uint8_t type, std::uint8_t level) {
  void* const whole = qp;
  static_cast<QpEx*>(whole)->wr_flush(qp, rkey, remote_address, length, type, level);
}

}  // namespace later
