#pragma once

// What a program holds on its host's HCAs, for the kernel's view of the host (RDMA netlink): the
// daemon asks when somebody wants to see it, and the program's control thread answers. Numbers are
// the program's own; the daemon makes them a host's.

#include <cstdint>
#include <vector>

#include "base/identifiers.h"

namespace weft::uabi {

/// Of each kind in one message; policy.
inline constexpr std::size_t kMaxHeldObjects = 128;

struct HeldPd {
  std::uint32_t number{};
  std::uint32_t uses{};
};
struct HeldCq {
  std::uint32_t number{};
  std::uint32_t capacity{};
  std::uint32_t uses{};
};
struct HeldMr {
  std::uint32_t number{};
  std::uint32_t lkey{};
  std::uint32_t rkey{};
  std::uint64_t length{};
  std::uint32_t pd{};
};
struct HeldSrq {
  std::uint32_t number{};
  bool is_xrc{};
  std::uint32_t pd{};
  std::uint32_t cq{};  // 0: none
};
struct HeldQp {
  Qpn number;
  std::uint8_t type{};   // IBV_QPT_*
  std::uint8_t state{};  // IBV_QPS_*
  std::uint8_t port{};   // 0: none yet
  std::uint8_t migration{};
  Qpn dest;
  std::uint32_t rq_psn{};
  std::uint32_t sq_psn{};
  std::uint32_t pd{};
  std::uint8_t placement{};  // host::PlacementWay
};

/// Daemon to program.
struct ListObjects {
  std::uint32_t request{};
};

/// Answer to ListObjects: part of what is held on one HCA (counted from 0). The last message of all
/// says so, and may hold nothing.
struct ObjectsHeld {
  std::uint32_t request{};
  std::uint32_t hca{};
  bool is_last{};
  std::vector<HeldPd> pds;
  std::vector<HeldCq> cqs;
  std::vector<HeldMr> mrs;
  std::vector<HeldSrq> srqs;
  std::vector<HeldQp> qps;
};

}  // namespace weft::uabi
